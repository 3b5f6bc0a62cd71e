"""The dataplane topic at the driver: workers' reports in, the driver's own out, once a second."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError, Terminal
from headrace.base.log import get_logger
from headrace.core.heartbeat import DriverReport, WorkerReport, decode_report, encode_report
from headrace.dispatcher.watch import Ear
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableReader, TableWriter

log = get_logger(__name__)

BEAT_SECONDS = 1.0
_BACKLOG_MS = 1_000


class Dataplane:
    """Reads from `start` to `close`. `on_report` gets every worker's report, on the reader's thread; `make_report` makes ours.

    `identity` is the `instance` of our reports; read back, they show (`ear`) that reports get through at all.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        identity: str,
        clock: Clock,
        on_report: Callable[[WorkerReport], None],
        make_report: Callable[[], DriverReport],
    ) -> None:
        self._identity = identity
        self._clock = clock
        self._on_report = on_report
        self._make_report = make_report
        self._reader = TableReader(settings, topic, self._apply)
        self._writer = TableWriter(settings, topic)
        self._beats = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._now = threading.Event()
        self._closing = False
        self.ear = Ear(clock.monotonic())

    def start(self) -> None:
        """Begin to read and to report."""
        self._reader.start()
        self._beats.start()

    def beat(self) -> None:
        """Report now, since something changed."""
        self._now.set()

    def close(self) -> None:
        """Report a last time and stop."""
        self._closing = True
        self._now.set()
        self._beats.join()
        self._reader.close()
        self._writer.close()

    def _beat(self) -> None:
        while not self._closing:
            self._now.wait(BEAT_SECONDS)
            self._now.clear()
            try:
                key, value = encode_report(self._make_report())
                self._writer.put_async(key, value, _written)
            except HeadraceError as error:
                log.warning("The driver's report was not written", error=str(error))
            except Exception:
                log.exception("The driver's report could not be made")

    def _apply(self, key: str, value: bytes | None, offset: int) -> None:
        kind = key.partition("/")[0]
        if value is None or kind not in ("worker", "driver"):
            return
        try:
            report = decode_report(key, value)
        except Terminal as error:
            log.warning("A heartbeat can't be read and is ignored", key=key, error=str(error))
            return
        if isinstance(report, WorkerReport):
            self._on_report(report)
        elif isinstance(report, DriverReport) and report.instance == self._identity:
            self.ear.heard(self._clock.monotonic())


def _written(error: HeadraceError | None, offset: int) -> None:
    """A report that was not written is followed by the next."""
