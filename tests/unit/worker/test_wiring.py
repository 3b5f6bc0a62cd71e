"""What a worker makes of the contract, and of its own phases, without a Kafka."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.base.clock import VirtualClock
from headrace.core.contract import Egress, Resource, dump
from headrace.core.contractlog import CONTRACT_KEY, run_record
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.spec import Mode, Task, WorkerSpec
from headrace.dispatcher.worker.engine import Engine, Phase
from headrace.dispatcher.worker.feed import Feed
from headrace.dispatcher.worker.pulse import BEAT
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.roster import Roster
from headrace.dispatcher.worker.window import Window
from headrace.kafka.settings import KafkaSettings
from tests.support.frames import event_frame
from tests.support.subscriber import subscriber
from tests.support.waiting import eventually

NOWHERE = KafkaSettings("127.0.0.1:1")


def spec(**more: Any) -> WorkerSpec:
    positions = {"lane": {0: ProgressRecord(Progress.initial(0), "lane", "id").encode()}}
    values: dict[str, Any] = {"run": "2", "workers": 1, "starts": {0: 0}, "positions": positions, **more}
    return WorkerSpec(instance="i", topic="t", topic_id="id", kafka=NOWHERE, control=NOWHERE, **values)


@pytest.mark.parametrize("newer", ["3", "10-else"])
def test_a_newer_run_that_comes_between_the_end_of_the_contract_and_the_beginning_ends_the_worker(newer: str) -> None:
    left: list[int] = []
    feed = Feed(spec(), left.append)
    feed.take(*run_record("t", "2", 0), 1)
    key, value = run_record("t", newer, 0)
    feed.watch(key, value)
    feed.begin()
    assert left == []
    feed.take(key, value, 2)
    assert left == [0]


def test_runs_of_other_topics_end_nobody() -> None:
    left: list[int] = []
    feed = Feed(spec(), left.append)
    feed.take(*run_record("t", "2", 0), 1)
    feed.begin()
    feed.take(*run_record("other", "9", 0), 2)
    assert left == []


def test_a_new_generation_of_the_contract_makes_no_subscription_anew_unless_the_trust_has_changed() -> None:
    feed, roster = Feed(spec(), lambda code: None), Roster(spec(), Window.open())
    feed.take("r", dump(Resource(uid="r", topics=("t",), egresses=(Egress(uid="lane", destination="http://h/"),))), 1)
    roster.apply_all(feed.state)
    roster.bind(0, Ring(0, 10, 1000))
    before = roster.lanes["lane"].subscription
    made: list[str] = []
    roster._egress = lambda resource, egress, state: made.append(egress.uid)  # type: ignore[method-assign]
    for generation, trust, expected in ((1, [], 0), (2, [], 0), (3, ["PEM"], 1), (4, ["PEM"], 1)):
        change = feed.take(
            CONTRACT_KEY, b'{"generation": "%d", "trustBundles": %s}' % (generation, str(trust).replace("'", '"').encode()), 2
        )
        assert change is not None
        roster.apply(feed.state, change)  # type: ignore[arg-type]
        assert len(made) == expected
    assert roster.lanes["lane"].subscription is before


def let_go(engine: Engine) -> None:
    """Close an engine that was never started."""
    engine._over = True
    engine._thread.start()
    engine.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(spec(mode=Mode.LIVE), Task(), VirtualClock(), lambda code: None)
    yield made
    let_go(made)


def test_a_worker_that_has_stopped_sleeps_whatever_was_still_due(engine: Engine) -> None:
    engine._finder.next_look = 1.0
    for phase in (Phase.RUNNING, Phase.STOPPED):
        engine._phase = phase
        assert engine._until_next() == (BEAT if phase is Phase.STOPPED else 0.0)


class ContractSoFar:
    """The contract's reader, as far as the test lets it get."""

    ready = True
    position = 3


@pytest.mark.parametrize("replaced", [False, True])
def test_a_worker_that_stood_still_sends_nothing_before_it_has_read_what_the_contract_says_now(replaced: bool) -> None:
    clock, contract = VirtualClock(), ContractSoFar()
    with subscriber() as server:
        engine = Engine(spec(partitions=(0,)), Task(), clock, sys.exit)
        asked: list[Callable[[int], None]] = []
        engine._lookups.contract_end = asked.append  # type: ignore[method-assign, assignment]
        engine._contract = contract
        engine.contract_record(*run_record("t", "2", 0), 1)
        lane = Egress(uid="lane", destination=server.url())
        engine.contract_record("r", dump(Resource(uid="r", topics=("t",), egresses=(lane,))), 2)
        engine.intake.put([event_frame(0, 0)])
        eventually(lambda: (engine._work(), not engine._client.unfinished and server.ids == ["0"])[1])
        clock.advance(10.0)
        engine.intake.put([event_frame(0, 1)])
        for position in (3, 3, 4):
            contract.position = position
            for _ in range(3):
                engine._work()
            assert len(engine.intake) == 1
            if asked:
                asked.pop()(5)
        if replaced:
            with pytest.raises(SystemExit):
                engine.contract_record(*run_record("t", "3", 0), 4)
            assert server.ids == ["0"]
        else:
            contract.position = 5
            eventually(lambda: (engine._work(), server.ids == ["0", "1"])[1])
        let_go(engine)


def test_a_job_tells_where_its_lanes_came_to_rest_whatever_the_contract_says_afterwards() -> None:
    engine = Engine(spec(mode=Mode.CATCHUP, job="job", partitions=(0,), ends={0: 0}), Task(), VirtualClock(), sys.exit)
    engine._contract = ContractSoFar()
    engine.contract_record(*run_record("t", "2", 0), 1)
    egress = Egress(uid="lane", destination="http://h/")
    engine.contract_record("r", dump(Resource(uid="r", topics=("t",), egresses=(egress,))), 2)
    engine._work()
    engine._finish()
    engine.contract_record("r", None, 3)
    engine._work()
    assert [(uid, partition) for uid, partition, _ in engine.final_records()] == [("lane", 0)]
    let_go(engine)
