"""One idempotent librdkafka producer for one Kafka connection, shared by all ingresses behind it.

Delivery reports are fetched in two places. While much is going on, the threads that serve requests do it, once in a while: they hold the
interpreter anyway, and a thread that librdkafka wakes for each report would fight them for it (measured: a quarter of all CPU). The
producer's own thread then only looks after reports for which no further request has come. While little is going on it waits in
librdkafka, and handles each report at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from headrace.base.clock import Clock, Deadline
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.kafka.failures import kafka_error
from headrace.kafka.settings import KafkaSettings
from headrace.receiver.answers import FULL, TOO_LARGE_FOR_KAFKA, UNAVAILABLE, Answer
from headrace.receiver.config import Limits, Production

OnDelivery = Callable[[KafkaError | None, Message], None]
Headers = Mapping[str, str] | list[tuple[str, bytes]]

log = get_logger(__name__)

_BUSY = 8
"""Messages on their way from which the producer's thread does not wait for each report any more."""
_FETCH_SECONDS = 0.0005
"""A serving thread fetches reports with the next event after this time."""
_LEFT_SECONDS = 0.0015
"""Reports that nobody has fetched for this long are fetched by the producer's thread."""
_LOOK_SECONDS = 0.001
_WAIT_SECONDS = 0.1
_ROOM = 256 * 1024
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


