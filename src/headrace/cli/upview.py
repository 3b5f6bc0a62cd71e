"""What `headrace up` shows: one line per part as it changes; on a terminal then a table that lives."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.base import log, signals
from headrace.base.config import Loaded
from headrace.cli.figures import Flow, FlowWatch
from headrace.cli.output import console
from headrace.kafka.jars import Fetching
from headrace.standalone.datadir import DataDir
from headrace.standalone.parts import Prepared
from headrace.standalone.probes import NO_ANSWER
from headrace.standalone.running import Up, View
from headrace.standalone.supervisor import Part, State, Status

_COLOURS = {State.READY: "green", State.FAILED: "red", State.RESTARTING: "red", State.UNREADY: "yellow"}
_REFRESH_SECONDS = 0.5


def run_up(settings: Loaded) -> None:
    """Run until SIGINT or SIGTERM; a second one cuts the stopping short."""
    chosen = settings.settings
    log.configure(json_format=chosen.logs.format == "json", level="ERROR")
    stop, hurry = threading.Event(), threading.Event()
    folder = DataDir(Path(chosen.data_dir))
    with ExitStack() as stack:
        display = stack.enter_context(_Display(folder))

        def on_main(number: int, frame: object) -> None:
            if not display.started:
                raise KeyboardInterrupt

        signals.act_on((*signals.STOPPING, signal.SIGHUP), lambda number: (hurry if stop.is_set() else stop).set(), on_main)
        view = View(display.prepared, display.changed, display.tick, display.fetching)
        Up(settings, folder, view).run(stop, hurry.is_set)


class _Display:
    """Lines as things happen; on a terminal a live table below them."""

    def __init__(self, folder: DataDir) -> None:
        self._folder = folder
        self._out = console()
        self._live: Live | None = None
        self._parts: dict[str, tuple[Part, Status]] = {}
        self._flow: FlowWatch | None = None
        self._next = 0.0
        self._told: dict[str, tuple[str, str]] = {}
        self._announced = False
        self.started = False
        self._start = time.monotonic()

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()
        if self._flow is not None:
            self._flow.close()

    def fetching(self, state: Fetching) -> None:
        """Jars are fetched, the first time only."""
        self._out.print(f"fetching jars, the first time only: {state.done} of {state.total} {state.last}", markup=False)

    def prepared(self, prepared: Prepared) -> None:
        """All ports are known; from here on there is something to stop."""
        self.started = True
        self._out.print(f"data folder {self._folder.path}", markup=False)
        if prepared.kafka is None:
            self._out.print(_line("kafka", prepared.settings.kafka.bootstrap_servers, "EXTERNAL", ""), markup=False)
        self._flow = FlowWatch(f"http://127.0.0.1:{prepared.settings.controller.port}")
        self._parts = {part.name: (part, Status()) for part in prepared.parts}
        if sys.stdout.isatty():
            self._live = Live(self._table(), console=self._out, refresh_per_second=4, transient=False)
            self._live.start()

    def changed(self, part: Part, status: Status) -> None:
        """A part changed: without a terminal, one line for each state, and for each thing that it waits for."""
        self._parts[part.name] = (part, status)
        if self._live is not None:
            self._live.update(self._table())
        elif self._told.get(part.name) != _news(status):
            self._told[part.name] = _news(status)
            self._out.print(_line(part.name, part.address or part.operations, status.state, _note(status)), markup=False)
        if not self._announced and all(status.state is State.READY for _, status in self._parts.values()):
            self._announced = True
            if self._live is None:
                self._out.print(
                    f"everything is ready after {time.monotonic() - self._start:.1f} s; Ctrl-C stops it", markup=False
                )

    def tick(self) -> None:
        """Refresh the figures on a terminal."""
        if self._live is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH_SECONDS
            self._live.update(self._table())

    def _table(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("PART", "STATE", "ADDRESS", "PID", ""):
            table.add_column(column, no_wrap=True)
        for part, status in self._parts.values():
            state = Text(status.state, style=_COLOURS.get(status.state, "yellow" if status.state is State.STARTING else ""))
            table.add_row(part.name, state, part.address or part.operations, str(status.pid or ""), _note(status))
        return Group(table, Text(""), Text(_figures(self._flow.latest() if self._flow else None)))


def _news(status: Status) -> tuple[str, str]:
    """What is worth a line: that a new process does not answer at once is not."""
    return status.state, "" if status.note == NO_ANSWER else status.note


def _line(name: str, address: str, state: str, note: str) -> str:
    return f"{name:<11} {state:<10} {address:<26} {note}".rstrip()


def _note(status: Status) -> str:
    deaths = f"deaths: {status.restarts.total}" if status.restarts.total else ""
    return "; ".join(filter(None, (_news(status)[1], deaths)))


def _figures(flow: Flow | None) -> str:
    if flow is None:
        return "no figures yet"
    return (
        f"{flow.topics} topics, {flow.subscriptions} subscriptions   "
        f"in {flow.events_per_second:,.0f}/s   delivered {flow.deliveries_per_second:,.0f}/s   "
        f"in flight {flow.in_flight:,}   waiting {flow.lag:,}   retrying {flow.retrying:,}   failed {flow.failed:,}   "
        f"p50 {flow.p50_ms:.1f} ms   p99 {flow.p99_ms:.1f} ms"
    )
