"""Who of the workers is there, silent, or gone."""

from __future__ import annotations

from headrace.core.heartbeat import WorkerReport
from headrace.dispatcher.watch import Ear, Watch


def report(index: int, run: str = "r1", *, goodbye: bool = False) -> WorkerReport:
    return WorkerReport(topic="t", topic_id="id", run=run, index=index, workers=2, at=0, goodbye=goodbye)


def listening(until: float) -> Ear:
    ear = Ear(0.0)
    at = 0.0
    while at <= until:
        ear.heard(at)
        at += 1.0
    return ear


def test_a_worker_that_reports_is_not_silent() -> None:
    watch = Watch("r1", 2, now=0.0)
    for second in range(10):
        assert watch.take(report(0), second)
        assert watch.take(report(1), second)
    assert watch.complete
    assert watch.silent(10.0, listening(10.0)) == []


def test_a_worker_that_stops_reporting_is_silent_after_five_seconds() -> None:
    watch = Watch("r1", 2, now=0.0)
    watch.take(report(0), 1.0)
    for second in range(1, 8):
        watch.take(report(1), second)
    assert watch.silent(5.9, listening(6.0)) == []
    assert watch.silent(6.1, listening(6.0)) == [0]


def test_a_worker_gets_more_time_for_its_first_report() -> None:
    watch = Watch("r1", 2, now=0.0, patience=30.0)
    watch.take(report(1), 29.0)
    assert watch.silent(29.0, listening(29.0)) == []
    watch.take(report(1), 31.0)
    assert watch.silent(31.0, listening(31.0)) == [0]


def test_nobody_is_silent_while_kafka_is_away_and_all_get_time_afterwards() -> None:
    ear = listening(2.0)
    watch = Watch("r1", 1, now=0.0)
    watch.take(report(0), 2.0)
    assert watch.silent(60.0, ear) == []
    ear.heard(60.0)
    assert watch.silent(60.5, ear) == []
    for second in range(61, 66):
        ear.heard(second)
    assert watch.silent(65.5, ear) == [0]


def test_reports_of_another_run_and_impossible_ones_are_not_taken() -> None:
    watch = Watch("r2", 2, now=0.0)
    assert not watch.take(report(0, "r1"), 1.0)
    assert not watch.take(report(2, "r2"), 1.0)
    assert not watch.reports


def test_a_worker_that_said_goodbye_is_not_silent_but_gone() -> None:
    watch = Watch("r1", 2, now=0.0)
    watch.take(report(0), 1.0)
    watch.take(report(0, goodbye=True), 2.0)
    assert watch.all_known_gone
    assert not watch.all_gone
    assert watch.silent(20.0, listening(20.0)) == []
    watch.take(report(1, goodbye=True), 2.0)
    assert watch.all_gone
