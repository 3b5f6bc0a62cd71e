"""Brings each state of the contract into force, on a thread of its own: Secrets may have to be waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, UsageError
from headrace.base.log import get_logger
from headrace.core.contractlog import ContractState
from headrace.kafka.contracts import FileContract, TopicContract
from headrace.receiver.config import ReceiverConfig
from headrace.receiver.opening import SECRET_SECONDS, Opener
from headrace.receiver.table import IngressTable

log = get_logger(__name__)

_READY_SECONDS = 1.0
_UNSETTLED_SECONDS = 2.0
_GATHER_SECONDS = 0.02
"""Changes that come within this time make one table: a new instance reads thousands of records in a row."""


class ContractSource(Protocol):
    """The contract as records of a topic or as a file."""

    @property
    def state(self) -> ContractState: ...
    def start(self) -> None: ...
    def wait_ready(self, deadline: Deadline) -> None: ...
    def close(self) -> None: ...


def source_of(config: ReceiverConfig, on_change: Callable[[], None]) -> ContractSource:
    """The source that `config.contract` names. Raises `UsageError` when it names none."""
    kind, _, name = config.contract.partition(":")
    if kind == "file" and name:
        return FileContract(Path(name), on_change)
    if kind == "kafka" and config.kafka is not None:
        return TopicContract(config.kafka, config.instance, on_change, name)
    raise UsageError("not a contract source", subject=f"--contract {config.contract!r}", hint="Use kafka:TOPIC or file:PATH")


class Applier:
    """Gives `apply` each new table, with the offset of the last contract record that it holds."""

    def __init__(
        self,
        source: Callable[[Callable[[], None]], ContractSource],
        opener: Opener,
        apply: Callable[[IngressTable, int], None],
    ) -> None:
        self._opener = opener
        self._apply = apply
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._source = source(self._note)
        self._thread = threading.Thread(target=self._run, name="contract", daemon=True)
        self.loaded = False
        """The first table is in force."""
        self.problem = ""
        """Why there is none yet."""

    def start(self) -> None:
        """Read the contract, from now on until `close`."""
        self._source.start()
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether changes are still followed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Follow no more."""
        self._closing.set()
        self._changed.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._source.close()

    def _note(self) -> None:
        self._changed.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._step()
            except Exception:
                log.exception("A contract could not be brought into force")
                self._closing.wait(_UNSETTLED_SECONDS)

    def _step(self) -> None:
        if self.loaded:
            if self._changed.wait(self._patience):
                self._closing.wait(_GATHER_SECONDS)
            elif not self._opener.has_secrets:
                return
        self._changed.clear()
        try:
            # Also later on: a topic that was made anew is read to its end before it counts, the old table serves meanwhile.
            self._source.wait_ready(Deadline(_READY_SECONDS))
        except HeadraceError as error:
            self.problem = str(error)
            self._changed.set()
            self._closing.wait(_GATHER_SECONDS)
            return
        state = self._source.state
        self._apply(self._opener.open(state.ingresses()), state.offset)
        self.loaded = True

    @property
    def _patience(self) -> float:
        return _UNSETTLED_SECONDS if self._opener.unsettled else SECRET_SECONDS
