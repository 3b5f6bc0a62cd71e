"""Progress against a naive set, and its records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import Terminal
from headrace.core.progress import Progress, ProgressRecord, Straggler, parse_progress_key, progress_key

offsets = st.integers(0, 60)


def finished(progress: Progress, upto: int = 80) -> set[int]:
    return {offset for offset in range(upto) if progress.is_done(offset)}


@st.composite
def progresses(draw: st.DrawFn) -> tuple[Progress, set[int]]:
    """A progress and the naive set of what it says is finished (of the offsets below 80)."""
    start = draw(offsets)
    naive = set(range(start))
    progress = Progress.initial(start)
    for offset in draw(st.lists(offsets, max_size=40)):
        progress = progress.complete(offset)
        naive.add(offset)
    return progress, naive


@given(progresses())
def test_complete_agrees_with_a_naive_set(case: tuple[Progress, set[int]]) -> None:
    progress, naive = case
    assert finished(progress) == naive
    assert progress.low == min(set(range(80)) - naive)


@given(progresses())
def test_ranges_are_sorted_and_never_touch(case: tuple[Progress, set[int]]) -> None:
    progress, _ = case
    edges = [progress.low - 1, *(edge for pair in progress.done for edge in pair)]
    assert all(first <= last for first, last in progress.done)
    assert all(start > end + 1 for end, start in zip(edges[0::2], edges[1::2], strict=False))


@given(st.integers(20, 60), st.sets(st.integers(0, 59), max_size=20), progresses())
def test_of_is_all_below_the_cursor_but_the_unfinished_and_what_was_finished_before(
    cursor: int, open_: set[int], case: tuple[Progress, set[int]]
) -> None:
    before, naive = case
    unfinished = {offset for offset in open_ if offset < cursor}
    progress = Progress.of(cursor, unfinished, before=before)
    assert finished(progress) == (set(range(cursor)) - unfinished) | {offset for offset in naive if offset >= cursor}


@given(progresses(), st.lists(st.tuples(offsets, st.integers(0, 9)), max_size=5))
def test_what_is_reopened_and_nothing_else_is_unfinished_again(
    case: tuple[Progress, set[int]], given: list[tuple[int, int]]
) -> None:
    progress, naive = case
    ranges = sorted((first, first + more) for first, more in given)
    reopened = {offset for first, last in ranges for offset in range(first, last + 1)}
    assert finished(progress.reopened(ranges)) == naive - reopened


@given(progresses(), offsets)
def test_a_log_that_ends_earlier_leaves_what_is_known_below(case: tuple[Progress, set[int]], end: int) -> None:
    progress, naive = case
    cut = progress.cut_at(end)
    assert finished(cut) == {offset for offset in naive if offset < end}
    assert cut.reach <= end


@given(progresses(), offsets)
def test_unfinished_below_counts_what_is_not_finished(case: tuple[Progress, set[int]], offset: int) -> None:
    progress, naive = case
    assert progress.unfinished_below(offset) == len(set(range(offset)) - naive)


@given(progresses(), st.sets(offsets, max_size=6))
def test_position_is_the_lowest_that_is_neither_finished_nor_waiting(
    case: tuple[Progress, set[int]], waiting: set[int]
) -> None:
    progress, naive = case
    stragglers = [Straggler(offset, 1, 5) for offset in waiting - naive]
    cursor = progress.reach
    open_ = {offset for offset in range(cursor) if not progress.is_done(offset)}
    whole = Progress.of(max([cursor, *(offset + 1 for offset in waiting - naive)]), open_, stragglers)
    expected = min(set(range(90)) - finished(whole) - {one.offset for one in whole.stragglers})
    assert whole.position == expected
    assert {one.offset for one in whole.stragglers} == waiting - naive


def test_a_straggler_above_the_cursor_finishes_nothing_below_it() -> None:
    progress = Progress.of(10, [4], [Straggler(20, 3, 1)])
    assert (progress.low, progress.done, progress.position) == (4, ((5, 9),), 4)
    assert Progress.of(10, (), [Straggler(12, 1, 1), Straggler(10, 1, 1)]).position == 11


@given(progresses(), offsets)
def test_moved_to_finishes_all_below(case: tuple[Progress, set[int]], target: int) -> None:
    progress, naive = case
    assert finished(progress.moved_to(target)) == naive | set(range(target))


def test_a_straggler_that_completes_is_none_any_more() -> None:
    progress = Progress.of(10, (), [Straggler(4, 2, 100), Straggler(7, 1, 200)])
    assert progress.low == 4
    assert progress.position == 10
    after = progress.complete(4)
    assert (after.low, after.stragglers, after.position) == (7, (Straggler(7, 1, 200),), 10)


@given(progresses(), st.sets(offsets, max_size=5), st.booleans())
def test_a_record_comes_back_as_it_was(case: tuple[Progress, set[int]], waiting: set[int], parked: bool) -> None:
    progress, naive = case
    stragglers = tuple(Straggler(offset, 3, 1_700_000_000_000) for offset in sorted(waiting - naive))
    record = ProgressRecord(Progress(progress.low, progress.done, stragglers), "u-1", "t-1", run="r", at=17, parked=parked)
    assert ProgressRecord.decode(record.encode()) == record


def test_the_shorter_encoding_is_chosen() -> None:
    scattered = Progress.of(1200, range(1000, 1128, 2))
    distant = Progress.of(5_000_000, [1000])
    assert "bits" in json.loads(ProgressRecord(scattered, "u", "t").encode())
    assert json.loads(ProgressRecord(distant, "u", "t").encode())["done"] == [1, 4_998_999]
    assert len(ProgressRecord(scattered, "u", "t").encode()) < 150


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"low": -1, "uid": "u", "topicId": "t"}',
        b'{"low": "7", "uid": "u", "topicId": "t"}',
        b'{"low": 7, "uid": "u"}',
        b'{"low": 7, "uid": "u", "topicId": "t", "done": [1]}',
        b'{"low": 7, "uid": "u", "topicId": "t", "done": [1, 0]}',
        b'{"low": 7, "uid": "u", "topicId": "t", "bits": "?"}',
        b'{"low": 7, "uid": "u", "topicId": "t", "stragglers": [[7]]}',
    ],
)
def test_what_is_not_a_record_is_refused(value: bytes) -> None:
    with pytest.raises(Terminal, match="progress"):
        ProgressRecord.decode(value)


def test_a_record_of_another_lane_or_topic_does_not_concern() -> None:
    record = ProgressRecord(Progress.initial(5), "u-1", "t-1")
    assert record.concerns("u-1", "t-1")
    assert not record.concerns("u-2", "t-1")
    assert not record.concerns("u-1", "t-2")


def test_keys_round_trip_and_foreign_keys_are_refused() -> None:
    assert parse_progress_key(progress_key("a/b", 3)) == ("a/b", 3)
    for key in ("", "x", "/3", "u/", "u/-1"):
        with pytest.raises(Terminal):
            parse_progress_key(key)
