"""`headrace up`: prepare, supervise, tell the world in `run.json`, stop in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from headrace import __version__
from headrace.base.clock import Deadline
from headrace.base.config import Loaded
from headrace.base.errors import HeadraceError, Terminal
from headrace.base.log import get_logger
from headrace.kafka.jars import Progress
from headrace.standalone.datadir import DataDir, PartState, RunState
from headrace.standalone.parts import STOP_ORDER, Prepared, prepare
from headrace.standalone.process import kill_session, session_members, start_ticks
from headrace.standalone.supervisor import Part, Status, Supervisor

log = get_logger(__name__)
_LOOK_SECONDS = 0.05
_SPACE_SECONDS = 10.0
_LEFTOVER_SECONDS = 15.0
_RESERVE = 32 << 20


@dataclass(frozen=True, slots=True)
class View:
    """Who watches `up`. `prepared`: the parts are known; `changed`: one of them changed; `tick`: called about 20 times a second."""

    prepared: Callable[[Prepared], None]
    changed: Callable[[Part, Status], None]
    tick: Callable[[], None]
    fetching: Progress | None = None


class Up:
    """One run of everything on a data folder; call `run` from the main thread."""

    def __init__(self, loaded: Loaded, folder: DataDir, view: View) -> None:
        self._loaded = loaded
        self._folder = folder
        self._view = view
        self._state = "STARTING"
        self._settings = loaded.settings
        self._supervisor: Supervisor | None = None
        self._parts: dict[str, Part] = {}

    def run(self, stop: threading.Event, hurry: Callable[[], bool] = lambda: False) -> None:
        """Run until `stop` is set; `hurry` cuts the stopping short. Raises `HeadraceError` when it can't start or has to give up."""
        self._folder.prepare()
        try:
            clear_leftovers(self._folder)
            prepared = prepare(self._loaded, self._folder, self._view.fetching)
            try:
                self._supervise(prepared, stop, hurry)
            finally:
                if prepared.kafka is not None:
                    prepared.kafka.release(served=self._served("kafka"))
        finally:
            self._folder.release()

    def _served(self, name: str) -> bool:
        return self._supervisor is not None and self._supervisor.status[name].served

    def _supervise(self, prepared: Prepared, stop: threading.Event, hurry: Callable[[], bool]) -> None:
        self._settings = prepared.settings
        self._parts = {part.name: part for part in prepared.parts}
        self._supervisor = supervisor = Supervisor(prepared.parts, self._changed)
        self._view.prepared(prepared)
        look = Deadline(_SPACE_SECONDS)
        try:
            while not stop.wait(_LOOK_SECONDS):
                supervisor.step()
                if self._state == "STARTING" and supervisor.all_ready:
                    self._state = "RUNNING"
                    self._write()
                if look.expired:
                    look = Deadline(_SPACE_SECONDS)
                    self._folder.check_space(_RESERVE)
                self._view.tick()
        finally:
            self._state = "STOPPING"
            supervisor.stop([name for name in STOP_ORDER if name in self._parts], hurry=hurry)
            self._state = "STOPPED"
            self._write(quietly=True)

    def _changed(self, part: Part, status: Status) -> None:
        self._write(quietly=self._state == "STOPPING")
        self._view.changed(part, status)

    def _write(self, *, quietly: bool = False) -> None:
        """Bring `run.json` up to date; while stopping a full disk must not stand in the way."""
        supervisor = self._supervisor
        if supervisor is None:
            return
        parts = {
            name: PartState(
                name=name,
                state=supervisor.status[name].state.value,
                address=part.address,
                operations=part.operations,
                pid=supervisor.status[name].pid,
                started=supervisor.status[name].started,
                deaths=supervisor.status[name].restarts.total,
                log=str(part.log_path),
            )
            for name, part in self._parts.items()
        }
        if "kafka" not in parts:
            parts["kafka"] = PartState("kafka", "EXTERNAL", address=self._settings.kafka.bootstrap_servers)
        try:
            self._folder.write_run(RunState(self._state, os.getpid(), self._settings.instance, __version__, parts))
        except HeadraceError:
            if not quietly:
                raise


def clear_leftovers(folder: DataDir) -> None:
    """End what an earlier `up` on this folder has left behind (it was killed): given some seconds, then killed."""
    try:
        run = folder.read_run()
    except Terminal as error:
        log.warning("Ignored a run.json that cannot be read", error=error)
        return
    alive = [part for part in (run.parts.values() if run else ()) if part.pid and _is_same(part)]
    deadline = Deadline(_LEFTOVER_SECONDS)
    for part in alive:
        log.warning("Waiting for a process of an earlier run to end", part=part.name, pid=part.pid)
        while session_members(part.pid) and not deadline.expired:
            threading.Event().wait(_LOOK_SECONDS)
        kill_session(part.pid)


def _is_same(part: PartState) -> bool:
    """Whether the pid is still that process; its session may also live on without its leader."""
    ticks = start_ticks(part.pid)
    return ticks == part.started if ticks else bool(session_members(part.pid))
