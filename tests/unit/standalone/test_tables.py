"""The pictures that the controller keeps of positions and reports: when the control plane has to look again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.base.errors import Terminal
from headrace.core.heartbeat import LaneReport, ReceiverReport, WorkerReport, encode_report
from headrace.core.progress import Progress, ProgressRecord
from headrace.home.tables import PositionTable, ReportTable

WORKER = WorkerReport(topic="t", topic_id="i", run="r", index=0, workers=1, at=1, lanes={"a": LaneReport()})
RECEIVER = ReceiverReport(instance="x", at=1, contract_offset=3)


class Changes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def progress(low: int, topic_id: str = "t1") -> bytes:
    return ProgressRecord(Progress.initial(low), uid="lane", topic_id=topic_id).encode()


def test_positions_that_move_are_no_news_but_another_topic_is() -> None:
    changes = Changes()
    table = PositionTable(changes)
    table.apply("lane/0", progress(1), 0)
    assert changes.count == 1
    for low in range(2, 50):
        table.apply("lane/0", progress(low), low)
    assert changes.count == 1
    assert table.records("lane")[0].progress.low == 49
    table.apply("lane/0", progress(0, "t2"), 60)
    assert changes.count == 2
    assert table.topic_ids() == {"lane": {0: "t2"}}
    table.apply("lane/0", None, 61)
    assert changes.count == 3
    assert table.topic_ids() == {}


def test_a_progress_record_that_cannot_be_read_leaves_the_old_one() -> None:
    table = PositionTable(lambda: None)
    table.apply("lane/0", progress(1), 0)
    table.apply("lane/0", b"{", 1)
    assert table.topic_ids() == {"lane": {0: "t1"}}


def test_running_figures_are_no_news_but_states_and_offsets_are() -> None:
    changes = Changes()
    table = ReportTable(changes)
    table.caught_up()

    def report(*reports: WorkerReport | ReceiverReport) -> int:
        before = changes.count
        for one in reports:
            table.apply(*encode_report(one), 0)
        return changes.count - before

    assert report(WORKER, RECEIVER) == 2
    busy = replace(WORKER, at=2, head=7, events=9, lanes={"a": LaneReport(position=3, rate=2.0, lag=1)})
    assert report(busy, replace(RECEIVER, at=2)) == 0
    assert table.workers()[0].head == 7
    assert report(replace(RECEIVER, at=3, contract_offset=4)) == 1
    assert report(replace(busy, at=3, lanes={"a": LaneReport(state="PARKED")})) == 1
    assert report(replace(busy, at=4, goodbye=True)) == 1


def test_of_the_history_only_the_last_report_of_each_counts() -> None:
    changes = Changes()
    table = ReportTable(changes)
    for at in range(1, 100):
        table.apply(*encode_report(replace(RECEIVER, at=at)), at)
    table.apply("receiver/broken", b"{", 100)
    assert (changes.count, table.receivers()) == (0, [])
    table.caught_up()
    assert changes.count == 1
    assert [report.at for report in table.receivers()] == [99]
    with pytest.raises(Terminal):
        table.apply("receiver/broken", b"{", 101)


def test_what_nobody_renews_is_forgotten() -> None:
    table = ReportTable(lambda: None)
    table.caught_up()
    table.apply(*encode_report(replace(RECEIVER, at=1000)), 0)
    table.apply(*encode_report(replace(WORKER, at=5000)), 1)
    table.forget_older_than(2000)
    assert table.receivers() == []
    assert len(table.workers()) == 1
