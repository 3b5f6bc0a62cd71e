"""`headrace kafka groups, coordinator` against a real broker: other people's groups, and Headrace's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer

from headrace.base.errors import Terminal, UsageError
from headrace.core.contract import Egress, Reference, Resource, dump
from headrace.core.names import Internal
from headrace.core.progress import Progress, ProgressRecord, Straggler
from headrace.kafka.admin import Admin
from headrace.kafka.coordination import partition_for
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableWriter
from tests.conftest import TopicFactory
from tests.support.kafkacli import KafkaCommands
from tests.support.waiting import eventually


@pytest.fixture
def run(kafka: KafkaSettings) -> KafkaCommands:
    return KafkaCommands(kafka)


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


def consumed(run: KafkaCommands, topic: str, group: str, records: int = 3) -> None:
    """`records` records in the topic, all of them read by the group."""
    run("produce", topic, stdin="".join(f"{n}\n" for n in range(records)))
    run("consume", topic, "--group", group, "--from-beginning", "--max-messages", records, "--timeout", 30)


def offsets(run: KafkaCommands, group: str) -> dict[int, int]:
    return {part["partition"]: part["offset"] for part in run("groups", "describe", group, "-o", "json").data["partitions"]}


def test_a_group_is_listed_described_and_deleted(run: KafkaCommands, topic: TopicFactory, group: str) -> None:
    one = topic()
    consumed(run, one, group)
    run("produce", one, stdin="more\n")
    assert any(line.split() == [group, "empty", "classic"] for line in run("groups", "list").lines)
    found = run("groups", "describe", group, "-o", "json").data
    assert found["partitions"] == [
        {"topic": one, "partition": 0, "offset": 3, "end": 4, "lag": 1, "member": None, "host": None}
    ]
    assert f"Group: {group}  State: empty" in run("groups", "describe", group).out
    run("groups", "delete", group)
    with pytest.raises(Terminal, match="does not exist"):
        run("groups", "describe", group)
    with pytest.raises(Terminal, match="does not exist"):
        run("groups", "delete", group)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-offset", 2], 2),
        (["--to-offset", 99], 5),
        (["--shift-by", -1], 4),
        (["--shift-by", -99], 0),
        (["--to-time", "1700000000003"], 3),
        (["--to-time", "2001-01-01T00:00:00Z"], 0),
    ],
)
def test_offsets_are_set_where_they_are_wanted(
    run: KafkaCommands, topic: TopicFactory, group: str, options: list[object], expected: int
) -> None:
    one = topic()
    lines = "".join(f'{{"value": "v", "timestamp": {1_700_000_000_000 + n}}}\n' for n in range(5))
    run("produce", one, "--json", stdin=lines)
    run("consume", one, "--group", group, "--from-beginning", "--max-messages", 5, "--timeout", 30)
    shown = run("groups", "reset-offsets", group, *options)
    assert shown.lines[1].split() == [one, "0", "5", str(expected)]
    assert "Nothing was changed" in shown.err
    assert offsets(run, group) == {0: 5}
    run("groups", "reset-offsets", group, *options, "--execute")
    assert offsets(run, group) == {0: expected}


def test_a_group_that_has_committed_nothing_gets_offsets_for_the_topics_named(
    run: KafkaCommands, topic: TopicFactory, group: str
) -> None:
    one = topic(3)
    run("produce", one, "--partition", 1, stdin="a\nb\n")
    with pytest.raises(UsageError, match="which topic"):
        run("groups", "reset-offsets", group, "--to-latest")
    run("groups", "reset-offsets", group, "--topic", one, "--partition", 1, "--to-latest", "--execute")
    assert offsets(run, group) == {1: 2}
    with pytest.raises(UsageError, match="where to"):
        run("groups", "reset-offsets", group, "--topic", one, "--to-latest", "--to-earliest")


def test_offsets_of_a_group_with_members_are_not_set(
    run: KafkaCommands, kafka: KafkaSettings, topic: TopicFactory, group: str
) -> None:
    one = topic()
    consumed(run, one, group)
    consumer = Consumer(kafka.client(**{"group.id": group, "log_level": 2, "client.id": "someone"}))
    try:
        consumer.subscribe([one])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), 60, "a member with a partition")
        with pytest.raises(Terminal, match=r"has members: only they may set its offsets. Stop its consumers first"):
            run("groups", "reset-offsets", group, "--to-earliest", "--execute")
        [row] = run("groups", "describe", group, "-o", "json").data["partitions"]
        assert (row["member"], row["host"]) == ("someone", "127.0.0.1")
        with pytest.raises(Terminal, match=f"group {group}"):
            run("groups", "delete", group)
    finally:
        consumer.close()


@dataclass(frozen=True)
class Ours:
    """A Headrace with one trigger on a topic of two partitions."""

    instance: str
    group: str
    topic: str


@pytest.fixture
def ours(kafka: KafkaSettings, admin: Admin, topic: TopicFactory, run: KafkaCommands, group: str) -> Iterator[Ours]:
    instance = f"hr-{uuid.uuid4().hex[:8]}"
    names = Internal(instance)
    for name in (names.contract, names.progress):
        admin.create_topic(name, 1, config={"cleanup.policy": "compact"})
    orders = topic(2)
    reference = Reference(uuid="t-uid", namespace="shop", name="audit", kind="Trigger")
    egress = Egress(consumer_group=group, uid="t-uid", destination="http://localhost", reference=reference)
    resource = Resource(uid="t-uid", topics=(orders,), bootstrap_servers=kafka.bootstrap_servers, egresses=(egress,))
    progress = Progress(41, ((45, 47), (50, 50)), (Straggler(42, 3, 1_700_000_000_000),))
    records = {
        "t-uid/0": ProgressRecord(progress, "t-uid", "topic-id", "run-7", 1_700_000_000_500),
        "t-uid/1": ProgressRecord(Progress.initial(9), "t-uid", "topic-id"),
        "other/0": ProgressRecord(Progress.initial(1), "other", "topic-id"),
    }
    contract, positions = TableWriter(kafka, names.contract), TableWriter(kafka, names.progress)
    contract.put("t-uid", dump(resource))
    positions.put_all([(key, record.encode()) for key, record in records.items()])
    contract.close()
    positions.close()
    consumed(run, orders, group)
    yield Ours(instance, group, orders)
    for name in (names.contract, names.progress):
        admin.delete_topic(name)


def test_a_group_of_ours_shows_its_lanes(run: KafkaCommands, ours: Ours) -> None:
    found = run("groups", "describe", ours.group, "--instance", ours.instance, "-o", "json").data
    assert found["keptFor"] == {"kind": "Trigger", "namespace": "shop", "name": "audit", "uid": "t-uid"}
    assert found["lanes"] == [
        {
            "topic": ours.topic,
            "partition": 0,
            "position": 41,
            "low": 41,
            "completed": [[45, 47], [50, 50]],
            "stragglers": [{"offset": 42, "attempts": 3, "since": 1_700_000_000_000}],
            "run": "run-7",
            "at": 1_700_000_000_500,
            "parked": False,
        },
        {
            "topic": ours.topic,
            "partition": 1,
            "position": 9,
            "low": 9,
            "completed": [],
            "stragglers": [],
            "run": "",
            "at": 0,
            "parked": False,
        },
    ]
    text = run("groups", "describe", ours.group, "--instance", ours.instance).out
    assert "Headrace keeps it for trigger/audit in namespace shop. Its lanes:" in text
    assert any(line.split() == ["0", "41", "41", "45-47,50", "1", "run-7"] for line in text.splitlines())
    rows = [line.split() for line in run("groups", "list", "--instance", ours.instance).lines]
    assert [ours.group, "empty", "classic", "trigger/audit"] in rows


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("groups", "reset-offsets", "GROUP", "--to-earliest"), "Use `headrace replay trigger/audit -n shop`"),
        (("groups", "reset-offsets", "GROUP", "--to-earliest", "--execute"), "what is set here would be overwritten"),
        (("groups", "delete", "GROUP"), "Delete the trigger or subscription instead"),
        (("consume", "TOPIC", "--group", "GROUP"), "consuming with it would move what Headrace delivers"),
    ],
)
def test_a_group_of_ours_is_not_touched(run: KafkaCommands, ours: Ours, words: tuple[str, ...], said: str) -> None:
    before = offsets(run, ours.group)
    filled = [ours.group if word == "GROUP" else ours.topic if word == "TOPIC" else word for word in words]
    with pytest.raises(Terminal, match=rf"group {ours.group}: is kept by Headrace for trigger/audit in namespace shop.*{said}"):
        run(*filled, "--instance", ours.instance)
    assert offsets(run, ours.group) == before


def test_the_coordinator_is_checked_against_the_cluster(
    run: KafkaCommands, admin: Admin, topic: TopicFactory, group: str
) -> None:
    consumed(run, topic(), group)
    facts = admin.describe("__consumer_offsets")
    assert facts is not None
    found = run("coordinator", group, "-o", "json").data
    assert found == {
        "key": group,
        "topic": "__consumer_offsets",
        "partition": partition_for(group, facts.partitions),
        "partitions": facts.partitions,
        "leader": 1,
        "coordinator": 1,
        "agrees": True,
    }
    row = run("coordinator", group).lines[1].split()
    assert row == ["__consumer_offsets", str(found["partition"]), str(facts.partitions), "1", "1"]


def test_the_coordinator_of_a_transactional_id_is_found_too(
    run: KafkaCommands, kafka: KafkaSettings, topic: TopicFactory
) -> None:
    one = topic()
    producer = Producer(kafka.client(**{"transactional.id": one, "log_level": 2}))
    producer.init_transactions(60)
    found = run("coordinator", one, "--transactional", "-o", "json").data
    assert (found["topic"], found["leader"], found["coordinator"]) == ("__transaction_state", 1, 1)


def test_a_cluster_that_does_not_answer_leaves_the_computation() -> None:
    nobody = KafkaCommands(KafkaSettings("127.0.0.1:1"))
    printed = nobody("coordinator", "my-group")
    assert printed.out == "12\n"
    assert "Computed for 50 partitions instead" in printed.err
