"""What the workers of a live run are told of their partitions, however late Spark says it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.base.errors import Retriable
from headrace.dispatcher import live_run
from headrace.dispatcher.live_run import LiveRun
from headrace.dispatcher.spec import LaneOrders
from tests.unit.dispatcher.fakes import FakeLog, FakeRuns, World, lanes


class FakeQuery:
    """A query whose plan is known when the test says so. `asked`: how often it was looked at."""

    def __init__(self) -> None:
        self.planned: tuple[int, ...] = ()
        self.asked = 0

    def start(self, starts: object, function: object, batch_seconds: int) -> None:
        """It runs."""

    def partitions(self) -> tuple[int, ...]:
        self.asked += 1
        return self.planned


class Orders(FakeRuns):
    """Runs whose orders Kafka takes, or not."""

    away = False

    def order(self, orders: LaneOrders) -> int:
        if self.away:
            raise Retriable("does not answer", subject="Kafka")
        self.orders.append(orders)
        return len(self.orders)


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> FakeQuery:
    made = FakeQuery()
    monkeypatch.setattr(live_run, "LiveQuery", lambda session, source, work: made)
    return made


@pytest.fixture
def world() -> World:
    return World(FakeLog({0: 0, 1: 0}, {0: 0, 1: 0}))


def live(world: World, orders: Orders) -> LiveRun:
    spark = SimpleNamespace(session=None, settings=SimpleNamespace(work="work"))
    spec = world.prepared(lanes("a")).spec("run")
    run = LiveRun(cast(Any, spark), cast(Any, orders), world.config.timing, world.clock, spec)
    run.start()
    return run


def test_a_plan_that_comes_late_is_told_all_the_same(query: FakeQuery, world: World) -> None:
    orders = Orders()
    run = live(world, orders)
    for _ in range(1_200):
        run.learn_partitions()
        world.clock.advance(0.1)
    assert query.asked < 250, "after the first seconds it is asked for once a second"
    query.planned = (1, 0)
    world.clock.advance(1.0)
    run.learn_partitions()
    assert run.partitions == (1, 0)
    assert orders.orders == [LaneOrders(partitions=(1, 0))]


def test_an_order_that_kafka_did_not_take_is_given_again(query: FakeQuery, world: World) -> None:
    orders = Orders()
    run = live(world, orders)
    query.planned = (1, 0)
    orders.away = True
    with pytest.raises(Retriable):
        run.learn_partitions()
    orders.away = False
    run.learn_partitions()
    assert orders.orders == [LaneOrders(partitions=(1, 0))]
