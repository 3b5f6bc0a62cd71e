"""The life of a topic at the driver, without Spark: what it holds while it waits, and when slots go away under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.base.clock import Deadline
from headrace.dispatcher import topic
from headrace.dispatcher.config import Timing
from headrace.dispatcher.live_run import Ending
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


class FakeQuery:
    """A live query that runs until it is told why it ends."""

    state, problem, run = "RUNNING", "", "run"

    def __init__(self, *details: Any) -> None:
        self.ending: Ending | None = None
        self.looks = 0
        made.append(self)

    def begin(self) -> None:
        """It runs."""

    def tick(self, lanes: object) -> None:
        """Nothing happens to it."""

    def backlog(self) -> int:
        self.looks += 1
        return 0

    def finish(self, ending: Ending) -> None:
        self.ending = ending


made: list[FakeQuery] = []


def test_a_live_query_begins_anew_when_executors_come_and_not_when_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(FakeLog({0: 0, 1: 0}, {0: 0, 1: 0}), slots=8, timing=Timing(describe=1e9))
    monkeypatch.setattr(topic, "Runs", lambda *details: world.runs)
    monkeypatch.setattr(topic, "RealTime", FakeQuery)
    made.clear()
    runner = TopicRunner(world.services, TopicPlan(TOPIC, KAFKA, lanes("a")), KAFKA)
    runner.start()
    try:
        eventually(lambda: len(made) == 1, 20, "the query")
        world.slots.resize(4)
        looks = made[0].looks

        def later(what: bool) -> bool:
            world.clock.advance(3.0)
            return what

        eventually(lambda: later(made[0].looks > looks + 1), 20, "the runner has looked at its slots")
        assert made[0].ending is None, "half of the slots are enough"
        world.slots.resize(8)
        eventually(lambda: later(len(made) == 2), 20, "another query")
        assert made[0].ending == Ending("ExecutorsCame", planned=True)
    finally:
        runner.close()
        assert runner.join(Deadline(20))
