"""Which groups are committed when: moved lanes first, all of them hourly, those that refuse not at every turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.base.clock import VirtualClock
from headrace.base.errors import Retriable
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.mirror import Agenda, Mirror, Target, positions
from headrace.kafka.settings import KafkaSettings
from tests.unit.dispatcher.fakes import FakeTable


def test_new_lanes_are_due_at_once_and_then_in_an_hour() -> None:
    agenda = Agenda()
    agenda.keep(["a", "b", "c"], now=0.0)
    assert agenda.take(2, 0.0) == ["a", "b"]
    assert agenda.take(2, 0.5) == ["c"]
    assert agenda.take(2, 2_999.0) == []
    assert sorted(agenda.take(5, 3_001.0)) == ["a", "b", "c"]


def test_moved_lanes_come_first_in_the_order_in_which_they_moved() -> None:
    agenda = Agenda()
    agenda.keep([f"lane-{number}" for number in range(10)], now=0.0)
    agenda.moved("lane-7")
    agenda.moved("lane-3")
    agenda.moved("lane-7")
    assert agenda.take(3, 0.0) == ["lane-7", "lane-3", "lane-0"]


def test_a_lane_that_moves_all_the_time_does_not_starve_the_others() -> None:
    agenda = Agenda()
    agenda.keep(["a", "b", "c"], now=0.0)
    agenda.take(3, 0.0)
    for uid in ("a", "b", "c"):
        agenda.moved(uid)
    taken = []
    for turn in range(3):
        taken += agenda.take(1, turn)
        agenda.moved("a")
    assert taken == ["a", "b", "c"]


def test_a_group_that_refused_waits_half_a_minute_however_much_it_moves() -> None:
    agenda = Agenda()
    agenda.keep(["a"], now=0.0)
    agenda.take(1, 0.0)
    agenda.again("a", 0.0)
    agenda.moved("a")
    assert agenda.take(1, 29.0) == []
    assert agenda.take(1, 31.0) == ["a"]


def test_lanes_that_are_gone_are_forgotten() -> None:
    agenda = Agenda()
    agenda.keep(["a", "b"], now=0.0)
    agenda.moved("a")
    agenda.keep(["b"], now=1.0)
    agenda.moved("a")
    assert agenda.take(5, 1.0) == ["b"]


def test_the_group_says_the_lowest_unfinished_offset_of_this_topic_alone() -> None:
    target = Target("u", "g", "t", "id-1", KafkaSettings("127.0.0.1:9092"))
    records = {
        0: ProgressRecord(Progress(7, ((9, 12),)), uid="u", topic_id="id-1"),
        1: ProgressRecord(Progress(5), uid="u", topic_id="id-0"),
    }
    assert positions(records, target) == {0: 7}


Commits = Mapping[str, Mapping[tuple[str, int], int]]
HERE = KafkaSettings("127.0.0.1:9092")


class FakeGroups:
    """Kafka's groups. `during`: called while a commit is under way."""

    def __init__(self) -> None:
        self.committed: dict[str, Mapping[tuple[str, int], int]] = {}
        self.away = False
        self.during: Callable[[], None] = lambda: None

    def commit_many(self, commits: Commits) -> dict[str, dict[tuple[str, int], object]]:
        if self.away:
            raise Retriable("does not answer", subject="Kafka")
        self.during()
        self.committed |= commits
        return {}


@pytest.fixture
def groups() -> FakeGroups:
    return FakeGroups()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def mirror(groups: FakeGroups, clock: VirtualClock) -> Mirror:
    table = FakeTable()
    table.put("u", 0, Progress(7))
    return Mirror(cast(Any, table), cast(Any, SimpleNamespace(of=lambda settings: groups)), clock, rate=100)


TARGETS = {"u": Target("u", "g", "t", "id-1", HERE)}


def test_lanes_that_could_not_be_committed_are_due_again_soon(mirror: Mirror, groups: FakeGroups, clock: VirtualClock) -> None:
    mirror.keep(TARGETS, 1)
    groups.away = True
    mirror._round(10)
    groups.away = False
    clock.advance(31.0)
    mirror._round(10)
    assert groups.committed == {"g": {("t", 0): 7}}


def test_the_contract_counts_as_applied_once_nothing_is_under_way_for_lanes_that_it_dropped(
    mirror: Mirror, groups: FakeGroups
) -> None:
    mirror.keep(TARGETS, 1)
    assert mirror.applied == 1
    seen: list[int] = []

    def dropped() -> None:
        mirror.keep({}, 2)
        seen.append(mirror.applied)

    groups.during = dropped
    mirror._round(10)
    assert seen == [1]
    assert mirror.applied == 2
