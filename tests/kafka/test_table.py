"""Compacted topics as tables, on a real Kafka: what readers see, and when; who may write."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import Fenced, TableReader, TableWriter
from tests.conftest import TopicFactory
from tests.support.waiting import eventually

Records = list[tuple[str, bytes | None, int]]


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(config={"cleanup.policy": "compact"})


@pytest.fixture
def writer(kafka: KafkaSettings, name: str) -> Iterator[TableWriter]:
    made = TableWriter(kafka, name)
    yield made
    made.close()


@pytest.fixture
def exclusive(kafka: KafkaSettings, name: str) -> Iterator[Callable[[], TableWriter]]:
    """Each call makes a newer writer of the same transactional id and lets it take over."""
    made: list[TableWriter] = []
    transactional_id = f"x-{uuid.uuid4().hex}"

    def make() -> TableWriter:
        made.append(TableWriter(kafka, name, transactional_id))
        made[-1].init()
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def read(kafka: KafkaSettings, name: str) -> Iterator[Callable[..., tuple[TableReader, Records]]]:
    """Each call starts a reader and gives it with the records that it has been given so far."""
    readers: list[TableReader] = []

    def begin(*, skim: bool = False, start: int = 0) -> tuple[TableReader, Records]:
        seen: Records = []

        def take(key: str, value: bytes | None, offset: int) -> None:
            seen.append((key, value, offset))

        readers.append(TableReader(kafka, name, take, seen.clear, skim=skim, start=start))
        readers[-1].start()
        return readers[-1], seen

    yield begin
    for reader in readers:
        reader.close()


Read = Callable[..., tuple[TableReader, Records]]
Exclusive = Callable[[], TableWriter]


def test_a_reader_is_ready_once_it_has_seen_all_that_was_there(writer: TableWriter, read: Read) -> None:
    last = writer.put_all([("a", b"1"), ("b", b""), ("a", None)])
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    assert last == 2
    assert seen == [("a", b"1", 0), ("b", b"", 1), ("a", None, 2)]
    assert reader.position == 3


def test_a_reader_that_skims_is_given_the_last_two_of_each_key_and_then_all(writer: TableWriter, read: Read) -> None:
    writer.put_all([("a", b"1"), ("b", b"1"), ("a", b"2"), ("a", b"3"), ("c", b"1"), ("c", None), ("a", b"4")])
    reader, seen = read(skim=True)
    reader.wait_ready(Deadline(10))
    before = [("b", b"1", 1), ("a", b"3", 3), ("c", b"1", 4), ("c", None, 5), ("a", b"4", 6)]
    assert (seen, reader.position) == (before, 7)
    last = writer.put_all([("a", b"5"), ("a", b"6"), ("a", b"7")])
    reader.wait_applied(last, Deadline(10))
    assert seen == [*before, ("a", b"5", 7), ("a", b"6", 8), ("a", b"7", 9)]


def test_a_reader_that_skims_says_nothing_before_it_has_all(writer: TableWriter, kafka: KafkaSettings, name: str) -> None:
    writer.put_all([(str(number % 7), b"x" * 1000) for number in range(2_000)])
    told: list[tuple[bool, int]] = []
    reader = TableReader(kafka, name, lambda key, value, offset: told.append((reader.ready, reader.position)), skim=True)
    reader.start()
    reader.wait_ready(Deadline(10))
    reader.close()
    assert told == [(False, 0)] * 14


def test_a_reader_that_skims_an_empty_topic_is_given_all_that_comes(writer: TableWriter, read: Read) -> None:
    reader, seen = read(skim=True)
    reader.wait_ready(Deadline(10))
    last = writer.put_all([("a", b"1"), ("a", b"2"), ("a", b"3")])
    reader.wait_applied(last, Deadline(10))
    assert [value for _, value, _ in seen] == [b"1", b"2", b"3"]


def test_a_reader_that_skims_is_ready_though_the_topic_ends_with_the_marker_of_a_transaction(
    exclusive: Exclusive, read: Read, admin: Admin, name: str
) -> None:
    last = exclusive().put_all([("a", b"1"), ("a", b"2"), ("a", b"3")])
    eventually(lambda: admin.end_offsets(name)[0] == last + 2, 10, "a commit marker follows the records")
    reader, seen = read(skim=True)
    reader.wait_ready(Deadline(10))
    assert [value for _, value, _ in seen] == [b"2", b"3"]


@pytest.mark.parametrize("skim", [False, True])
def test_a_reader_goes_on_from_where_somebody_else_has_read_to(writer: TableWriter, read: Read, skim: bool) -> None:
    writer.put_all([("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", None)])
    reader, seen = read(skim=skim, start=2)
    reader.wait_ready(Deadline(10))
    assert (seen, reader.position) == ([("a", b"2", 2), ("b", None, 3)], 4)


def test_a_reader_that_starts_at_the_end_is_ready_and_given_what_comes(exclusive: Exclusive, read: Read) -> None:
    writer = exclusive()
    last = writer.put_all([("a", b"1"), ("a", b"2")])
    reader, seen = read(skim=True, start=last + 1)
    reader.wait_ready(Deadline(10))
    assert seen == []
    last = writer.put("a", b"3")
    reader.wait_applied(last, Deadline(10))
    assert seen == [("a", b"3", last)]


def test_a_reader_that_starts_behind_the_end_reads_all_of_what_is_another_topic(writer: TableWriter, read: Read) -> None:
    writer.put_all([("a", b"1"), ("a", b"2")])
    reader, seen = read(start=3)
    reader.wait_ready(Deadline(10))
    assert [value for _, value, _ in seen] == [b"1", b"2"]


def test_a_writer_that_begins_twice_goes_on(exclusive: Exclusive, read: Read) -> None:
    writer = exclusive()
    writer.init()
    writer.put("a", b"1")
    writer.init()
    last = writer.put("a", b"2")
    reader, seen = read()
    reader.wait_applied(last, Deadline(10))
    assert [value for _, value, _ in seen] == [b"1", b"2"]


def test_a_reader_of_an_empty_topic_is_ready(read: Read) -> None:
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    assert (reader.position, seen) == (0, [])


def test_a_reader_follows_what_comes_later(writer: TableWriter, read: Read) -> None:
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    offset = writer.put("k", b"v")
    reader.wait_applied(offset, Deadline(10))
    assert seen == [("k", b"v", offset)]


def test_a_wait_for_what_does_not_come_ends_at_the_deadline(read: Read) -> None:
    reader, _ = read()
    with pytest.raises(Retriable, match="offset 5 was not reached"):
        reader.wait_applied(5, Deadline(0.3))


def test_a_reader_is_ready_though_the_topic_ends_with_the_marker_of_a_transaction(
    exclusive: Exclusive, read: Read, admin: Admin, name: str
) -> None:
    last = exclusive().put_all([("a", b"1"), ("b", b"2")])
    eventually(lambda: admin.end_offsets(name)[0] == last + 2, 10, "a commit marker follows the records")
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    assert [key for key, _, _ in seen] == ["a", "b"]
    eventually(lambda: reader.position == last + 2, 5, "the marker is passed")


def test_an_aborted_transaction_is_not_seen_and_does_not_hold_readers_up(
    kafka: KafkaSettings, writer: TableWriter, read: Read, name: str
) -> None:
    writer.put("before", b"1")
    producer = Producer(kafka.client(transactional_id=f"abort-{name}"))
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(name, b"2", key=b"aborted", partition=0)
    producer.flush(10)
    producer.abort_transaction(10)
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    assert [key for key, _, _ in seen] == ["before"]


def test_an_open_transaction_is_not_waited_for_and_is_ended_by_the_next_writer(
    kafka: KafkaSettings, exclusive: Exclusive, read: Read, name: str
) -> None:
    transactional_id = f"dies-{name}"
    first = TableWriter(kafka, name)
    first.put("before", b"1")
    first.close()
    dying = Producer(kafka.client(transactional_id=transactional_id))
    dying.init_transactions(10)
    dying.begin_transaction()
    dying.produce(name, b"2", key=b"unfinished", partition=0)
    dying.flush(10)
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    assert [key for key, _, _ in seen] == ["before"]
    successor = TableWriter(kafka, name, transactional_id)
    successor.init()
    offset = successor.put("after", b"3")
    reader.wait_applied(offset, Deadline(10))
    successor.close()
    assert [key for key, _, _ in seen] == ["before", "after"]


def test_a_transaction_appears_whole(exclusive: Exclusive, read: Read) -> None:
    reader, seen = read()
    sizes: set[int] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            sizes.add(len(seen))

    watcher = threading.Thread(target=watch)
    watcher.start()
    last = exclusive().put_all([(str(index), b"v") for index in range(2000)])
    reader.wait_applied(last, Deadline(20))
    stop.set()
    watcher.join()
    assert len(seen) == 2000
    assert [offset for _, _, offset in seen] == list(range(2000))


def test_the_newest_writer_fences_the_older_ones(exclusive: Exclusive, read: Read) -> None:
    older = exclusive()
    older.put("k", b"older")
    newer = exclusive()
    with pytest.raises(Fenced, match=r"a newer writer .* has taken over"):
        older.put("k", b"late")
    with pytest.raises(Fenced):
        older.put_all([("k", b"later")])
    offset = newer.put("k", b"newer")
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    reader.wait_applied(offset, Deadline(10))
    assert [value for _, value, _ in seen] == [b"older", b"newer"]


def test_writers_without_transactional_id_do_not_fence_each_other(kafka: KafkaSettings, name: str, read: Read) -> None:
    first, second = TableWriter(kafka, name), TableWriter(kafka, name)
    offsets = [first.put("a", b"1"), second.put("b", b"2"), first.put("c", b"3")]
    first.close()
    second.close()
    assert offsets == [0, 1, 2]


def test_an_asynchronous_write_reports_its_offset(writer: TableWriter) -> None:
    done: list[tuple[HeadraceError | None, int]] = []
    for index in range(100):
        writer.put_async(f"k{index}", b"v", lambda error, offset: done.append((error, offset)))
    eventually(lambda: len(done) == 100, 10, "all are confirmed")
    assert done == [(None, index) for index in range(100)]


def test_nothing_to_write_is_no_offset(writer: TableWriter, exclusive: Exclusive) -> None:
    assert writer.put_all([]) == -1
    assert exclusive().put_all([]) == -1


def test_a_record_that_cannot_be_taken_in_does_not_stop_the_reader(
    kafka: KafkaSettings, writer: TableWriter, name: str
) -> None:
    seen: list[str] = []

    def picky(key: str, value: bytes | None, offset: int) -> None:
        if key == "bad":
            raise ValueError("no")
        seen.append(key)

    writer.put_all([("a", b"1"), ("bad", b"2"), ("c", b"3")])
    reader = TableReader(kafka, name, picky)
    reader.start()
    reader.wait_ready(Deadline(10))
    reader.close()
    assert seen == ["a", "c"]


def test_a_topic_that_is_made_later_is_waited_for(kafka: KafkaSettings, admin: Admin) -> None:
    name = f"later-{uuid.uuid4().hex[:8]}"
    seen: list[str] = []
    reader = TableReader(kafka, name, lambda key, value, offset: seen.append(key))
    reader.start()
    with pytest.raises(Retriable, match="its end was not reached"):
        reader.wait_ready(Deadline(0.5))
    admin.create_topic(name, 1)
    writer = TableWriter(kafka, name)
    writer.put("k", b"v")
    eventually(lambda: seen == ["k"], 30, "the record is read")
    reader.wait_ready(Deadline(10))
    reader.close()
    writer.close()
    admin.delete_topic(name)


def test_a_reader_begins_anew_when_the_topic_was_made_again(
    kafka: KafkaSettings, admin: Admin, writer: TableWriter, read: Read, name: str
) -> None:
    writer.put_all([("a", b"1"), ("b", b"2"), ("c", b"3")])
    reader, seen = read()
    reader.wait_ready(Deadline(10))
    admin.delete_topic(name)
    admin.create_topic(name, 1, config={"cleanup.policy": "compact"})
    again = TableWriter(kafka, name)
    eventually(lambda: _written(again), 20, "the new topic takes records")
    again.close()
    eventually(lambda: [key for key, _, _ in seen] == ["z"] * len(seen) and seen, 60, "only what the new topic holds")


def _written(writer: TableWriter) -> bool:
    try:
        return writer.put("z", b"9") >= 0
    except HeadraceError:
        return False
