"""`dump-log` prints what Kafka's own `DumpLogSegments` prints, on segments that a real broker wrote and on ones that none would."""

from __future__ import annotations

import io
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer

from headrace.kafka.admin import Admin
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.java import java_home
from headrace.kafka.log.decoders import Decoder, coordinator_decoder, metadata_decoder
from headrace.kafka.log.dump import Dump, IndexMode, Options
from headrace.kafka.log.printers import TextPrinter
from headrace.kafka.log.schema import Message, family
from headrace.kafka.log.varint import write_unsigned
from tests.support.kafkatools import Said, kafka_tool, own_dump_log
from tests.support.messages import random_value
from tests.support.segments import Record, batch, compress, encode, message
from tests.support.waiting import eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NAME = "00000000000000000000"
DECODERS = {
    "--offsets-decoder": lambda: coordinator_decoder("group"),
    "--transaction-log-decoder": lambda: coordinator_decoder("transaction"),
    "--share-group-state-decoder": lambda: coordinator_decoder("share"),
    "--cluster-metadata-decoder": metadata_decoder,
}
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "metadata.log.max.snapshot.interval.ms": "2000",
}


@dataclass(frozen=True)
class Written:
    """What the broker left: `cold` after it stopped, `warm` copied while it ran (indexes still preallocated)."""

    cold: Path
    warm: Path

    def files(self, *patterns: str, warm: bool = False) -> list[Path]:
        folder = self.warm if warm else self.cold
        found = sorted({path for pattern in patterns for path in folder.glob(pattern)})
        assert found, f"nothing like {patterns}"
        return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A broker's log folder after all kinds of producing and consuming."""
    folder = tmp_path_factory.mktemp("written")
    broker = EmbeddedKafka(folder / "kafka", java=java_home(os.environ.get("HEADRACE_JAVA", "auto")), overrides=SETTINGS)
    with broker:
        fill(broker, folder / "kafka" / "log")
        shutil.copytree(folder / "kafka" / "log", folder / "warm")
    return Written(folder / "kafka" / "log", folder / "warm")


def fill(broker: EmbeddedKafka, log_folder: Path) -> None:
    admin = Admin(broker.settings)
    for codec in CODECS:
        admin.create_topic(f"c-{codec}", 1)
        admin.create_topic(f"java-{codec}", 1)
        produce_mixed(broker, f"c-{codec}", codec)
        kafka_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *f"--topic java-{codec} --num-records 3000 --record-size 300 --throughput -1".split(),
            *f"--command-property bootstrap.servers={broker.bootstrap} compression.type={codec} linger.ms=20".split(),
        )
    admin.create_topic("c-append", 1, config={"message.timestamp.type": "LogAppendTime"})
    produce_mixed(broker, "c-append", "none")
    admin.create_topic("txn", 1)
    for n in range(6):
        transaction(broker, f"tx-{n % 2}", abort=n % 3 == 2)
    compact(broker, admin, log_folder)
    for group, protocol in (("my-group", "classic"), ("new-group", "consumer")):
        consume(broker, group, protocol)


def produce_mixed(broker: EmbeddedKafka, topic: str, codec: str) -> None:
    """Keys and values with and without content, of text and of junk, with headers, in batches of all sizes."""
    random = Random(5)
    producer = Producer(
        broker.settings.client(**{"compression.type": codec, "linger.ms": 20, "enable.idempotence": codec == "zstd"})
    )
    for n in range(1200):
        junk = random.randbytes(random.randrange(200))
        producer.produce(
            topic,
            key=None if n % 7 == 0 else junk[:4] if n % 5 == 0 else f"key-{n % 50}",
            value=None if n % 11 == 0 else junk if n % 3 == 0 else f"value {n} ä € \N{GRINNING FACE} " * (n % 30),
            headers=[("h1", b"x"), ("hä", None), ("", b"")] if n % 3 == 0 else None,
        )
        if n % 400 == 399:
            producer.flush()
    assert producer.flush(30) == 0


