"""The life of a topic at the driver, without Spark: what it holds while it waits, and when slots go away under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headrace.base.clock import Deadline
from headrace.dispatcher import topic
from headrace.dispatcher.selection import TopicPlan
from headrace.dispatcher.topic import TopicRunner
from tests.support.waiting import eventually
from tests.unit.dispatcher.fakes import KAFKA, TOPIC, FakeLog, World, lanes


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(FakeLog({0: 0, 1: 0}, {0: 0, 1: 0}), slots=4, batch_interval=0.5)
    monkeypatch.setattr(topic, "Runs", lambda *details: made.runs)
    return made


@pytest.fixture
def start(world: World) -> Iterator[Callable[[], TopicRunner]]:
    """Starts the topic in bulk gear with one lane."""
    runners: list[TopicRunner] = []

    def starting() -> TopicRunner:
        runner = TopicRunner(world.services, TopicPlan(TOPIC, KAFKA, lanes("a")), KAFKA)
        runners.append(runner)
        runner.start()
        return runner

    yield starting
    for runner in runners:
        runner.close()
        assert runner.join(Deadline(20))


def test_a_topic_that_could_not_be_served_and_has_no_lanes_any_more_holds_no_slots(
    world: World, start: Callable[[], TopicRunner]
) -> None:
    world.table.away = True
    runner = start()
    eventually(lambda: runner.report.problem == "Retriable", 20, "the problem")
    runner.update(TopicPlan(TOPIC, KAFKA))
    eventually(lambda: runner.report.state == "STOPPED", 20, "the stop")
    assert world.slots.claimed == 0


def test_a_topic_whose_slots_are_gone_stops_and_says_so(world: World, start: Callable[[], TopicRunner]) -> None:
    runner = start()
    eventually(lambda: runner.report.state == "BULK", 20, "the run")
    world.slots.resize(1)
    eventually(lambda: runner.report.problem == "InsufficientSlots", 20, "the problem")
    assert runner.report.state == "STARTING"
    assert world.slots.claimed == 0
    world.slots.resize(4)
    runner.update(TopicPlan(TOPIC, KAFKA, lanes("a")))
    eventually(lambda: runner.report.state == "BULK", 20, "the run again")
    assert not runner.report.problem
