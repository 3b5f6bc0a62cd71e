"""`headrace kafka topics, produce, consume` against a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.base.errors import HeadraceError, Terminal, UsageError
from headrace.kafka.console.consuming import Reader
from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.support.kafkacli import KafkaCommands
from tests.support.kafkatools import kafka_tool
from tests.support.waiting import eventually

Name = Callable[[], str]


@pytest.fixture
def run(kafka: KafkaSettings) -> KafkaCommands:
    return KafkaCommands(kafka)


@pytest.fixture
def name() -> Name:
    """Each call gives a name that nobody else uses."""
    return lambda: f"t-{uuid.uuid4().hex[:12]}"


def test_a_topic_lives_from_create_to_delete(run: KafkaCommands, name: Name) -> None:
    topic = name()
    assert (
        run("topics", "create", topic, "--partitions", 3, "--config", "retention.bytes=1000000").out
        == f"Created topic {topic}.\n"
    )
    assert any(row.split() == [topic, "3", "1"] for row in run("topics", "list").lines)

    def described() -> Any:
        """Once Kafka tells the sizes of its partitions: a moment after it has told of the topic."""
        told = run("topics", "describe", topic, "-o", "json").data
        return told if all(one["bytes"] is not None for one in told["partitions"]) else None

    found = eventually(described, what="sizes are told")
    assert (found["name"], found["replicationFactor"], len(found["partitions"])) == (topic, 1, 3)
    assert {"name": "retention.bytes", "value": "1000000", "origin": "topic"} in found["configs"]
    assert found["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "replicas": [1],
        "isr": [1],
        "beginOffset": 0,
        "endOffset": 0,
        "bytes": 0,
    }
    changes = ["--partitions", 5, "--config", "cleanup.policy=compact", "--delete-config", "retention.bytes"]
    run("topics", "alter", topic, *changes)
    found = run("topics", "describe", topic, "-o", "json").data
    assert len(found["partitions"]) == 5
    assert [one["name"] for one in found["configs"] if one["origin"] == "topic"] == ["cleanup.policy"]
    run("topics", "delete", topic)
    with pytest.raises(Terminal, match="does not exist"):
        run("topics", "describe", topic)


def test_sizes_and_offsets_are_those_of_the_log(run: KafkaCommands, topic: TopicFactory) -> None:
    one = topic(2)
    run("produce", one, "--partition", 1, stdin="x" * 1000 + "\n")
    partitions = run("topics", "describe", one, "-o", "json").data["partitions"]
    assert [(part["endOffset"], part["bytes"] > 1000) for part in partitions] == [(0, False), (1, True)]
    row = next(line.split() for line in run("topics", "list", "-o", "wide").lines if line.startswith(one))
    assert row[:4] == [one, "2", "1", "1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "create", "__consumer_offsets"), "exists already"),
        (("topics", "alter", "nowhere-at-all", "--partitions", 2), "does not exist"),
        (("topics", "alter", "nowhere-at-all"), "nothing to change"),
        (("topics", "delete", "nowhere-at-all"), "does not exist"),
        (("topics", "delete", "headrace.contract"), "does not exist|belongs to Headrace itself"),
        (("consume", "nowhere-at-all"), "does not exist"),
        (("produce", "nowhere-at-all"), "Make it: `headrace kafka topics create nowhere-at-all`"),
        (("produce", "nowhere-at-all", "--compression", "zip"), "no such compression"),
        (("consume", "x", "--from-beginning", "--offset", 3), "there is one place to begin"),
        (("consume", "x", "--from-time", "yesterday"), "'yesterday' is no time"),
        (("consume", "x", "-o", "yaml"), "records are a stream"),
    ],
)
def test_what_can_not_be_done_is_said(run: KafkaCommands, topic: TopicFactory, words: tuple[object, ...], said: str) -> None:
    run("consume", topic(), "--group", "makes-the-offsets-topic", "--timeout", 0.1)
    with pytest.raises(HeadraceError, match=said):
        run(*words)


def test_keys_land_where_kafka_s_own_producer_puts_them(run: KafkaCommands, kafka: KafkaSettings, topic: TopicFactory) -> None:
    ours, theirs = topic(3), topic(3)
    lines = "".join(f"{key}#v\n" for key in ["1", "2", *(f"key-{n}-ä" for n in range(60))])
    assert run("produce", ours, "--key-separator", "#", stdin=lines).err == "Produced 62 records.\n"
    options = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=#"]
    done = kafka_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *["--bootstrap-server", kafka.bootstrap_servers, "--topic", theirs, *options],
        stdin=lines.encode(),
    )
    assert done.code == 0, done.err
    placed = [
        {
            record["key"]: record["partition"]
            for record in run("consume", one, "--from-beginning", "--until-end", "-o", "json").objects
        }
        for one in (ours, theirs)
    ]
    assert placed[0] == placed[1]
    assert (placed[0]["1"], placed[0]["2"]) == (0, 2)


def test_a_line_is_partition_offset_key_and_value(run: KafkaCommands, topic: TopicFactory) -> None:
    one = topic()
    run("produce", one, "--key-separator", "#", "--null", "-", "-H", "h=x=y", stdin="1#hello\r\n2#-\n#a#b\n")
    printed = run("consume", one, "--from-beginning", "--until-end")
    assert printed.lines == [
        "Partition:0\tOffset:0\t1\thello",
        "Partition:0\tOffset:1\t2\tnull",
        "Partition:0\tOffset:2\t\ta#b",
    ]
    assert printed.err == "Processed a total of 3 messages\n"
    wide = run("consume", one, "--offset", 2, "--until-end", "-o", "wide").lines[0].split("\t")
    assert wide[0].startswith("CreateTime:1")
    assert wide[1:] == ["Partition:0", "Offset:2", "h:x=y", "", "a#b"]
    assert run("consume", one, "--offset", 1, "--max-messages", 1, "--value-only").out == "null\n"


def test_a_line_without_the_separator_is_named_and_those_before_it_are_produced(
    run: KafkaCommands, topic: TopicFactory
) -> None:
    one = topic()
    with pytest.raises(UsageError, match="line 3: no key separator '#' in 'three'"):
        run("produce", one, "--key-separator", "#", stdin="1#one\n2#two\nthree\n")
    assert len(run("consume", one, "--from-beginning", "--until-end").lines) == 2


def test_what_consume_prints_as_json_produce_takes(run: KafkaCommands, topic: TopicFactory, tmp_path: Path) -> None:
    first, second = topic(2), topic(2)
    records = [
        {
            "key": "k",
            "value": "v",
            "headers": [["a", "1"], ["a", "2"], ["n", None]],
            "partition": 1,
            "timestamp": 1_700_000_000_000,
        },
        {"key": None, "value": None, "headers": [], "partition": 0, "timestamp": 1_700_000_000_001},
        {
            "key": {"base64": "/w=="},
            "value": {"base64": "AP8="},
            "headers": [["b", {"base64": "gA=="}]],
            "partition": 1,
            "timestamp": 1,
        },
    ]
    file = tmp_path / "records"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    run("produce", first, "--json", "--file", file)
    printed = run("consume", first, "--from-beginning", "--until-end", "-o", "json")
    kept = ("key", "value", "headers", "partition", "timestamp")
    # Partitions are read side by side: only within each is there an order.
    read = sorted(printed.objects, key=_place)
    assert [{name: record[name] for name in kept} for record in read] == [records[1], records[0], records[2]]
    copied = "".join(json.dumps({name: record[name] for name in kept}) + "\n" for record in printed.objects)
    run("produce", second, "--json", stdin=copied)
    again = run("consume", second, "--from-beginning", "--until-end", "-o", "json").objects
    assert [{**record, "topic": first} for record in sorted(again, key=_place)] == read


def _place(record: dict[str, Any]) -> tuple[int, int]:
    return record["partition"], record["offset"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: expected an object with"),
        ('{"values": 1}', "line 1: expected an object with"),
        ('{"partition": "x"}', "line 1: headers, partition or timestamp"),
    ],
)
def test_json_that_is_no_record_is_named(run: KafkaCommands, topic: TopicFactory, line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run("produce", topic(), "--json", stdin=line)


def test_events_are_produced_and_printed_as_events(run: KafkaCommands, topic: TopicFactory) -> None:
    one = topic()
    whole = {"specversion": "1.0", "id": "7", "source": "/s", "type": "t", "subject": "sub", "data": {"a": 1}}
    run("produce", one, "--cloudevents", stdin=json.dumps(whole) + "\n")
    run("produce", one, "--cloudevents", "--type", "made.here", "--structured", stdin='{"b": 2}\nplain\n')
    events = run("consume", one, "--from-beginning", "--until-end", "--cloudevents", "-o", "json").objects
    assert [(event["type"], event.get("data")) for event in events] == [
        ("t", {"a": 1}),
        ("made.here", {"b": 2}),
        ("made.here", "plain"),
    ]
    assert events[1]["datacontenttype"] == "application/json"
    records = run("consume", one, "--from-beginning", "--until-end", "-o", "json").objects
    assert records[0]["key"] == "sub"
    assert ["ce_type", "t"] in records[0]["headers"]
    assert records[1]["headers"][0] == ["content-type", "application/cloudevents+json; charset=UTF-8"]
    assert "type:" not in run("consume", one, "--from-beginning", "--max-messages", 1, "--cloudevents").err
    with pytest.raises(UsageError, match="line 1: not a CloudEvent"):
        run("produce", one, "--cloudevents", stdin="no event\n")


def test_records_of_an_aborted_transaction_are_read_only_on_request(
    run: KafkaCommands, kafka: KafkaSettings, topic: TopicFactory
) -> None:
    one = topic()
    for value, commit in (("kept", True), ("aborted", False)):
        producer = Producer(kafka.client(**{"transactional.id": one, "log_level": 2}))
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(one, value)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    assert run("consume", one, "--from-beginning", "--until-end", "--value-only").lines == ["kept"]
    assert run("consume", one, "--from-beginning", "--until-end", "--value-only", "--read-uncommitted").lines == [
        "kept",
        "aborted",
    ]


def test_reading_begins_where_it_is_asked_to(run: KafkaCommands, topic: TopicFactory) -> None:
    one = topic(2)
    lines = [
        json.dumps({"value": f"{part}{n}", "partition": part, "timestamp": 1_700_000_000_000 + n})
        for part in (0, 1)
        for n in range(4)
    ]
    run("produce", one, "--json", stdin="\n".join(lines))
    until_end = ["--until-end", "--value-only"]
    assert sorted(run("consume", one, "--offset", 3, *until_end).lines) == ["03", "13"]
    assert sorted(run("consume", one, "--from-time", "1700000000002", *until_end).lines) == ["02", "03", "12", "13"]
    assert sorted(run("consume", one, "--from-time", "2023-11-14T22:13:20.003Z", *until_end).lines) == ["03", "13"]
    assert run("consume", one, "--from-beginning", "--partition", 1, *until_end).lines == ["10", "11", "12", "13"]
    assert run("consume", one, *until_end).lines == []
    with pytest.raises(UsageError, match="has no partition 7: it has 2"):
        run("consume", one, "--partition", 7)


def test_a_group_goes_on_where_it_stopped(run: KafkaCommands, topic: TopicFactory, name: Name) -> None:
    one, group = topic(), name()
    run("produce", one, stdin="a\nb\nc\n")
    options = ["--group", group, "--from-beginning", "--value-only", "--timeout", 20]
    assert run("consume", one, *options, "--max-messages", 2).lines == ["a", "b"]
    assert run("groups", "describe", group, "-o", "json").data["partitions"][0]["lag"] == 1
    assert run("consume", one, *options, "--until-end").lines == ["c"]
    assert run("groups", "describe", group, "-o", "json").data["partitions"][0]["lag"] == 0


def test_a_record_is_committed_once_the_next_is_asked_for(
    kafka: KafkaSettings, run: KafkaCommands, topic: TopicFactory, name: Name
) -> None:
    one, group = topic(), name()
    run("produce", one, stdin="a\nb\n")
    records = Reader(kafka, [one], group=group, start=None, idle=20).records()
    run("consume", one, "--group", group, "--from-beginning", "--max-messages", 1, "--timeout", 20)
    assert next(records).value == b"b"
    records.close()
    assert run("groups", "describe", group, "-o", "json").data["partitions"][0]["offset"] == 1


def test_a_group_says_itself_where_it_reads(run: KafkaCommands, topic: TopicFactory) -> None:
    with pytest.raises(UsageError, match="a group says itself which partitions and offsets it reads"):
        run("consume", topic(), "--group", "g", "--offset", 3)


def test_a_record_that_is_refused_is_an_error_and_the_others_are_produced(run: KafkaCommands, topic: TopicFactory) -> None:
    one = topic()
    with pytest.raises(Terminal, match=r"record 2 to topic .*MSG_SIZE_TOO_LARGE"):
        run("produce", one, stdin=f"a\n{'x' * 1_100_000}\nb\n")
    assert run("consume", one, "--from-beginning", "--until-end", "--value-only").lines == ["a", "b"]