def transaction(broker: EmbeddedKafka, name: str, *, abort: bool) -> None:
    producer = Producer(broker.settings.client(**{"transactional.id": name, "compression.type": "lz4" if abort else "none"}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(20):
        producer.produce("txn", key=str(n), value=f"{name} {n}")
    if abort:
        # Only what has reached the log can be aborted there.
        producer.flush(30)
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)


def compact(broker: EmbeddedKafka, admin: Admin, log_folder: Path) -> None:
    """A compacted topic with tombstones, cleaned at least once: gaps, and batches with a delete horizon."""
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topic("c-compact", 1, config=config)
    producer = Producer(broker.settings.client(**{"linger.ms": 20}))
    for turn in range(16):
        for n in range(200):
            producer.produce("c-compact", key=f"k{n}", value=None if (n + turn) % 9 == 0 else bytes(400) + bytes([turn]))
        assert producer.flush(30) == 0
    checkpoint = log_folder / "cleaner-offset-checkpoint"
    eventually(lambda: "c-compact" in checkpoint.read_text(), 60, "the cleaner has been at work")


def consume(broker: EmbeddedKafka, group: str, protocol: str) -> None:
    consumer = Consumer(
        broker.settings.client(**{"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"})
    )
    consumer.subscribe(["c-none", "java-none", "txn"])
    eventually(lambda: consumer.poll(0.1), 60, "a first record")
    consumer.commit(asynchronous=False)
    consumer.close()


def our_dump_log(files: list[Path], *options: str) -> Said:
    """Ours, through the same code as the command."""
    decoder: Decoder | None = next((make() for option, make in DECODERS.items() if option in options), None)
    contents = decoder is not None or "--print-data-log" in options
    mode = IndexMode.VERIFY if "--verify-index-only" in options else IndexMode.PRINT
    mode = IndexMode.SANITY if "--index-sanity-check" in options else mode
    out = io.BytesIO()
    printer = TextPrinter(out, contents=contents, metadata="--skip-record-metadata" not in options)
    chosen = Options(deep=contents or "--deep-iteration" in options, decoder=decoder, indexes=mode)
    findings = Dump(chosen, printer).run(files)
    return Said(0, out.getvalue(), "".join(f"{line}\n" for found in findings for line in found.lines()))


def assert_same(files: list[Path], *options: str) -> bytes:
    """Line by line, and each complaint of one is one of the other (Kafka's are in no order). Returns what both printed."""
    theirs, ours = own_dump_log(files, *options), our_dump_log(files, *options)
    assert theirs.code == 0, theirs.err[-2000:]
    for number, (wanted, got) in enumerate(zip_longest(theirs.out.split(b"\n"), ours.out.split(b"\n"))):
        assert got == wanted, f"line {number}"
    assert sorted(ours.err.splitlines()) == sorted(theirs.err.splitlines())
    return ours.out


def test_records_of_every_compression_are_printed_as_kafka_prints_them(written: Written) -> None:
    printed = assert_same(written.files("c-*/*.log", "java-*/*.log", "txn-*/*.log"), "--deep-iteration", "--print-data-log")
    for codec in CODECS:
        assert b"compresscodec: %b " % codec.encode() in printed
    for word in (
        b"headerKeys: [h1,h\xc3\xa4,]",
        b"LogAppendTime",
        b"OptionalLong[",
        b"endTxnMarker: ABORT",
        b"endTxnMarker: COMMIT",
    ):
        assert word in printed


@pytest.mark.parametrize("options", [(), ("--deep-iteration",), ("--print-data-log", "--skip-record-metadata")], ids=" ".join)
def test_the_other_ways_of_printing_are_the_same_too(written: Written, options: tuple[str, ...]) -> None:
    assert_same(written.files("c-compact-0/*.log", "c-zstd-0/*.log", "txn-0/*.log", "java-snappy-0/*.log"), *options)


def test_offsets_are_decoded_as_kafka_decodes_them(written: Written) -> None:
    files = [path for path in written.files("__consumer_offsets-*/*.log") if path.stat().st_size]
    printed = assert_same(files, "--offsets-decoder")
    for word in (b'"group":"my-group"', b'"groupId":"new-group"', b'"subscription":{"topics":[', b'"assignedPartitions":['):
        assert word in printed


def test_transaction_states_are_decoded_as_kafka_decodes_them(written: Written) -> None:
    files = [path for path in written.files("__transaction_state-*/*.log") if path.stat().st_size]
    assert b'"transactionalId":"tx-1"' in assert_same(files, "--transaction-log-decoder")


def test_cluster_metadata_and_its_snapshots_are_decoded_as_kafka_decodes_them(written: Written) -> None:
    files = written.files("__cluster_metadata-0/*.log", "__cluster_metadata-0/*.checkpoint", "bootstrap.checkpoint")
    printed = assert_same(files, "--cluster-metadata-decoder")
    for word in (b"LeaderChange: ", b"SnapshotHeader ", b"SnapshotFooter ", b"KRaft bootstrap snapshot", b'"PARTITION_RECORD"'):
        assert word in printed


# Not the sanity check of indexes that a broker still has open: Kafka's tool fails on the zeros at their ends.
@pytest.mark.parametrize(
    ("warm", "options"),
    [
        (False, ()),
        (True, ()),
        (False, ("--verify-index-only",)),
        (True, ("--verify-index-only",)),
        (False, ("--index-sanity-check",)),
    ],
)
def test_indexes_are_checked_as_kafka_checks_them(written: Written, warm: bool, options: tuple[str, ...]) -> None:
    patterns = ["c-*/*.index", "java-*/*.index", "txn-0/*.index", "c-*/*.timeindex", "java-*/*.timeindex"]
    # Kafka's tool fails on indexes of segments without records.
    files = [path for path in written.files(*patterns, warm=warm) if path.with_suffix(".log").stat().st_size]
    assert_same(files, *options)


def test_aborted_transactions_and_producer_states_are_printed_as_kafka_prints_them(written: Written) -> None:
    files = written.files("txn-0/*.txnindex", "txn-0/*.snapshot", "c-zstd-0/*.snapshot")
    printed = assert_same(files)
    assert b"lastStableOffset: " in printed
    assert b"firstSequence: " in printed


def every(name: str) -> list[tuple[Message, int]]:
    """Each message of a family that is a record's value, in each version."""
    values = [one for one in family(name).values() if one.name.endswith(("Value", "Record"))]
    return [(one, version) for one in values for version in range(one.versions.low, one.versions.high + 1)]


def coordinator_records(name: str) -> Iterator[Record]:
    """Records of every type and version with arbitrary content, tombstones, and ones that nobody knows."""
    keys = {one.key: one for one in family(name).values() if one.name.endswith("Key")}
    for definition, version in every(name):
        key_definition = keys[definition.key]
        for seed in range(12):
            random = Random(f"{definition.name}{version}{seed}")
            key = struct.pack(">h", definition.key) + encode(key_definition, 0, random_value(key_definition, 0, random))
            value = struct.pack(">h", version) + encode(definition, version, random_value(definition, version, random))
            yield Record(key, None if seed == 0 else value)
    yield Record(struct.pack(">h", 999), b"\0\0")


def metadata_records() -> Iterator[Record]:
    for definition, version in every("metadata"):
        for seed in range(12):
            random = Random(f"{definition.name}{version}{seed}")
            head = b"\1" + write_unsigned(definition.key) + write_unsigned(version)
            yield Record(None, head + encode(definition, version, random_value(definition, version, random)))


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("group", "--offsets-decoder"),
        ("transaction", "--transaction-log-decoder"),
        ("share", "--share-group-state-decoder"),
        ("metadata", "--cluster-metadata-decoder"),
    ],
)
def test_records_of_every_type_and_version_are_decoded_as_kafka_decodes_them(tmp_path: Path, name: str, option: str) -> None:
    records = list(metadata_records() if name == "metadata" else coordinator_records(name))
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(batch(records, codec="zstd"))
    printed = assert_same([path], option)
    assert printed.count(b"| offset: ") == len(records) > 20
    assert printed.count(b"Error at ") == 0
    assert printed.count(b"Unknown record type") == (0 if name == "metadata" else 1)


