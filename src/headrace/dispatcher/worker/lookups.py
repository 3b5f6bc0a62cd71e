"""The few reads that a worker makes itself, beside Spark: positions of new lanes, events of old stragglers, gaps.

Each has a thread of its own. None of them gives up because Kafka is away: they wait for it, until `close`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.frame import Frame
from headrace.core.names import Internal
from headrace.core.progress import parse_progress_key
from headrace.dispatcher.spec import WorkerSpec
from headrace.kafka.settings import KafkaSettings

log = get_logger(__name__)

_RECENT_MS = 120_000
_POLL = 0.2
_ASK = 5.0
_PAUSE = 1.0


class Lookups:
    """Answers come as calls on the lookup's thread; pass something that posts them on."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

    def positions(self, partition: int, uids: Iterable[str], found: Callable[[dict[str, bytes]], None]) -> None:
        """Look in the progress topic for the records of lanes `uids` in `partition`; `found` gets those that are there."""
        wanted = set(uids)
        self._start("positions", lambda: found(self._positions(partition, wanted)))

    def events(self, partition: int, offsets: Iterable[int], found: Callable[[int, Frame | None], None]) -> None:
        """Read single events of the topic again; `found` gets each offset with its event, None if it is gone."""
        wanted = sorted(offsets)

        def read() -> None:
            with closing(_consumer(self._spec.kafka)) as consumer:
                for offset in wanted:
                    message = _first_at(consumer, self._spec.topic, partition, offset)
                    found(offset, _frame(message) if message is not None and message.offset() == offset else None)

        self._start("stragglers", read)

    def gap(self, partition: int, begin: int, end: int, found: Callable[[int | None], None]) -> None:
        """`found` gets the first offset from `begin` up to `end` at which the topic has an event; None if Kafka has none there."""

        def read() -> None:
            with closing(_consumer(self._spec.kafka)) as consumer:
                message = _first_at(consumer, self._spec.topic, partition, begin)
                offset = None if message is None else message.offset()
                found(offset if offset is not None and offset < end else None)

        self._start("gap", read)

    def close(self) -> None:
        """Break off what is still being looked up."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _start(self, name: str, look: Callable[[], None]) -> None:
        def run() -> None:
            while not self._closing.is_set():
                try:
                    look()
                    return
                except (KafkaException, HeadraceError) as error:
                    log.warning(
                        "A lookup in Kafka failed and is tried again", what=name, topic=self._spec.topic, error=str(error)
                    )
                    self._closing.wait(_PAUSE)

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=run, name=f"lookup {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _positions(self, partition: int, wanted: set[str]) -> dict[str, bytes]:
        """The latest record of each. They are recent as a rule (a lane is new), so the end of the topic is read first."""
        topic = Internal(self._spec.instance).progress
        found: dict[str, bytes] = {}
        with closing(_consumer(self._spec.control, **{"isolation.level": "read_committed"})) as consumer:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_ASK)
            since = TopicPartition(topic, 0, int(time.time() * 1000) - _RECENT_MS)
            recent = consumer.offsets_for_times([since], timeout=_ASK)[0].offset
            recent = high if recent < 0 else recent
            for begin, end in ((recent, high), (low, recent)):
                for message in self._range(consumer, topic, begin, end):
                    uid = _lane_of(message, partition)
                    value = message.value()
                    if uid in wanted and value is not None:
                        found[uid] = value
                wanted -= found.keys()
                if not wanted:
                    break
        return found

    def _range(self, consumer: Any, topic: str, begin: int, end: int) -> Iterator[Message]:
        if begin >= end:
            return
        consumer.assign([TopicPartition(topic, 0, begin)])
        while not self._closing.is_set():
            message = consumer.poll(_POLL)
            if message is not None and message.error() is None:
                if message.offset() >= end:
                    return
                yield message
            elif consumer.position([TopicPartition(topic, 0)])[0].offset >= end:
                return


def _consumer(settings: KafkaSettings, **more: Any) -> Any:
    return Consumer(
        settings.client(
            **{
                "group.id": "headrace-lookup",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
                "log_level": 2,
                **more,
            }
        )
    )


def _first_at(consumer: Any, topic: str, partition: int, offset: int) -> Message | None:
    """The first event at or after `offset`; None at the end of the partition."""
    consumer.assign([TopicPartition(topic, partition, offset)])
    waited = 0.0
    while True:
        message: Message | None = consumer.poll(_POLL)
        if message is None:
            waited += _POLL
            if waited > _ASK:
                raise KafkaException("Kafka does not answer")
            continue
        error = message.error()
        if error is None:
            return message
        if error.code() == KafkaError._PARTITION_EOF:
            return None
        raise KafkaException(error)


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
