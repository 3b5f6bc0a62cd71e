"""Where lanes start, what is repaired, and that nothing is Ready before every partition has a position."""

from __future__ import annotations

import pytest

from headrace.control.model import (
    AtOffsets,
    AtTime,
    Earliest,
    FromGroup,
    Latest,
    Start,
    TopicFacts,
    TopicKey,
    WriteInitialPositions,
)
from tests.unit.control.fakehome import HOME_KAFKA, START, FakeHome
from tests.unit.control.manifests import BROKER, KAFKA_CHANNEL, SUBSCRIPTION, TRIGGER, B, K, S, T

TOPIC = TopicKey(HOME_KAFKA, "knative-broker-default-b")
CREATED_MS = int(START * 1000)


def noted(manifest: str, name: str, annotations: str) -> str:
    return manifest.replace(f"name: {name}}}", f"name: {name}, annotations: {{{annotations}}}}}")


@pytest.mark.spec("CP-T7")
@pytest.mark.parametrize(
    ("annotations", "start"),
    [
        ("", Latest()),
        ("headrace.dev/initial-offset: latest", Latest()),
        ("headrace.dev/initial-offset: earliest", Earliest()),
        ("headrace.dev/initial-offset: '1970-01-01T00:00:05Z'", AtTime(5_000)),
        ("headrace.dev/initial-offset: '1:7,0:5'", AtOffsets(((0, 5), (1, 7)))),
        ("headrace.dev/initial-offset: PT1H", AtTime(CREATED_MS - 3_600_000)),
        ("headrace.dev/keep-position: 'true'", FromGroup(Latest())),
        ("headrace.dev/keep-position: 'true', headrace.dev/initial-offset: earliest", FromGroup(Earliest())),
    ],
)
def test_a_new_lane_starts_where_its_annotations_say(annotations: str, start: Start) -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + noted(TRIGGER, "t", annotations))
    home.apply(KAFKA_CHANNEL + "---" + noted(SUBSCRIPTION, "s", annotations))
    home.settle()
    written = {action.lane: (action.where, action.partitions) for action in home.done(WriteInitialPositions)}
    assert written == {home.uid(T): (start, (0, 1, 2)), home.uid(S): (start, (0, 1))}


@pytest.mark.spec("CP-T7")
def test_positions_come_before_the_contract_and_the_contract_before_ready() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.refuse[WriteInitialPositions] = "no leader"
    home.settle()
    assert home.verdict(T) == ("False", "PositionsFailed")
    assert "no leader" in home.condition(T)["message"]
    assert home.resource(T) is None
    home.refuse.clear()
    home.now += 10
    home.hold("workers")
    home.settle()
    assert home.resource(T) is not None
    assert home.verdict(T) == ("Unknown", "WorkersNotUpToDate")
    home.release()
    home.settle()
    assert home.verdict(T) == ("True", "")


def test_a_position_that_is_missing_in_one_partition_keeps_the_lane_waiting() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.refuse[WriteInitialPositions] = "the controller died"
    home.settle()
    home.positions[home.uid(T)] = {0: "T1", 2: "T1"}
    home.refuse.clear()
    home.settle()
    (action,) = home.done(WriteInitialPositions)
    assert (action.where, action.partitions) == (Latest(), (1,))


def test_what_is_about_to_be_placed_is_remembered_before_it_is_written() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.refuse[WriteInitialPositions] = "crash"
    home.settle()
    record = home.status(T)["annotations"]["headrace.dev/lane"]
    assert '"group": "knative-trigger-default-t"' in record
    assert '"partitions"' not in record


def test_an_added_partition_is_read_from_its_start_and_takes_no_ready_away() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    home.topics[TOPIC] = TopicFacts("T1", 5)
    home.log.clear()
    home.round()
    assert home.verdict(T) == ("True", "")
    home.settle()
    (action,) = home.done(WriteInitialPositions)
    assert (action.where, action.partitions) == (Earliest(), (3, 4))
    assert home.verdict(T) == ("True", "")
    assert '"partitions": 5' in home.status(T)["annotations"]["headrace.dev/lane"]


def test_lost_progress_goes_on_from_the_group_never_from_the_end_and_is_told() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    del home.positions[home.uid(T)][1]
    home.log.clear()
    home.settle()
    (action,) = home.done(WriteInitialPositions)
    assert (action.where, action.partitions) == (FromGroup(Earliest()), (1,))
    assert home.verdict(T) == ("True", "")
    assert home.verdict(T, "PositionLost") == ("True", "RetentionOrLoss")


def test_lost_progress_of_a_subscription_is_told_there() -> None:
    home = FakeHome()
    home.apply(KAFKA_CHANNEL + "---" + SUBSCRIPTION)
    home.settle()
    home.positions[home.uid(S)].clear()
    home.settle()
    assert home.verdict(S) == ("True", "")
    assert home.verdict(S, "PositionLost") == ("True", "RetentionOrLoss")


def test_a_topic_that_was_made_again_is_a_new_lane_from_its_first_event() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    home.topics[TOPIC] = TopicFacts("again", 3)
    home.log.clear()
    home.settle()
    (action,) = home.done(WriteInitialPositions)
    assert (action.where, action.topic_id, action.partitions) == (Earliest(), "again", (0, 1, 2))
    assert '"topic_id": "again"' in home.status(T)["annotations"]["headrace.dev/lane"]
    assert home.verdict(T) == ("True", "")


def test_the_first_event_also_when_writing_failed_in_between() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    home.topics[TOPIC] = TopicFacts("again", 3)
    home.refuse[WriteInitialPositions] = "no leader"
    home.settle()
    home.refuse.clear()
    home.now += 100
    home.log.clear()
    home.settle()
    assert [action.where for action in home.done(WriteInitialPositions)] == [Earliest()]


def test_a_trigger_made_again_under_its_name_is_another_lane() -> None:
    home = FakeHome()
    home.apply(BROKER + "---" + TRIGGER)
    home.settle()
    first = home.uid(T)
    home.delete(T)
    home.settle()
    home.apply(TRIGGER)
    home.settle()
    assert home.uid(T) != first
    assert [action.lane for action in home.done(WriteInitialPositions)] == [first, home.uid(T)]
    assert home.verdict(T) == ("True", "")


def test_a_subscription_that_keeps_its_position_has_a_group_that_its_successor_finds() -> None:
    home = FakeHome()
    kept = noted(SUBSCRIPTION, "s", "headrace.dev/keep-position: 'true'")
    home.apply(KAFKA_CHANNEL + "---" + kept)
    home.settle()
    groups = [action.group for action in home.done(WriteInitialPositions)]
    home.delete(S)
    home.settle()
    assert home.groups == {"kafka.default.k.s"}
    home.apply(kept)
    home.settle()
    groups = [action.group for action in home.done(WriteInitialPositions)]
    assert groups == ["kafka.default.k.s"] * 2
    assert home.done(WriteInitialPositions)[1].where == FromGroup(Latest())


def test_no_topic_no_positions() -> None:
    home = FakeHome()
    home.kafka_down = "away"
    home.apply(BROKER + "---" + TRIGGER + "---" + KAFKA_CHANNEL + "---" + SUBSCRIPTION)
    home.settle()
    assert home.done(WriteInitialPositions) == []
    assert home.verdict(T) == ("False", "BrokerNotReady")
    assert home.status(K)["subscribers"][0]["ready"] == "False"
    assert "KafkaUnreachable" in home.status(K)["subscribers"][0]["message"]
    assert home.verdict(B) == ("False", "KafkaUnreachable")