class KafkaProducer:
    """Takes events up to its limits. Made with `start`, ended with `close`; everything else may be called from any thread.

    Raises `HeadraceError` at `start` when the settings are refused by the client library. `make` is librdkafka's producer.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        production: Production,
        limits: Limits,
        clock: Clock,
        make: Callable[[dict[str, Any]], Any] = Client,
    ) -> None:
        self.settings = settings
        self._now = clock.monotonic
        self.failing = False
        """The last delivery failed."""
        self.reachable: bool | None = None
        """Whether a broker answers, as far as is known; None before the first answer."""
        self.replaced = 0
        self.confirmed_events = 0
        """Events of plain requests whose report has come. Changed only by delivery reports, which come one at a time."""
        self.confirmed_bytes = 0
        self._events = 0
        self._bytes = 0
        self._production = production
        self._limits = limits
        self._most_events = limits.events
        self._most_bytes = limits.bytes
        self._make = make
        self._lock = threading.Lock()
        self._fetching = threading.Lock()
        """Held while reports are fetched, so while any of them is handled."""
        self._fetched = 0.0
        """When reports were last fetched, on the monotonic clock."""
        self._fatal: str | None = None
        self._closing = False
        self._retired: list[Any] = []
        self._thread = threading.Thread(target=self._run, name="delivery reports", daemon=True)

    def start(self) -> None:
        """Connect in the background."""
        self._use(self._connect())
        self._thread.start()

    @property
    def held_events(self) -> int:
        """Events that are being read, or wait for their report."""
        return self._events - self.confirmed_events

    @property
    def held_bytes(self) -> int:
        """The bytes of these events."""
        return self._bytes - self.confirmed_bytes

    def admit(self, size: int, events: int = 1) -> Answer | None:
        """Reserve room for `events` of `size` bytes in all, to be given back by `release`; the refusal where there is none."""
        with self._lock:
            all_bytes, all_events = self._bytes + size, self._events + events
            if all_bytes - self.confirmed_bytes <= self._most_bytes and all_events - self.confirmed_events <= self._most_events:
                self._bytes, self._events = all_bytes, all_events
                return None
        return self._refusal()

    def release(self, size: int, events: int = 1) -> None:
        """Give back what `admit` reserved."""
        with self._lock:
            self._bytes -= size
            self._events -= events

    def send(
        self, topic: str, value: bytes | None, key: str | bytes | None, headers: Headers, done: OnDelivery
    ) -> Answer | None:
        """Hand one event to librdkafka; `done(error, message)` is called once it is known what became of it.

        The refusal, when librdkafka does not even queue it: then `done` is not called.
        """
        try:
            self._produce(topic, value, key, headers=headers, on_delivery=done)
        except BufferError:
            return self._refusal()
        except KafkaException as error:
            return self.refusal(error.args[0])
        now = self._now()
        if now - self._fetched > _FETCH_SECONDS and self._fetching.acquire(blocking=False):
            try:
                self._fetched = now
                self._poll(0)
            finally:
                self._fetching.release()
        return None

    def delivered(self) -> None:
        """Note that Kafka took an event."""
        if self.failing or not self.reachable:
            self.failing, self.reachable = False, True

    def refusal(self, error: KafkaError) -> Answer:
        """The answer to a request whose event failed with `error`."""
        if error.code() in _TOO_LARGE:
            return TOO_LARGE_FOR_KAFKA
        if not self.failing:
            self.failing = True
            log.warning("Kafka does not take events", bootstrap=self.settings.bootstrap_servers, error=error.str())
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._fatal = error.str()
        return UNAVAILABLE

    def probe(self, seconds: float) -> None:
        """Ask Kafka for an answer; `reachable` says afterwards whether one came within `seconds`."""
        try:
            self._client.list_topics(timeout=seconds)
        except KafkaException:
            self.reachable = False
        else:
            self.reachable = True

    @property
    def waiting(self) -> int:
        """Events that librdkafka has not reported about."""
        return len(self._client) + sum(len(client) for client in self._retired)

    def close(self, deadline: Deadline) -> int:
        """Wait for the reports of all events, until the deadline; how many have none then."""
        while self.waiting and not deadline.expired:
            time.sleep(_LOOK_SECONDS)
        left = self.waiting
        self._closing = True
        if self._thread.ident is not None:
            self._thread.join()
        return left

    def _refusal(self) -> Answer:
        return UNAVAILABLE if self.failing or self.reachable is False else FULL

    def _connect(self) -> Any:
        limits, production = self._limits, self._production
        conf = self.settings.client(
            **{
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": production.linger_ms,
                "max.in.flight": production.in_flight,
                "message.timeout.ms": production.timeout_ms,
                "message.max.bytes": limits.body + _ROOM,
                "queue.buffering.max.messages": limits.events + 1000,
                "queue.buffering.max.kbytes": 2 * (limits.bytes // 1024) + 1024,
                "socket.nagle.disable": True,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 2,
                "error_cb": self._client_error,
            }
        )
        try:
            return self._make(conf)
        except KafkaException as error:
            raise kafka_error(error, f"Kafka {self.settings.bootstrap_servers}") from error

    def _use(self, client: Any) -> None:
        self._client = client
        self._produce = client.produce
        self._poll = client.poll

    def _client_error(self, error: KafkaError) -> None:
        """Told by librdkafka in the background, while reports are fetched."""
        if error.fatal():
            self._fatal = error.str()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.reachable = False

    def _run(self) -> None:
        while not self._closing:
            try:
                self._fetch()
            except Exception:
                log.exception("A delivery report could not be handled", bootstrap=self.settings.bootstrap_servers)

    def _fetch(self) -> None:
        if self._fatal is not None:
            self._replace(self._fatal)
        if self._retired:
            self._fetch_retired()
        if len(self._client) <= _BUSY and not self._retired:
            with self._fetching:
                self._poll(_WAIT_SECONDS)
            return
        time.sleep(_LOOK_SECONDS)
        if self._now() - self._fetched >= _LEFT_SECONDS:
            with self._fetching:
                self._poll(0)

    def _fetch_retired(self) -> None:
        with self._fetching:
            for client in self._retired:
                client.poll(0)
        self._retired = [client for client in self._retired if len(client)]

    def _replace(self, why: str) -> None:
        """A fatal error ends an idempotent producer: what it holds fails, a new one takes over."""
        log.error("The producer failed and is replaced", bootstrap=self.settings.bootstrap_servers, error=why)
        self._fatal = None
        old = self._client
        try:
            self._use(self._connect())
        except HeadraceError as error:
            log.error("No new producer yet", bootstrap=self.settings.bootstrap_servers, error=error.message)
            self._fatal = why
            time.sleep(_WAIT_SECONDS)
            return
        self.replaced += 1
        old.purge()
        self._retired.append(old)
