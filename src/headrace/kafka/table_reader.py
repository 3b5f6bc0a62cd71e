"""Follow a compacted topic from its beginning, and know when one has caught up with it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable
from headrace.base.log import get_logger
from headrace.kafka.failures import kafka_error
from headrace.kafka.settings import LIBRARY_LOG, KafkaSettings

OnRecord = Callable[[str, bytes | None, int], None]

log = get_logger(__name__)

_POLL = 0.2
_ASK_TIMEOUT = 1.0
_RETRY = 0.1
_HOPELESS = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
_HOPELESS |= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
# The group is a name that librdkafka demands; nothing is ever asked of it.
_IRRELEVANT = {KafkaError.GROUP_AUTHORIZATION_FAILED}


class TableReader:
    """Reads partition 0 of `topic` from its beginning, or from `start`, and goes on following it, in a thread of its own.

    `on_record(key, value, offset)` is called there for each committed record in order; `value` None is a tombstone. What it raises
    is logged and the record counts as read. `on_restart()` is called before all is read anew, which happens only when records
    that were read are gone (the topic was made again, or its retention overtook a long absence): drop what was built from them.

    `skim`: of the records that are there at the start only the last two of each key are given, once the end is reached. The topic of a
    table that changes often holds many of a key, however it is compacted, and taking one in may be dear. (Two, since one that can't be
    read leaves the one before in force.)

    A Kafka that is away, and a topic that does not exist yet, are waited for.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        on_record: OnRecord,
        on_restart: Callable[[], None] | None = None,
        *,
        skim: bool = False,
        start: int = 0,
    ) -> None:
        self._topic = topic
        self._start = start
        self._on_record = on_record
        self._on_restart = on_restart
        self._settings = settings
        self._skim = skim
        self._skimmed: dict[bytes | None, list[Message]] | None = None
        self._thread = threading.Thread(target=self._run, name=f"table {topic}", daemon=True)
        self._changed = threading.Condition()
        self._position = 0
        self._target: int | None = None
        self._error: HeadraceError | None = None
        self._hopeless = False
        self._closing = False

    def start(self) -> None:
        """Begin to read. Raises `Terminal` when the settings are refused by the client library."""
        conf = self._settings.client(
            **{
                "group.id": self._topic,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
                "fetch.error.backoff.ms": 50,
                "topic.metadata.refresh.interval.ms": 5000,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 2,
                "error_cb": self._report,
                "logger": LIBRARY_LOG,
            }
        )
        try:
            self._consumer = Consumer(conf)
        except KafkaException as error:
            raise kafka_error(error, self._subject) from error
        self._thread.start()

    @property
    def position(self) -> int:
        """The next offset to be read: every committed record below it has been given to `on_record`."""
        return self._position

    @property
    def ready(self) -> bool:
        """The end that the topic had when this reader started has been reached."""
        return self._target is not None and self._position >= self._target

    def wait_ready(self, deadline: Deadline) -> None:
        """Wait until `ready`. Raises `Retriable` at the deadline, or the error at once when waiting can't help (identity, rights)."""
        self._wait(lambda: self.ready, deadline, "its end was not reached in time", hopeless=True)

    def wait_applied(self, offset: int, deadline: Deadline) -> None:
        """Wait until the record at `offset` has been given to `on_record`. Raises `Retriable` at the deadline."""
        self._wait(lambda: self._position > offset, deadline, f"offset {offset} was not reached in time")

    def close(self, wait: bool = True) -> None:
        """Stop reading; returns when the thread has ended, so that no call of `on_record` follows.

        Without `wait` it returns at once, and a call that has begun may still go on.
        """
        self._closing = True
        if wait and self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def _subject(self) -> str:
        return f"topic {self._topic}"

    def _wait(self, done: Callable[[], bool], deadline: Deadline, what: str, hopeless: bool = False) -> None:
        with self._changed:
            while not done():
                if hopeless and self._hopeless and self._error:
                    raise self._error
                if deadline.expired or self._closing:
                    why = f" (position {self._position}; {self._error.message if self._error else 'no error reported'})"
                    raise Retriable(what + why, subject=self._subject, hint="Check that Kafka runs and has this topic")
                self._changed.wait(min(deadline.remaining(), 1.0))

    def _run(self) -> None:
        while not self._closing:
            if self._target is None and not self._begin():
                self._consumer.poll(_RETRY)  # serves callbacks; nothing is assigned yet
                continue
            message = self._consumer.poll(_POLL)
            if message is not None and not self._closing:
                self._take(message)
        self._consumer.close()

    def _begin(self) -> bool:
        """Learn where the topic begins and where its committed records end; what lies between must be read before this is ready.

        Asking first is also the quickest way to begin: a consumer that is assigned before it knows the partition waits half a second.
        """
        partition = TopicPartition(self._topic, 0)
        try:
            begin, end = self._consumer.get_watermark_offsets(partition, timeout=_ASK_TIMEOUT, cached=False)
        except KafkaException as error:
            self._report(error.args[0])
            return False
        # A topic that ends before `start` is another one than that which it was taken from.
        partition.offset = max(begin, self._start) if self._start <= end else begin
        self._skimmed = {} if self._skim and partition.offset < end else None
        self._consumer.assign([partition])
        with self._changed:
            self._position, self._target = partition.offset, end
            self._changed.notify_all()
        return True

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self._apply(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # Says how far the log has been seen, markers of transactions and compacted offsets included.
            self._give_skimmed()
            self._advance(message.offset())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._restart()
        else:
            self._report(error)

    def _apply(self, message: Message) -> None:
        key, offset = message.key(), message.offset()
        if offset is None:
            return
        if self._skimmed is not None:
            self._skimmed.setdefault(key, []).append(message)
            del self._skimmed[key][:-2]
            if self._target is None or offset + 1 < self._target:
                self._advance(None)
                return
            self._give_skimmed()
        else:
            self._give(key, message.value(), offset)
        self._advance(offset + 1)

    def _give_skimmed(self) -> None:
        if self._skimmed is None:
            return
        kept = [message for messages in self._skimmed.values() for message in messages]
        self._skimmed = None
        for message in sorted(kept, key=lambda one: one.offset() or 0):
            self._give(message.key(), message.value(), message.offset() or 0)

    def _give(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            self._on_record("" if key is None else key.decode(errors="replace"), value, offset)
        except Exception:
            log.exception("A record of a table could not be taken in", topic=self._topic, key=key, offset=offset)

    def _advance(self, position: int | None) -> None:
        with self._changed:
            if position is not None and position > self._position:
                self._position = position
            recovered = self._error is not None
            self._error, self._hopeless = None, False
            self._changed.notify_all()
        if recovered:
            log.info("A table is read again", topic=self._topic, position=self._position)

    def _restart(self) -> None:
        log.error("Records that were read are gone: the table is read anew", topic=self._topic, position=self._position)
        if self._on_restart is not None:
            self._on_restart()
        self._start = 0
        with self._changed:
            self._position, self._target = 0, None
        self._skimmed = None
        self._consumer.unassign()

    def _report(self, error: KafkaError) -> None:
        """Remember what stands in the way; log the first of a series, not each attempt."""
        if error.code() in _IRRELEVANT:
            return
        known = kafka_error(error, self._subject)
        with self._changed:
            new = self._error is None
            self._error, self._hopeless = known, error.code() in _HOPELESS
            self._changed.notify_all()
        if new:
            log.warning("A table can't be read at the moment", topic=self._topic, error=known.message)
