"""Which topics the driver has runners for, and when one is replaced."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base.clock import VirtualClock
from headrace.base.errors import Retriable
from headrace.core.contract import Egress, Reference, Resource, dump
from headrace.core.heartbeat import TopicReport
from headrace.dispatcher import driver
from headrace.dispatcher.config import ContractSource, DispatcherConfig
from headrace.dispatcher.driver import Driver
from headrace.dispatcher.selection import TopicPlan
from headrace.dispatcher.services import Services
from headrace.kafka.settings import Auth, KafkaSettings
from headrace.spark.pods import ExecutorPods
from headrace.spark.session import SparkRuntime
from tests.support.waiting import eventually

NOWHERE = KafkaSettings("127.0.0.1:1")
SECRET = Reference(namespace="ns", name="s", version="1")


class FakeRunner:
    """A runner that ends when the test says so."""

    made: list[FakeRunner]

    def __init__(self, services: Services, plan: TopicPlan, settings: KafkaSettings) -> None:
        self.plan, self.settings = plan, settings
        self.topic_id = ""
        self.report = TopicReport("run", "RUNNING")
        self.conditions: dict[str, dict[str, str]] = {}
        self.waiting: dict[str, int] = {}
        self.closing = self.ended = False
        FakeRunner.made.append(self)

    def start(self) -> None:
        """It serves."""

    def update(self, plan: TopicPlan) -> None:
        self.plan = plan

    def close(self) -> None:
        self.closing = True


class Rig:
    """A driver that was not started, whose contract and Secret are the test's."""

    def __init__(self, folder: Path) -> None:
        self.password = "first"
        self.clock = VirtualClock()
        self.offset = -1
        config = DispatcherConfig(
            kafka=NOWHERE,
            contract=ContractSource("contract"),
            work=folder / "work",
            logs=folder,
            java_home=folder,
            connector=(),
            ops_port=0,
            secrets=self.secret,
        )
        self.driver = Driver(config, self.clock)

    def secret(self, reference: Reference) -> Auth:
        if not self.password:
            raise Retriable("not there", subject="secret")
        return Auth.from_secret({"protocol": "SASL_PLAINTEXT", "user": "u", "password": self.password})

    def contract(self, resource: Resource | None) -> None:
        """What the contract says of resource r."""
        self.offset += 1
        self.driver._contract._apply("r", None if resource is None else dump(resource), self.offset)
        self.turn()

    def turn(self, seconds: float = 40.0) -> None:
        self.clock.advance(seconds)
        self.driver._reconcile()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    FakeRunner.made = []
    monkeypatch.setattr(driver, "TopicRunner", FakeRunner)
    monkeypatch.setattr(SparkRuntime, "alive", True)
    monkeypatch.setattr(SparkRuntime, "slots", lambda runtime: 8)
    made = Rig(tmp_path)
    yield made
    made.driver._services.table.close()
    made.driver._services.dataplane._writer.close()


def resource(servers: str = "other:9092") -> Resource:
    egress = Egress(uid="e", destination="http://127.0.0.1:1/", consumer_group="g")
    return Resource(uid="r", topics=("t",), bootstrap_servers=servers, auth_secret=SECRET, egresses=(egress,))


def replaced(rig: Rig) -> FakeRunner:
    """The runner that follows the first one once that has ended."""
    [first] = FakeRunner.made
    assert first.closing
    rig.turn()
    assert len(FakeRunner.made) == 1, "never two at once"
    first.ended = True
    rig.turn()
    assert len(FakeRunner.made) == 2
    return FakeRunner.made[1]


def test_a_changed_secret_reaches_a_running_topic(rig: Rig) -> None:
    rig.contract(resource())
    rig.password = "second"
    rig.turn()
    assert replaced(rig).settings.auth != FakeRunner.made[0].settings.auth


def test_a_changed_address_reaches_a_running_topic(rig: Rig) -> None:
    rig.contract(resource())
    rig.contract(resource("elsewhere:9092"))
    assert replaced(rig).settings.bootstrap_servers == "elsewhere:9092"


def test_a_running_topic_goes_on_while_its_secret_cant_be_had(rig: Rig) -> None:
    rig.contract(resource())
    rig.password = ""
    rig.turn()
    [runner] = FakeRunner.made
    assert not runner.closing
    assert set(runner.plan.lanes) == {"e"}


def test_a_topic_that_is_gone_is_forgotten_once_it_has_drained(rig: Rig) -> None:
    rig.contract(resource())
    rig.contract(None)
    [runner] = FakeRunner.made
    assert runner.closing
    assert "t" in rig.driver._topic_reports()
    runner.ended = True
    rig.turn()
    assert rig.driver._topic_reports() == {}


def test_the_driver_has_applied_a_contract_once_it_has_acted_on_it(rig: Rig) -> None:
    rig.driver._contract._apply("r", dump(resource()), 7)
    assert rig.driver._report().contract_offset == -1
    rig.turn()
    assert rig.driver._report().contract_offset == 7


def test_a_dispatcher_waits_for_its_executors_and_says_how_many_have_come(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    there = 1
    monkeypatch.setattr(SparkRuntime, "executors", property(lambda runtime: there))
    driver = with_executors(rig, 3)
    gathering = threading.Thread(target=driver._gather, args=(threading.Event(),))
    gathering.start()
    eventually(lambda: driver._missing()[0] == "1 of 3 executors have come", 20, "it says so")
    there = 2
    eventually(lambda: driver._missing()[0] == "2 of 3 executors have come", 20, "it says so")
    assert gathering.is_alive()
    there = 3
    gathering.join(20)
    assert not gathering.is_alive()
    assert "executors" not in driver._missing()[0]


def test_executors_that_stay_away_are_done_without(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkRuntime, "executors", 1)
    driver = with_executors(rig, 2)
    gathering = threading.Thread(target=driver._gather, args=(threading.Event(),))
    gathering.start()
    eventually(lambda: "1 of 2" in driver._missing()[0], 20, "it waits")
    rig.clock.advance(121)
    gathering.join(20)
    assert not gathering.is_alive()


def test_a_stop_ends_the_wait_for_executors(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkRuntime, "executors", 0)
    driver, stop = with_executors(rig, 2), threading.Event()
    stop.set()
    driver._gather(stop)


@pytest.mark.parametrize("gone", [True, False])
def test_a_jvm_that_died_is_what_is_told_of_a_call_that_failed(rig: Rig, monkeypatch: pytest.MonkeyPatch, gone: bool) -> None:
    monkeypatch.setattr(SparkRuntime, "pid", 7)
    monkeypatch.setattr(SparkRuntime, "gone", lambda self, seconds: gone)
    rig.driver._fail(ConnectionRefusedError("no"))
    assert isinstance(rig.driver._failure, Retriable if gone else ConnectionRefusedError)


def with_executors(rig: Rig, count: int) -> Driver:
    """The driver, asked for so many executors in pods."""
    pod = {"metadata": {"namespace": "n"}, "spec": {"containers": [{"image": "i"}]}}
    pods = ExecutorPods(count, 4, json.dumps(pod), pod="p", host="10.0.0.1")
    rig.driver._config = replace(rig.driver._config, pods=pods)
    return rig.driver
