"""Run ids sort as text, whatever topic and job: so the later writer of a position is known."""

from __future__ import annotations

import pytest

from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.progress_table import supersedes
from headrace.dispatcher.runs import job_name, next_run, topic_mark


def test_each_run_sorts_after_the_one_before_and_all_its_jobs() -> None:
    runs = [""]
    for _ in range(120):
        runs.append(next_run("orders", runs[-1]))
    ids = [name for run in runs[1:] for name in (run, job_name(run, 1), job_name(run, 2), job_name(run, 10))]
    assert ids == sorted(ids)


def test_runs_of_different_topics_differ() -> None:
    assert next_run("a", "") != next_run("b", "")
    assert topic_mark("a") == topic_mark("a")


@pytest.mark.parametrize("before", ["", "nonsense", "12"])
def test_what_is_no_run_id_counts_as_none(before: str) -> None:
    assert next_run("a", before).startswith("0000000001-")


def progress(run: str, low: int = 1) -> ProgressRecord:
    return ProgressRecord(Progress(low), uid="u", topic_id="t", run=run)


@pytest.mark.parametrize(
    ("known", "later", "taken"),
    [
        ("0000000001-a", "0000000001-a", True),
        ("0000000001-a", "0000000002-a", True),
        ("0000000002-a", "0000000001-a", False),
        ("0000000002-a", "", True),
        ("", "0000000001-a", True),
    ],
)
def test_progress_of_a_replaced_run_is_ignored(known: str, later: str, taken: bool) -> None:
    assert supersedes(progress(later), progress(known)) is taken
    assert supersedes(progress(later), None)
