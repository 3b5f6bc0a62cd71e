"""What tests of workers and of the controller begin with."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from tests.support.controllers import RunningController
from tests.support.subscriber import Subscriber, subscriber
from tests.support.workbench import Workbench


@pytest.fixture
def bench(kafka: KafkaSettings, admin: Admin) -> Iterator[Workbench]:
    made = Workbench(kafka, admin)
    yield made
    made.close()


@pytest.fixture
def sink() -> Iterator[Subscriber]:
    with subscriber() as server:
        yield server


@pytest.fixture(scope="module")
def controller(kafka: KafkaSettings) -> Iterator[RunningController]:
    running = RunningController(kafka)
    yield running
    running.stop()


@pytest.fixture
def http(controller: RunningController) -> Iterator[httpx.Client]:
    with controller.http() as client:
        yield client
