"""The few reads that a worker makes itself, beside Spark: positions of new lanes, events of old stragglers, gaps, the contract's end.

One thread answers one question after the other; it keeps its consumers only while there are questions. None of them is given up because
Kafka is away: they wait for it, until `close`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.base.errors import HeadraceError, Retriable
from headrace.base.log import get_logger
from headrace.core.frame import Frame
from headrace.core.names import Internal
from headrace.core.progress import ProgressRecord, Range, parse_progress_key
from headrace.dispatcher.spec import WorkerSpec

log = get_logger(__name__)

_RECENT_MS = 120_000
_POLL = 0.2
_ASK = 5.0
_PAUSE = 1.0
_NEAR = 1000
"""Gaps that are no further apart are looked into in one read, over the events between them."""

_Question = tuple[str, Callable[[], None]]


class _Closed(Exception):
    """Nobody waits for the answer any more."""


class Lookups:
    """Answers come as calls on the lookup thread; pass something that posts them on."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._questions: deque[_Question] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._consumers: dict[str, Any] = {}
        self._thread: threading.Thread | None = None

    def positions(self, partition: int, uids: Iterable[str], found: Callable[[dict[str, bytes]], None]) -> None:
        """Look in the progress topic for the records of lanes `uids` in `partition`; `found` gets those that are there."""
        wanted = set(uids)
        self._ask("positions", lambda: found(self._positions(partition, wanted)))

    def events(self, partition: int, offsets: Iterable[int], found: Callable[[int, Frame | None], None]) -> None:
        """Read single events of the topic again, those near each other in one go; `found` gets each offset with its event, None if it is gone."""
        wanted = deque(sorted(offsets))

        def read() -> None:
            while wanted:
                last = next(_runs((offset, offset) for offset in wanted))[-1][1]
                for message in self._between(partition, wanted[0], last + 1):
                    offset = message.offset()
                    assert offset is not None
                    while wanted[0] < offset:
                        found(wanted.popleft(), None)
                    if wanted[0] == offset:
                        found(wanted.popleft(), _frame(message))
                    if offset == last:
                        break
                while wanted and wanted[0] <= last:
                    found(wanted.popleft(), None)

        self._ask("stragglers", read)

    def gaps(self, partition: int, gaps: Iterable[Range], found: Callable[[int | None], None]) -> None:
        """`found` gets the first offset in `gaps` (first and last offset of each, sorted) at which the topic has an event, else None."""
        runs = list(_runs(gaps))

        def read() -> None:
            for run in runs:
                left = deque(run)
                for message in self._between(partition, run[0][0], run[-1][1] + 1):
                    offset = message.offset()
                    assert offset is not None
                    while left and left[0][1] < offset:
                        left.popleft()
                    if left and left[0][0] <= offset:
                        found(offset)
                        return
            found(None)

        self._ask("gaps", read)

    def contract_end(self, found: Callable[[int], None]) -> None:
        """`found` gets the offset after the contract's last record."""
        topic = self._spec.contract_topic or Internal(self._spec.instance).contract

        def read() -> None:
            found(self._bounds(self._control, topic, 0)[1])

        self._ask("contract", read)

    def close(self) -> None:
        """Break off what is still being looked up."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    # -- the thread -----------------------------------------------------------------------------------------------

    def _ask(self, name: str, look: Callable[[], None]) -> None:
        with self._changed:
            self._questions.append((name, look))
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lookups", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (question := self._next()) is not None:
            name, look = question
            try:
                look()
            except _Closed:
                break
            except (KafkaException, HeadraceError) as error:
                log.warning("A lookup in Kafka failed and is tried again", what=name, topic=self._spec.topic, error=str(error))
                self._let_go()
                with self._changed:
                    self._questions.append(question)
                self._closing.wait(_PAUSE)
        self._let_go()

    def _next(self) -> _Question | None:
        while not self._closing.is_set():
            with self._changed:
                if self._questions:
                    return self._questions.popleft()
            self._let_go()
            with self._changed:
                if not self._questions and not self._closing.is_set():
                    self._changed.wait()
        return None

    def _let_go(self) -> None:
        while self._consumers:
            self._consumers.popitem()[1].close()

    @property
    def _data(self) -> Any:
        # As Spark reads: what Kafka holds back, or marks as aborted, is there all the same.
        return self._consumer("data", self._spec.kafka.client, "read_uncommitted")

    @property
    def _control(self) -> Any:
        return self._consumer("control", self._spec.control.client, "read_committed")

    def _consumer(self, name: str, client: Callable[..., dict[str, Any]], isolation: str) -> Any:
        if name not in self._consumers:
            conf = client(
                **{
                    "group.id": "headrace-lookup",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "isolation.level": isolation,
                    "auto.offset.reset": "earliest",
                    "allow.auto.create.topics": False,
                    "queued.max.messages.kbytes": 4096,
                    "log_level": 2,
                }
            )
            self._consumers[name] = Consumer(conf)
        return self._consumers[name]

    # -- reading --------------------------------------------------------------------------------------------------

    def _between(self, partition: int, begin: int, end: int) -> Iterator[Message]:
        """The events from `begin` up to `end` that the topic has. Raises `Retriable` while its log does not reach to `end`."""
        consumer, topic = self._data, self._spec.topic
        low, high = self._bounds(consumer, topic, partition)
        if high < end:
            raise Retriable(f"its log ends at {high}, before {end}", subject=f"topic {topic}, partition {partition}")
        return self._range(consumer, topic, partition, max(begin, low), end)

    def _positions(self, partition: int, wanted: set[str]) -> dict[str, bytes]:
        """The latest record of each. They are recent as a rule (a lane is new), so the end of the topic is read first.

        One of an older run may be a replaced worker's, and hide what came before it.
        """
        topic = Internal(self._spec.instance).progress
        consumer = self._control
        low, high = self._bounds(consumer, topic, 0)
        since = TopicPartition(topic, 0, int(time.time() * 1000) - _RECENT_MS)
        recent = consumer.offsets_for_times([since], timeout=_ASK)[0].offset
        recent = high if recent < 0 else recent
        found: dict[str, ProgressRecord] = {}
        for begin, end in ((recent, high), (low, high)):
            for message in self._range(consumer, topic, 0, begin, end):
                uid = _lane_of(message, partition)
                if uid in wanted:
                    _take(found, uid, message.value())
            if all(uid in found and found[uid].run[: len(self._spec.run)] in ("", self._spec.run) for uid in wanted):
                break
            if (begin, end) == (recent, high):
                found.clear()
        return {uid: record.encode() for uid, record in found.items()}

    def _bounds(self, consumer: Any, topic: str, partition: int) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ASK, cached=False)
        return int(low), int(high)

    def _range(self, consumer: Any, topic: str, partition: int, begin: int, end: int) -> Iterator[Message]:
        """The records from `begin` up to `end`, which exists."""
        if begin >= end:
            return
        consumer.assign([TopicPartition(topic, partition, begin)])
        silent = 0.0
        while True:
            message: Message | None = consumer.poll(_POLL)
            if self._closing.is_set():
                raise _Closed
            if message is None:
                silent += _POLL
                if silent > _ASK:
                    raise Retriable("Kafka does not answer", subject=f"topic {topic}")
                continue
            silent = 0.0
            error, offset = message.error(), message.offset()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if offset is not None and offset >= end:
                return
            if error is None:
                yield message


def _runs(gaps: Iterable[Range]) -> Iterator[list[Range]]:
    """`gaps` that lie near each other, together."""
    run: list[Range] = []
    for gap in gaps:
        if run and gap[0] - run[-1][1] > _NEAR:
            yield run
            run = []
        run.append(gap)
    if run:
        yield run


def _take(found: dict[str, ProgressRecord], uid: str, value: bytes | None) -> None:
    if value is None:
        found.pop(uid, None)
        return
    try:
        record = ProgressRecord.decode(value)
    except HeadraceError as error:
        log.error("A position can't be read", lane=uid, error=str(error))
        return
    if record.supersedes(found.get(uid)):
        found[uid] = record


def _lane_of(message: Message, partition: int) -> str:
    try:
        uid, at = parse_progress_key((message.key() or b"").decode())
    except (HeadraceError, UnicodeDecodeError):
        return ""
    return uid if at == partition else ""


def _frame(message: Message) -> Frame:
    listed: Any = message.headers() or ()
    headers = [(name.encode(), value) for name, value in listed]
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Frame(partition, offset, message.timestamp()[1], message.key(), headers, message.value())
