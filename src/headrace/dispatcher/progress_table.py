"""The progress topic in memory: what every lane's owner last wrote.

Fencing by reading: run ids sort as text (`dispatcher.runs`), and a record of an older run than the one that is known for its lane and
topic is ignored, so that a worker that lives on after it was replaced does no harm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.base.clock import Deadline
from headrace.base.errors import Terminal
from headrace.base.log import get_logger
from headrace.core.progress import ProgressRecord, parse_progress_key, progress_key
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableReader, TableWriter

log = get_logger(__name__)

Moved = Callable[[str, int], None]
"""Told lane uid and partition after a change."""


class ProgressTable:
    """Follows `topic` from `start` to `close`; reading it is safe from any thread, `on_moved` is called on the reader's."""

    def __init__(self, settings: KafkaSettings, topic: str, admin: Admin, on_moved: Moved) -> None:
        self._topic = topic
        self._admin = admin
        self._on_moved = on_moved
        self._lock = threading.Lock()
        self._lanes: dict[str, dict[int, dict[str, ProgressRecord]]] = {}
        self._reader = TableReader(settings, topic, self._apply, self._clear)
        self._writer = TableWriter(settings, topic)

    def start(self) -> None:
        """Begin to read."""
        self._reader.start()

    def wait_current(self, deadline: Deadline) -> None:
        """Wait until all that is in the topic now has been read. Raises `Retriable` at the deadline."""
        end = self._admin.end_offsets(self._topic)[0]
        self._reader.wait_ready(deadline)
        if end > 0:
            self._reader.wait_applied(end - 1, deadline)

    def lane(self, uid: str, topic_id: str) -> dict[int, ProgressRecord]:
        """Partition -> record of a lane; where there is none about this topic, the last one about another of its name, if any."""
        with self._lock:
            found = self._lanes.get(uid, {})
            return {partition: by[topic_id] if topic_id in by else list(by.values())[-1] for partition, by in found.items()}

    def write(self, records: list[tuple[int, ProgressRecord]]) -> None:
        """Store records of lanes that nobody owns yet (partition and record each), durably, and in this table at once."""
        self._writer.put_all([(progress_key(record.uid, partition), record.encode()) for partition, record in records])
        with self._lock:
            for partition, record in records:
                self._put(partition, record)
        for partition, record in records:
            self._on_moved(record.uid, partition)

    def close(self) -> None:
        """Stop reading and writing."""
        self._reader.close()
        self._writer.close()

    def _apply(self, key: str, value: bytes | None, offset: int) -> None:
        try:
            uid, partition = parse_progress_key(key)
            record = None if value is None else ProgressRecord.decode(value)
        except Terminal as error:
            log.warning("A progress record can't be read and is ignored", key=key, offset=offset, error=str(error))
            return
        with self._lock:
            taken = self._remove(uid, partition) if record is None else self._put(partition, record)
        if taken:
            self._on_moved(uid, partition)
        else:
            log.warning("Progress of a replaced run is ignored", key=key, offset=offset)

    def _put(self, partition: int, record: ProgressRecord) -> bool:
        known = self._lanes.setdefault(record.uid, {}).setdefault(partition, {})
        if not record.supersedes(known.get(record.topic_id)):
            return False
        known[record.topic_id] = record
        return True

    def _remove(self, uid: str, partition: int) -> bool:
        lane = self._lanes.get(uid, {})
        lane.pop(partition, None)
        if not lane:
            self._lanes.pop(uid, None)
        return True

    def _clear(self) -> None:
        with self._lock:
            self._lanes.clear()
