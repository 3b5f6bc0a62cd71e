"""Consuming records one by one, in a group or without, from where one likes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from headrace.base.clock import Deadline
from headrace.base.errors import Terminal, UsageError
from headrace.kafka.admin import Admin
from headrace.kafka.failures import kafka_error
from headrace.kafka.settings import KafkaSettings

_POLL = 0.2
_NO_GROUP = "headrace-console"
_END = KafkaError._PARTITION_EOF


class Where(StrEnum):
    """Where to begin: the default is the end (in a group: where the group is, else the end)."""

    END = "end"
    BEGINNING = "beginning"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Start:
    """`value`: the offset, or milliseconds since the Unix epoch."""

    where: Where = Where.END
    value: int = 0


@dataclass(frozen=True, slots=True)
class Incoming:
    """One record. `append_time` says who set the timestamp (ms): the broker, else the producer; -1 where there is none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    append_time: bool
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Reader:
    """Reads topics. `until_end`: only what is there when it begins; `idle`: end after so many seconds without a record.

    With `group` it joins that and commits what has been given out; else it reads `partitions` (none given: all), commits nothing.
    Raises `Terminal` for a topic that does not exist, `UsageError` for wishes that contradict each other.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        start: Start | None = None,
        group: str = "",
        partitions: Sequence[int] = (),
        until_end: bool = False,
        idle: float | None = None,
        read_uncommitted: bool = False,
    ) -> None:
        self._settings = settings
        self._topics = list(topics)
        self._start = start or Start()
        self._group = group
        self._partitions = list(partitions)
        self._until_end = until_end
        self._idle = idle
        self._isolation = "read_uncommitted" if read_uncommitted else "read_committed"
        if group and (partitions or self._start.where in (Where.OFFSET, Where.TIME)):
            raise UsageError(
                "a group says itself which partitions and offsets it reads",
                subject=f"group {group}",
                hint="Leave out the group, or set its offsets with `headrace kafka groups reset-offsets`",
            )

    def records(self, limit: int | None = None) -> Generator[Incoming]:
        """Records until one of the ends that were asked for, `limit` at most. A record counts as read once the next is asked for."""
        wanted = self._wanted()
        consumer = Consumer(self._configuration())
        try:
            if self._group:
                consumer.subscribe(self._topics)
            else:
                consumer.assign([TopicPartition(topic, part, offset) for (topic, part), offset in wanted.items()])
            yield from self._read(consumer, limit)
        except KafkaException as error:
            raise kafka_error(error, f"topic {', '.join(self._topics)}") from error
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, limit: int | None) -> Iterator[Incoming]:
        given = 0
        finished: set[tuple[str, int]] = set()
        quiet = Deadline(self._idle) if self._idle is not None else None
        while limit is None or given < limit:
            message = consumer.poll(_POLL)
            if message is None or message.error() is not None:
                if message is not None and self._ended(consumer, message, finished):
                    return
                if quiet is not None and quiet.expired:
                    return
                continue
            given += 1
            yield _incoming(message)
            if self._group:
                consumer.store_offsets(message)
            if self._idle is not None:
                quiet = Deadline(self._idle)

    def _ended(self, consumer: Consumer, message: Message, finished: set[tuple[str, int]]) -> bool:
        """Whether that was the end of the last partition; other errors that do not pass are raised."""
        error = message.error()
        if error is None:
            return False
        if error.code() == _END:
            finished.add((message.topic() or "", message.partition() or 0))
            assigned = {(one.topic, one.partition) for one in consumer.assignment()}
            return self._until_end and assigned <= finished
        if not error.retriable() and error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            raise KafkaException(error)
        return False

    def _wanted(self) -> dict[tuple[str, int], int]:
        """The partitions to read, with the offsets to begin at."""
        admin = Admin(self._settings)
        wanted: dict[tuple[str, int], int] = {}
        for topic in self._topics:
            facts = admin.describe(topic)
            if facts is None:
                raise Terminal(
                    "does not exist", subject=f"topic {topic}", hint="`headrace kafka topics list` shows those that do"
                )
            chosen = self._partitions or range(facts.partitions)
            beyond = [part for part in chosen if part >= facts.partitions]
            if beyond:
                raise UsageError(f"has no partition {beyond[0]}: it has {facts.partitions}", subject=f"topic {topic}")
            starts = self._starts(admin, topic)
            wanted |= {(topic, part): starts.get(part, OFFSET_BEGINNING) for part in chosen}
        return wanted

    def _starts(self, admin: Admin, topic: str) -> dict[int, int]:
        match self._start.where:
            case Where.BEGINNING:
                return {}
            case Where.TIME:
                return admin.offsets_for_time(topic, self._start.value)
            case Where.OFFSET:
                return {part: max(self._start.value, begin) for part, begin in admin.begin_offsets(topic).items()}
            case Where.END:
                return admin.end_offsets(topic)

    def _configuration(self) -> dict[str, object]:
        return self._settings.client(
            **{
                "group.id": self._group or _NO_GROUP,
                "enable.auto.commit": bool(self._group),
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest" if self._start.where is Where.BEGINNING else "latest",
                "enable.partition.eof": self._until_end,
                "isolation.level": self._isolation,
                "log_level": 2,
            }
        )


def _incoming(message: Message) -> Incoming:
    kind, timestamp = message.timestamp()
    raw: Any = message.headers() or ()
    headers = [(name, _bytes(value)) for name, value in raw]
    return Incoming(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp,
        kind == TIMESTAMP_LOG_APPEND_TIME,
        _bytes(message.key()),
        _bytes(message.value()),
        headers,
    )


def _bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes | None) else str(value).encode()
