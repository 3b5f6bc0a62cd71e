"""The contract's two sources: the compacted topic, and a file (a mounted ConfigMap in the peer's format).

Both have one face: `start`, `wait_ready`, `state` (a copy that may be kept), `close`; `on_change` is called, on a thread of the source,
after each change. A source that goes away leaves the last known contract in force.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.base.log import get_logger
from headrace.core.contract import Contract, parse_contract, unknown_fields
from headrace.core.contractlog import ContractState, records_of
from headrace.core.names import Internal
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table_reader import TableReader

log = get_logger(__name__)

_LOOK_SECONDS = 0.5
"""How often a file is looked at: a ConfigMap volume is swapped by a symbolic link, which is cheap to see."""


class TopicContract:
    """The contract topic of an instance; `topic` is another one (`--contract kafka:TOPIC`)."""

    def __init__(self, settings: KafkaSettings, instance: str, on_change: Callable[[], None], topic: str = "") -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._state = ContractState()
        self._reader = TableReader(settings, topic or Internal(instance).contract, self._apply, self._clear, skim=True)

    def start(self) -> None:
        """Begin to follow the topic. Errors as `TableReader.start`."""
        self._reader.start()

    def wait_ready(self, deadline: Deadline) -> None:
        """Wait until the end that the topic had is reached. Errors as `TableReader.wait_ready`."""
        self._reader.wait_ready(deadline)

    def wait_applied(self, offset: int, deadline: Deadline) -> None:
        """Wait until the record at `offset` is in `state`. Raises `Retriable` at the deadline."""
        self._reader.wait_applied(offset, deadline)

    @property
    def ready(self) -> bool:
        """Whether that end has been reached."""
        return self._reader.ready

    @property
    def state(self) -> ContractState:
        """The contract as it is now."""
        with self._lock:
            return self._state.copy()

    def close(self) -> None:
        """Stop following."""
        self._reader.close()

    def _apply(self, key: str, value: bytes | None, offset: int) -> None:
        with self._lock:
            change = self._state.apply(key, value, offset)
        if change.error is not None:
            log.warning("A contract record can't be read: the value before it stays in force", key=key, error=str(change.error))
        self._on_change()

    def _clear(self) -> None:
        with self._lock:
            self._state = ContractState()
        self._on_change()


class FileContract:
    """A contract file, looked at twice a second. One that is gone or broken leaves the last good contract in force; an empty one drains.

    A contract whose generation did not change is dropped, as the peer's reader does, unless its generation is 0 (not set).
    `path` may name several files, separated by commas (the peer has one for Brokers, one for channels): together they are the
    contract, and its generation is the lowest of theirs.
    """

    def __init__(self, path: Path | str, on_change: Callable[[], None]) -> None:
        self._path = Path(path)
        self._paths = tuple(Path(part) for part in str(path).split(",") if part)
        self._on_change = on_change
        self._lock = threading.Lock()
        self._contract: Contract | None = None
        self._state = ContractState()
        self._generations: tuple[int, ...] = ()
        self._seen: tuple[tuple[int, int, int], ...] | None = None
        self._error: HeadraceError | None = None
        self._told = ""
        self._loaded = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="contract file", daemon=True)

    def start(self) -> None:
        """Begin to watch the file."""
        self._thread.start()

    def wait_ready(self, deadline: Deadline) -> None:
        """Wait for the first good contract. Raises `Retriable` with what is wrong with the file when there is none in time."""
        if not self._loaded.wait(deadline.remaining()):
            raise self._error or Retriable("not read yet", subject=self._subject)

    @property
    def contract(self) -> Contract:
        """The last good contract; an empty one before the first."""
        with self._lock:
            return self._contract or Contract()

    @property
    def state(self) -> ContractState:
        """The same as the records of a topic would give; `offset` is the generation, or counts versions where there is none."""
        with self._lock:
            return self._state.copy()

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def _subject(self) -> str:
        return f"contract file {self._path}"

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._look()
            except HeadraceError as error:
                self._error = error
                if str(error) != self._told:
                    log.warning("The contract file can't be used: the last good one stays in force", error=str(error))
                self._told = str(error)
            self._closing.wait(_LOOK_SECONDS)

    def _look(self) -> None:
        try:
            facts = [os.stat(path) for path in self._paths]
            seen = tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in facts)
            if seen == self._seen:
                return
            texts = [path.read_bytes() for path in self._paths]
        except OSError as error:
            hint = "Check the path of --contract file:PATH"
            raise Terminal(f"cannot be read: {error.strerror}", subject=self._subject, hint=hint) from None
        self._seen = seen
        self._take([parse_contract(text) for text in texts])

    def _take(self, contracts: list[Contract]) -> None:
        generations = tuple(contract.generation for contract in contracts)
        if generations == self._generations and 0 not in generations:
            return
        contract = contracts[0] if len(contracts) == 1 else _joined(contracts)
        records = records_of(contract)
        state = ContractState()
        offset = contract.generation or self._state.offset + 1
        for key, value in records.items():
            error = state.apply(key, value, offset).error
            if error is not None:
                raise error
        state.offset = offset
        unknown = sorted(set(unknown_fields(contract)))
        if unknown:
            log.info("The contract has fields that are not known here; they are ignored", fields=", ".join(unknown))
        with self._lock:
            self._contract, self._state = contract, state
            self._generations = generations
        self._told, self._error = "", None
        self._loaded.set()
        self._on_change()


def _joined(contracts: list[Contract]) -> Contract:
    return Contract(
        generation=min(contract.generation for contract in contracts),
        resources=tuple(resource for contract in contracts for resource in contract.resources),
        trust_bundles=contracts[0].trust_bundles,
    )