def test_malformed_text_is_replaced_as_java_replaces_it(tmp_path: Path) -> None:
    random = Random(3)
    lead = [0x41, 0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xF8, 0xFC, 0xFF]
    follow = [0x42, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2]
    values = [bytes([one, two, three]) for one in lead for two in follow for three in follow]
    values += [random.randbytes(60) for _ in range(300)] + [bytes([one, two]) for one in lead for two in follow]
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(batch([Record(value[::-1], value) for value in values]))
    assert_same([path], "--print-data-log")


def lz4_frame(data: bytes) -> bytes:
    """A frame of one stored block, of the only kind that Kafka takes: blocks that do not depend on each other."""
    return bytes.fromhex("04224d18604082") + struct.pack("<I", len(data) | 1 << 31) + data + bytes(4)


def test_old_message_sets_are_printed_as_kafka_prints_them(tmp_path: Path) -> None:
    plain = [message(n, b"k" if n % 2 else None, None if n == 2 else b"v%d" % n, magic=n % 2) for n in range(4)]
    parts, offset = list(plain), 4
    for magic in (0, 1):
        for number, codec in enumerate(CODECS[1:4], 1):
            if (magic, codec) == (0, "lz4"):
                continue
            inner = b"".join(
                message(n if magic else offset + n, b"k", b"inner %d" % n, magic=magic, time=1000 + n) for n in range(3)
            )
            for append_time in (0, 8) if magic else (0,):
                wrapper = lz4_frame(inner) if codec == "lz4" else compress(codec, inner)
                parts.append(message(offset + 2, None, wrapper, magic=magic, attributes=number | append_time, time=5000))
                offset += 3 if magic else 0
            offset += 0 if magic else 3
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(b"".join(parts) + batch([Record(b"k", b"new")], base_offset=offset))
    for options in ((), ("--print-data-log",)):
        printed = assert_same([path], *options)
    assert b"LogAppendTime: 5000" in printed
    assert printed.count(b"isValid: true") == 4 + 3 * (2 + 6)


def test_damage_at_the_end_is_told_as_kafka_tells_it(tmp_path: Path) -> None:
    whole = batch([Record(b"k", b"v")])
    for number, rest in enumerate((whole[:20], whole[:8] + struct.pack(">i", 5000) + whole[12:])):
        path = tmp_path / str(number) / f"{NAME}.log"
        path.parent.mkdir()
        path.write_bytes(whole + rest)
        theirs, ours = own_dump_log([path], "--print-data-log"), our_dump_log([path], "--print-data-log")
        assert ours.out == theirs.out
        assert f"Found {len(rest)} invalid bytes at the end of {NAME}.log\n".encode() in ours.out


def test_a_file_still_growing_is_read_to_its_last_whole_batch(written: Written, tmp_path: Path) -> None:
    source = written.files("java-none-0/*.log")[0].read_bytes()
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(source[: len(source) // 2])
    printed = our_dump_log([path]).out
    assert printed == own_dump_log([path]).out
