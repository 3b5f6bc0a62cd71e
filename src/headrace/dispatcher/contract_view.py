"""The contract topic at the driver, as values that may be kept: each look at it is a copy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.base.clock import Deadline
from headrace.base.log import get_logger
from headrace.core.contract import Resource
from headrace.core.contractlog import ContractState
from headrace.dispatcher.spec import lanes_key
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableReader

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contract up to `offset`. `runs`: topic -> run in force; `drains`: runs and jobs that are asked to stop."""

    resources: Mapping[str, Resource]
    runs: Mapping[str, str]
    drains: frozenset[str]
    trust_bundles: tuple[str, ...]
    generation: int
    offset: int


class ContractView:
    """Follows the topic from `start` to `close`; `on_change` is called on the reader's thread after each record."""

    def __init__(self, settings: KafkaSettings, topic: str, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._state = ContractState()
        self._lock = threading.Lock()
        self._reader = TableReader(settings, topic, self._apply, self._clear)

    def start(self) -> None:
        """Begin to read."""
        self._reader.start()

    def wait_ready(self, deadline: Deadline) -> None:
        """Wait until the end that the topic had has been reached. Errors: as `TableReader.wait_ready`."""
        self._reader.wait_ready(deadline)

    @property
    def ready(self) -> bool:
        """Whether that end has been reached."""
        return self._reader.ready

    def snapshot(self) -> Snapshot:
        """The contract as it is now."""
        with self._lock:
            state = self._state
            return Snapshot(
                dict(state.resources),
                dict(state.runs),
                frozenset(state.drains),
                state.trust_bundles,
                state.generation,
                state.offset,
            )

    def runs(self) -> dict[str, str]:
        """Topic -> run in force."""
        with self._lock:
            return dict(self._state.runs)

    def drains(self) -> set[str]:
        """Runs and jobs that are asked to stop."""
        with self._lock:
            return set(self._state.drains)

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _apply(self, key: str, value: bytes | None, offset: int) -> None:
        if key.startswith(lanes_key("")):
            return  # orders to the workers of a run
        with self._lock:
            change = self._state.apply(key, value, offset)
        if change.error is not None:
            log.warning("A contract record can't be read: the value before it stays in force", key=key, error=str(change.error))
        self._on_change()

    def _clear(self) -> None:
        with self._lock:
            self._state = ContractState()
