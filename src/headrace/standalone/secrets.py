"""Secrets of the store for processes of the data plane: whatever the contract names, read from the store's topic."""

from __future__ import annotations

import json
import threading

from headrace.base.clock import Deadline
from headrace.base.errors import Terminal
from headrace.core.contract import Reference
from headrace.core.names import Internal
from headrace.kafka.authfile import secret_data
from headrace.kafka.settings import Auth, KafkaSettings
from headrace.kafka.table import TableReader

_READY_SECONDS = 30.0
_PREFIX = "/Secret/"


class StoredSecrets:
    """Callable: the identity in a Secret. The store's topic is read from the first call on, then followed."""

    def __init__(self, kafka: KafkaSettings, instance: str) -> None:
        self._reader = TableReader(kafka, Internal(instance).resources, self._apply, self._reset)
        self._lock = threading.Lock()
        self._raw: dict[str, bytes] = {}
        self._started = False

    def __call__(self, reference: Reference) -> Auth:
        """Raises `Terminal` when there is no such Secret or it can't be used, `Retriable` while the store can't be read."""
        subject = f"secret/{reference.namespace}/{reference.name}"
        with self._lock:
            if not self._started:
                self._reader.start()
                self._started = True
        self._reader.wait_ready(Deadline(_READY_SECONDS))
        raw = self._raw.get(f"{_PREFIX}{reference.namespace}/{reference.name}")
        if raw is None:
            raise Terminal("does not exist", subject=subject, hint="Apply the Secret")
        return Auth.from_secret(secret_data(json.loads(raw), subject), subject)

    def close(self) -> None:
        """Stop following."""
        if self._started:
            self._reader.close()

    def _apply(self, key: str, value: bytes | None, offset: int) -> None:
        if not key.startswith(_PREFIX):
            return
        if value is None:
            self._raw.pop(key, None)
        else:
            self._raw[key] = value

    def _reset(self) -> None:
        self._raw.clear()
