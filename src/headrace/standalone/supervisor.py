"""Keeps the parts of `headrace up` running: starts, watches, restarts, stops in order.

        WAITING --what it needs is READY--> STARTING --answers--> READY <--> UNREADY
                                               ^                    |           |
                                  wait over    |        process ended           |
                                               +--- RESTARTING <----+-----------+
        fifth death within two minutes: FAILED, everything is stopped

When a part dies, what is left of its session is killed before anything else: a dead driver's JVM and Python workers must not go on
delivering. A part that others need may die without taking them along; they wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headrace.base.classarchive import RECORDING_SECONDS
from headrace.base.clock import Clock, Deadline, SystemClock
from headrace.base.errors import HeadraceError, Terminal
from headrace.base.log import get_logger
from headrace.standalone.process import Child, Launch, describe_exit, last_lines, start_ticks
from headrace.standalone.restarts import MAX_DEATHS, WINDOW, Restarts

log = get_logger(__name__)


class State(StrEnum):
    """Where a part stands; see the picture above."""

    WAITING = "WAITING"
    STARTING = "STARTING"
    READY = "READY"
    UNREADY = "UNREADY"
    RESTARTING = "RESTARTING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Part:
    """One part: how to start it, how to see that it works, what must be ready before its first start.

    `missing` says what it still lacks, empty when it works; it is called from a thread and may block for a second. `stop_seconds` is its
    share of the time that stopping may take. `records`: once it has been ready, it makes an archive of its Java classes as it stops
    (`base.classarchive`), and is given time for that.
    """

    name: str
    launch: Callable[[], Launch]
    missing: Callable[[], list[str]]
    log_path: Path
    address: str = ""
    operations: str = ""
    after: tuple[str, ...] = ()
    stop_seconds: float = 8.0
    records: bool = False


@dataclass(slots=True)
class Status:
    """What the supervisor knows of a part. `note`: what is missing, or how it died. `served`: whether it ever was ready."""

    state: State = State.WAITING
    pid: int = 0
    started: str = ""
    note: str = ""
    served: bool = False
    restarts: Restarts = field(default_factory=Restarts)


class GaveUp(Terminal):
    """A part died too often; the text holds its last log lines."""


class Supervisor:
    """Call `step` again and again, from one thread that lives as long as the process, then `stop`."""

    def __init__(
        self,
        parts: Sequence[Part],
        on_change: Callable[[Part, Status], None] = lambda part, status: None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._on_change = on_change
        self._parts = {part.name: part for part in parts}
        self.status = {part.name: Status() for part in parts}
        self._children: dict[str, Child] = {}
        self._born: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._probes: dict[str, _Probe] = {}

    @property
    def all_ready(self) -> bool:
        return all(status.state is State.READY for status in self.status.values())

    def step(self) -> None:
        """One look at every part. Raises `GaveUp` when one has died too often; nothing is stopped by that."""
        for part in self._parts.values():
            if part.name in self._children:
                self._look(part)
            elif self._may_start(part):
                self._start(part)

    def stop(self, order: Sequence[str], total_seconds: float = 30.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """Stop the parts in this order within `total_seconds`; whatever does not end in its time, or when `hurry` says so, is killed."""
        recording = {name for name in order if name in self._children and self._records(name)}
        deadline = Deadline(total_seconds + RECORDING_SECONDS * len(recording), self._clock)
        for name in order:
            child = self._children.pop(name, None)
            self._end_probe(name)
            if child is not None:
                records = name in recording
                self._set(name, State.STOPPING, "keeps its Java classes, to start quicker from now on" if records else "")
                own = Deadline(self._parts[name].stop_seconds + (RECORDING_SECONDS if records else 0.0), self._clock)
                willing = child.stop(lambda own=own: own.expired or deadline.expired or hurry())  # type: ignore[misc]
                if not willing:
                    log.warning("Part was killed: it did not stop in time", part=name)
            if self.status[name].state is not State.FAILED:
                self._set(name, State.STOPPED)

    def _records(self, name: str) -> bool:
        return self._parts[name].records and self.status[name].served

    def _look(self, part: Part) -> None:
        exit_status = self._children[part.name].exit_status()
        if exit_status is not None:
            self._dead(part, exit_status)
            return
        missing = self._probes[part.name].missing
        status = self.status[part.name]
        if missing is None:
            return
        if not missing:
            status.served = True
            self._set(part.name, State.READY)
        else:
            self._set(part.name, State.STARTING if status.state is State.STARTING else State.UNREADY, "; ".join(missing))

    def _may_start(self, part: Part) -> bool:
        status = self.status[part.name]
        if status.state is State.WAITING:
            return all(self.status[name].state is State.READY for name in part.after)
        return status.state is State.RESTARTING and self._clock.monotonic() >= self._due[part.name]

    def _start(self, part: Part) -> None:
        self._born[part.name] = self._clock.monotonic()
        try:
            child = Child(part.launch(), part.log_path)
        except HeadraceError as error:
            self._died(part, f"could not start: {error}")
            return
        self._children[part.name] = child
        self._probes[part.name] = _Probe(part)
        status = self.status[part.name]
        status.pid, status.started = child.pid, start_ticks(child.pid)
        self._set(part.name, State.STARTING)

    def _dead(self, part: Part, exit_status: int) -> None:
        self._children.pop(part.name).kill_session()
        self._end_probe(part.name)
        self._died(part, describe_exit(exit_status))

    def _died(self, part: Part, how: str) -> None:
        status, now = self.status[part.name], self._clock.monotonic()
        status.pid, status.started = 0, ""
        delay = status.restarts.died(now, self._born[part.name])
        log.warning("Part died", part=part.name, how=how, deaths=status.restarts.total)
        if delay is None:
            self._set(part.name, State.FAILED, how)
            raise GaveUp(
                f"died {MAX_DEATHS} times within {WINDOW:.0f} s, the last time with {how}. Its last lines:\n"
                + "\n".join(f"    {line}" for line in last_lines(part.log_path)),
                subject=part.name,
                hint=f"The whole log: {part.log_path}",
            )
        self._due[part.name] = now + delay
        self._set(part.name, State.RESTARTING, f"{how}; again in {delay:.0f} s")

    def _set(self, name: str, state: State, note: str = "") -> None:
        status = self.status[name]
        if (status.state, status.note) != (state, note):
            status.state, status.note = state, note
            self._on_change(self._parts[name], status)

    def _end_probe(self, name: str) -> None:
        probe = self._probes.pop(name, None)
        if probe is not None:
            probe.over.set()


class _Probe:
    """Asks one process, until it is over, what it lacks: five times a second until it works, then once a second."""

    def __init__(self, part: Part) -> None:
        self.missing: list[str] | None = None
        self.over = threading.Event()
        self._part = part
        threading.Thread(target=self._run, name=f"probe {part.name}", daemon=True).start()

    def _run(self) -> None:
        while not self.over.is_set():
            self.missing = self._part.missing()
            self.over.wait(0.2 if self.missing else 1.0)
