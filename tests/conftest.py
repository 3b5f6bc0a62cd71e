"""Fixtures that several folders share: one real Kafka per run, topics with names of their own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from headrace.base.errors import HeadraceError
from headrace.kafka import ports
from headrace.kafka.admin import Admin
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.java import java_home
from headrace.kafka.runtime import QUICK_JVM
from headrace.kafka.settings import KafkaSettings


class TopicFactory(Protocol):
    """Makes a topic that nobody else uses, and returns its name."""

    def __call__(self, partitions: int = 1, *, config: Mapping[str, str] | None = None, prefix: str = "t") -> str: ...


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    """The Kafka of this run: `HEADRACE_TEST_BOOTSTRAP` if that is set, else an embedded one."""
    given = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if given:
        yield KafkaSettings(given)
        return
    folder: Path = tmp_path_factory.mktemp("kafka")
    java = java_home(os.environ.get("HEADRACE_JAVA", "auto"))
    with EmbeddedKafka(folder, java=java, jvm_options=QUICK_JVM) as embedded:
        yield embedded.settings


@pytest.fixture(scope="session")
def admin(kafka: KafkaSettings) -> Admin:
    """The administrative side of this run's Kafka."""
    return Admin(kafka)


@pytest.fixture
def topic(admin: Admin) -> Iterator[TopicFactory]:
    """`topic(partitions=3, config={...})` makes a topic of its own; it is deleted after the test."""
    made: list[str] = []

    def make(partitions: int = 1, *, config: Mapping[str, str] | None = None, prefix: str = "t") -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        admin.create_topic(name, partitions, config=config)
        made.append(name)
        return name

    yield make
    for name in made:
        try:
            admin.delete_topic(name)
        except HeadraceError:
            # A Kafka that the test has stopped keeps its topics.
            pass


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Each call gives a port of the loopback address that nobody listens on."""
    return ports.free_port
