"""Where lanes start: every rule of the interfaces' "Offsets", one test each."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.progress import Progress, ProgressRecord, Straggler
from headrace.dispatcher.positions import (
    OFFSETS_EXPIRED,
    POSITION_LOST,
    LaneFacts,
    LanePosition,
    LogFacts,
    locate,
    needs_group,
    start_offsets,
)

LOG = LogFacts("id-1", begins={0: 10, 1: 0}, ends={0: 100, 1: 50})


def record(low: int, topic_id: str = "id-1", uid: str = "t1", done: tuple[tuple[int, int], ...] = ()) -> ProgressRecord:
    return ProgressRecord(Progress(low, done), uid=uid, topic_id=topic_id, run="0000000001-aa")


def lane(
    records: Mapping[int, ProgressRecord], *, initialised: bool = True, group: Mapping[int, int] | None = None
) -> LaneFacts:
    return LaneFacts("t1", initialised, records, group or {})


def lows(position: LanePosition) -> dict[int, int]:
    return {partition: one.progress.low for partition, one in position.records.items()}


def test_what_is_stored_is_the_truth_whatever_the_group_says() -> None:
    facts = lane({0: record(20), 1: record(7)}, group={0: 90, 1: 40})
    found = locate(facts, LOG, 5)
    assert lows(found) == {0: 20, 1: 7}
    assert not found.fresh
    assert not found.problems
    assert not needs_group(facts, LOG)


def test_an_added_partition_is_served_from_its_beginning() -> None:
    found = locate(lane({0: record(20)}), LOG, 5)
    assert lows(found) == {0: 20, 1: 0}
    assert found.fresh == {1}
    assert not found.problems


def test_a_topic_made_anew_is_served_from_its_beginning() -> None:
    found = locate(lane({0: record(70, "id-0"), 1: record(40, "id-0")}), LOG, 5)
    assert lows(found) == {0: 10, 1: 0}
    assert found.fresh == {0, 1}
    assert all(one.topic_id == "id-1" for one in found.records.values())
    assert not found.problems


def test_a_lane_that_was_never_initialised_starts_at_the_end() -> None:
    found = locate(lane({}, initialised=False), LOG, 5)
    assert lows(found) == {0: 100, 1: 50}
    assert found.fresh == {0, 1}
    assert not found.problems


def test_a_lane_that_was_never_initialised_goes_on_where_its_group_was() -> None:
    facts = lane({}, initialised=False, group={0: 33, 1: 44})
    assert needs_group(facts, LOG)
    found = locate(facts, LOG, 5)
    assert lows(found) == {0: 33, 1: 44}
    assert not found.problems


def test_an_initialised_lane_without_progress_takes_its_group_and_says_so() -> None:
    found = locate(lane({}, group={0: 33, 1: 44}), LOG, 5)
    assert lows(found) == {0: 33, 1: 44}
    assert POSITION_LOST in found.problems


def test_an_initialised_lane_without_progress_and_group_starts_at_the_earliest_never_the_latest() -> None:
    found = locate(lane({}), LOG, 5)
    assert lows(found) == {0: 10, 1: 0}
    assert POSITION_LOST in found.problems


def test_a_record_of_another_lane_counts_as_none() -> None:
    found = locate(lane({0: record(20, uid="other"), 1: record(7, uid="other")}, initialised=False), LOG, 5)
    assert lows(found) == {0: 100, 1: 50}


def test_what_retention_removed_is_skipped_and_counted() -> None:
    found = locate(lane({0: record(4, done=((6, 7), (12, 13))), 1: record(7)}), LOG, 5)
    assert lows(found) == {0: 10, 1: 7}
    assert found.records[0].progress.is_done(12)
    assert found.lost == 4, "offsets 4, 5, 8 and 9"
    assert found.fresh == {0}
    assert OFFSETS_EXPIRED in found.problems


def test_a_position_beyond_the_end_is_brought_back_to_it() -> None:
    found = locate(lane({0: record(400), 1: record(7)}), LOG, 5)
    assert lows(found) == {0: 100, 1: 7}
    assert POSITION_LOST in found.problems


def test_events_that_come_where_a_log_lost_its_tail_are_not_taken_for_finished() -> None:
    found = locate(lane({0: record(95, done=((97, 120),)), 1: record(7)}), LOG, 5)
    assert found.records[0].progress == Progress(95, ((97, 99),))
    assert found.fresh == {0}
    assert POSITION_LOST in found.problems


def test_what_is_unfinished_in_a_log_that_lost_its_tail_stays_so() -> None:
    failed = ProgressRecord(Progress(95, (), tuple(Straggler(at, 1, 1) for at in (95, 110))), uid="t1", topic_id="id-1")
    found = locate(lane({0: failed, 1: record(7)}), LOG, 5)
    assert found.records[0].progress.low == 95
    assert [one.offset for one in found.records[0].progress.stragglers] == [95]
    assert found.records[0].progress.reach <= 100


def test_a_straggler_that_retention_removed_is_counted_although_the_lane_is_far_beyond() -> None:
    failed = ProgressRecord(Progress(4, ((5, 60),), (Straggler(4, 1, 1),)), uid="t1", topic_id="id-1")
    found = locate(lane({0: failed, 1: record(7)}), LOG, 5)
    assert found.lost == 1
    assert found.records[0].progress == Progress(61)


def test_partitions_that_a_worker_owns_are_left_alone() -> None:
    found = locate(lane({0: record(4), 1: record(400)}), LOG, 5, owned=[0])
    assert set(found.records) == {1}
    assert found.fresh == {1}
    assert not found.lost


def test_reading_starts_at_the_lowest_lane() -> None:
    lanes = [locate(lane({0: record(20), 1: record(50)}), LOG, 5), locate(lane({0: record(60), 1: record(49)}), LOG, 5)]
    assert start_offsets(lanes, LOG) == {0: 20, 1: 49}


def test_reading_starts_at_the_lowest_lane_that_the_ring_can_hold() -> None:
    lanes = [locate(lane({0: record(20), 1: record(50)}), LOG, 5), locate(lane({0: record(60), 1: record(9)}), LOG, 5)]
    assert start_offsets(lanes, LOG, reach=40) == {0: 60, 1: 50}
    assert start_offsets(lanes, LOG, reach=0) == {0: 100, 1: 50}


def test_without_lanes_reading_starts_at_the_end() -> None:
    assert start_offsets([], LOG) == {0: 100, 1: 50}


def test_finished_events_above_a_gap_do_not_move_the_start() -> None:
    found = locate(lane({0: record(20, done=((25, 40),)), 1: record(7)}), LOG, 5)
    assert start_offsets([found], LOG) == {0: 20, 1: 7}
