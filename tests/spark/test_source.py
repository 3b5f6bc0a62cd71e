"""What Spark makes of records: frames byte for byte, at once, and of which partition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headrace.base.errors import Retriable
from headrace.core.frame import Frame, parse_frame
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.spark.job import RangeJob
from headrace.spark.live import LiveQuery
from headrace.spark.session import SparkRuntime
from headrace.spark.source import Source
from tests.conftest import TopicFactory
from tests.support.waiting import eventually

Header = tuple[str, str | bytes | None]

RECORDS: list[tuple[bytes | None, bytes | None, list[Header]]] = [
    (b"key", b"value", [("ce_id", b"1"), ("ce_type", b"t")]),
    (None, b"no key, no headers", []),
    (b"", b"", [("empty", b"")]),
    (b"no value", None, [("null", None)]),
    (b"\xff\x00\xfe", b"\x00\xff" * 100, [("binary", b"\xff\xfe\x00"), ("näme", b"\xc3")]),
    (b"many", b"x" * 70_000, [(f"h{number}", bytes([number])) for number in range(40)]),
    (b"name only", b"", [("", b"no name"), ("", b""), ("", None)]),
]


def numbered(count: int) -> list[Header]:
    """So many headers: with an empty value, with one of one byte, without any, in turn."""
    return [(f"h{at}", None if at % 3 == 2 else bytes(at % 3)) for at in range(count)]


RECORDS += [(b"k", b"v", numbered(count)) for count in range(1, 20)]


def produce(kafka: KafkaSettings, topic: str, partition: int = 0) -> None:
    producer = Producer(kafka.client(linger_ms=0))
    for key, value, headers in RECORDS:
        producer.produce(topic, value=value, key=key, headers=headers, partition=partition)
    assert producer.flush(10) == 0


def writer(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that appends each frame it gets, in hexadecimal, to a file named after its task index, and gives one row at its end."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        path = folder / str(context.partitionId() if context else 0)
        count = 0
        with path.open("a", buffering=1) as out:
            out.write("\n")
            for batch in batches:
                for value in batch.column(0).to_pylist():
                    if value is not None:
                        out.write(value.hex() + "\n")
                        count += 1
        yield pa.record_batch({"frame": pa.array([str(count).encode()], pa.binary())})

    return task


def read(folder: Path) -> dict[int, list[Frame]]:
    return {
        int(path.name): [parse_frame(bytes.fromhex(line)) for line in path.read_text().split()] for path in folder.iterdir()
    }


def flat(frames: dict[int, list[Frame]]) -> list[Frame]:
    return [frame for some in frames.values() for frame in some]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "frames"
    made.mkdir()
    return made


def assert_same(frames: list[Frame], partition: int) -> None:
    assert [(frame.partition, frame.offset) for frame in frames] == [(partition, offset) for offset in range(len(RECORDS))]
    for frame, (key, value, headers) in zip(frames, RECORDS, strict=True):
        assert (frame.key, frame.value) == (key, value)
        assert frame.headers == [(name.encode(), raw) for name, raw in headers]


def test_a_live_query_hands_over_each_record_at_once_and_unchanged(
    spark: SparkRuntime, kafka: KafkaSettings, topic: TopicFactory, folder: Path
) -> None:
    name = topic(partitions=5)
    query = LiveQuery(spark.session, Source(name, kafka.spark()), spark.settings.work)
    query.start(dict.fromkeys(range(5), 0), writer(folder), batch_seconds=600)
    try:
        eventually(lambda: len(list(folder.iterdir())) == 5, 120, "a worker for each partition")
        partitions = eventually(query.partitions, 30, "the plan")
        assert sorted(partitions) == list(range(5))
        produce(kafka, name, partition=3)
        eventually(lambda: len(flat(read(folder))) == len(RECORDS), 30, "the last record, without a successor")
        assert_same(read(folder)[partitions.index(3)], 3)
        assert query.active
    finally:
        query.stop()
    assert query.failure == ""


def test_a_job_reads_exactly_its_range_and_returns_the_rows_of_each_task(
    spark: SparkRuntime, kafka: KafkaSettings, topic: TopicFactory, folder: Path
) -> None:
    name = topic(partitions=3)
    for partition in (0, 2):
        produce(kafka, name, partition)
    session = spark.bulk_session(rows=1_000, max_bytes=1 << 20)
    job = RangeJob(session, Source(name, kafka.spark()), "ranges", {0: (1, 3), 2: (0, len(RECORDS))})
    partitions = job.partitions()
    assert sorted(partitions) == [0, 2]
    ended = threading.Event()
    job.start(writer(folder), ended.set, at_once=2)
    assert ended.wait(120)
    assert job.failure == ""
    assert sorted(job.rows) == sorted([b"2", str(len(RECORDS)).encode()])
    found = read(folder)
    assert [frame.offset for frame in found[partitions.index(0)]] == [1, 2]
    assert_same(found[partitions.index(2)], 2)


def test_a_job_over_records_that_are_gone_fails_and_says_so(
    spark: SparkRuntime, kafka: KafkaSettings, admin: Admin, topic: TopicFactory, folder: Path
) -> None:
    name = topic()
    produce(kafka, name)
    job = RangeJob(spark.bulk_session(1_000, 1 << 20), Source(name, kafka.spark()), "beyond", {0: (50, 60)})
    ended = threading.Event()
    job.start(writer(folder), ended.set, at_once=2)
    assert ended.wait(120)
    assert job.failure


def waiting(folder: Path, wrong: int = -1) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that says by a file that it has begun, and ends when there is a file `go` beside it; the one of index `wrong` then fails."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        index = context.partitionId() if context else 0
        (folder / f"begun-{index}").touch()
        eventually((folder / "go").exists, 60, "permission to end")
        for _ in batches:
            pass
        if index == wrong:
            raise ValueError("this task fails")
        yield pa.record_batch({"frame": pa.array([str(index).encode()], pa.binary())})

    return task


ORDER = (2, 0, 3, 1)


@pytest.fixture
def four(spark: SparkRuntime, kafka: KafkaSettings, topic: TopicFactory) -> RangeJob:
    """A job of four tasks."""
    name = topic(partitions=4)
    for partition in range(4):
        produce(kafka, name, partition)
    ranges = {partition: (0, len(RECORDS)) for partition in ORDER}
    return RangeJob(spark.bulk_session(1_000, 1 << 20), Source(name, kafka.spark()), name, ranges)


def begun(job: RangeJob, folder: Path) -> set[int]:
    """The partitions whose tasks have begun."""
    return {job.partitions()[int(path.name.partition("-")[2])] for path in folder.glob("begun-*")}


def rows(job: RangeJob) -> set[int]:
    """The partitions whose tasks gave their row."""
    return {job.partitions()[int(row)] for row in job.rows}


def test_tasks_of_a_job_take_turns_in_the_order_of_its_ranges(four: RangeJob, folder: Path) -> None:
    ended = threading.Event()
    four.start(waiting(folder), ended.set, at_once=2)
    eventually(lambda: len(begun(four, folder)) == 2, 60, "two tasks")
    assert begun(four, folder) == {2, 0}
    assert four.begun == [2, 0]
    assert four.under_way == {2, 0}
    assert not four.done
    (folder / "go").touch()
    assert ended.wait(60)
    eventually(lambda: four.done, 10, "the end of its thread")
    assert (four.failure, four.begun) == ("", [2, 0, 3, 1])
    assert rows(four) == {0, 1, 2, 3}


def test_a_job_can_be_given_more_tasks_at_once_while_it_runs(four: RangeJob, folder: Path) -> None:
    ended = threading.Event()
    four.start(waiting(folder), ended.set, at_once=1)
    eventually(lambda: len(begun(four, folder)) == 1, 60, "one task")
    four.more(2)
    eventually(lambda: len(begun(four, folder)) == 3, 60, "three tasks")
    assert four.begun == [2, 0, 3]
    (folder / "go").touch()
    assert ended.wait(60)
    assert rows(four) == {0, 1, 2, 3}


def test_a_job_that_is_to_begin_no_more_tasks_ends_with_the_rows_of_those_that_have_begun(four: RangeJob, folder: Path) -> None:
    ended = threading.Event()
    four.start(waiting(folder), ended.set, at_once=2)
    eventually(lambda: len(begun(four, folder)) == 2, 60, "two tasks")
    four.begin_no_more()
    four.more(2)
    (folder / "go").touch()
    assert ended.wait(60)
    assert (four.failure, four.begun) == ("", [2, 0])
    assert rows(four) == {2, 0}


def test_after_a_task_that_fails_no_other_begins(four: RangeJob, folder: Path) -> None:
    ended = threading.Event()
    (folder / "go").touch()
    four.start(waiting(folder, wrong=four.partitions().index(0)), ended.set, at_once=1)
    assert ended.wait(60)
    assert four.failure == "ValueError: this task fails"
    assert four.begun == [2, 0]
    assert begun(four, folder) == {2, 0}


def test_a_cancelled_job_begins_no_other_task(four: RangeJob, folder: Path) -> None:
    ended = threading.Event()
    four.start(waiting(folder), ended.set, at_once=2)
    eventually(lambda: len(begun(four, folder)) == 2, 60, "two tasks")
    four.cancel()
    assert ended.wait(60)
    eventually(lambda: not four.under_way, 60, "the end of the cancelled tasks")
    assert four.failure
    assert four.begun == [2, 0]
    (folder / "go").touch()
    assert begun(four, folder) == {2, 0}


def test_a_job_that_was_cancelled_before_a_task_began_begins_none(four: RangeJob, folder: Path) -> None:
    ended = threading.Event()
    four.cancel()
    four.start(waiting(folder), ended.set, at_once=2)
    assert ended.wait(60)
    assert (four.begun, four.rows, four.under_way) == ([], [], frozenset())


def test_a_query_over_a_topic_that_does_not_exist_ends_with_the_reason(
    spark: SparkRuntime, kafka: KafkaSettings, folder: Path
) -> None:
    query = LiveQuery(spark.session, Source("no-such-topic", kafka.spark()), spark.settings.work)
    try:
        query.start({0: 0}, writer(folder), batch_seconds=600)
    except Retriable:
        return
    eventually(lambda: not query.active, 60, "the failure")
    assert query.failure
    query.stop()


def test_the_checkpoint_is_thrown_away(spark: SparkRuntime, kafka: KafkaSettings, topic: TopicFactory, folder: Path) -> None:
    query = LiveQuery(spark.session, Source(topic(), kafka.spark()), spark.settings.work)
    query.start({0: 0}, writer(folder), batch_seconds=600)
    eventually(query.partitions, 60, "the plan")
    checkpoints = spark.settings.work / "checkpoints"
    assert list(checkpoints.iterdir())
    query.stop()
    assert not list(checkpoints.iterdir())
