"""The supervisor with toy children: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.standalone.process import Launch, describe_exit, last_lines, session_members
from headrace.standalone.supervisor import GaveUp, Part, State, Status, Supervisor
from tests.support.waiting import eventually

SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); print('up', flush=True); time.sleep(600)"
SLOW = SLEEPER.replace("exit(0)", "(time.sleep(0.5), exit(0))")
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
# As Spark's daemon does: a grandchild in a process group of its own.
FAMILY = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], process_group=0, stdout=subprocess.DEVNULL)
print("up", child.pid, flush=True)
time.sleep(600)
"""


class Toys:
    """Makes parts whose program is a Python text, and remembers every change of state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[str, State]] = []
        self.supervisors: list[Supervisor] = []

    def part(
        self, name: str, program: str, *, after: tuple[str, ...] = (), stop_seconds: float = 5.0, ready: bool = True
    ) -> Part:
        log = self.folder / f"{name}.log"
        missing: Callable[[], list[str]] = lambda: [] if ready and "up" in "".join(last_lines(log)) else ["not up"]  # noqa: E731
        return Part(name, lambda: Launch((sys.executable, "-c", program)), missing, log, after=after, stop_seconds=stop_seconds)

    def supervise(self, *parts: Part) -> Supervisor:
        supervisor = Supervisor(parts, self.note)
        self.supervisors.append(supervisor)
        return supervisor

    def note(self, part: Part, status: Status) -> None:
        self.seen.append((part.name, status.state))

    def until(self, supervisor: Supervisor, name: str, state: State) -> Status:
        def reached() -> bool:
            supervisor.step()
            return supervisor.status[name].state is state

        eventually(reached, 20, f"{name} {state}")
        return supervisor.status[name]


@pytest.fixture
def toys(tmp_path: Path) -> Iterator[Toys]:
    made = Toys(tmp_path)
    yield made
    for supervisor in made.supervisors:
        supervisor.stop(list(supervisor.status), hurry=lambda: True)


def test_a_part_starts_once_what_it_needs_is_ready(toys: Toys) -> None:
    supervisor = toys.supervise(toys.part("first", SLEEPER), toys.part("second", SLEEPER, after=("first",)))
    toys.until(supervisor, "second", State.READY)
    assert toys.seen.index(("first", State.READY)) < toys.seen.index(("second", State.STARTING))
    assert supervisor.all_ready


def test_a_part_that_keeps_its_classes_is_given_time_for_that_once_it_was_ready(toys: Toys) -> None:
    parts = [
        replace(toys.part("ready", SLOW, stop_seconds=0.0), records=True),
        replace(toys.part("never", SLOW, stop_seconds=0.0, ready=False), records=True),
        toys.part("other", SLOW, stop_seconds=0.0),
    ]
    notes: dict[str, str] = {}
    supervisor = Supervisor(
        parts, lambda part, status: notes.update({part.name: status.note} if status.state is State.STOPPING else {})
    )
    toys.supervisors.append(supervisor)
    for name in ("ready", "other"):
        toys.until(supervisor, name, State.READY)
    children = dict(supervisor._children)
    eventually(lambda: "up" in "".join(last_lines(toys.folder / "never.log")), 20, "it runs")
    supervisor.stop(["ready", "never", "other"])
    statuses = {name: child.exit_status() for name, child in children.items()}
    assert statuses == {"ready": 0, "never": -signal.SIGKILL, "other": -signal.SIGKILL}
    assert "keeps its Java classes" in notes["ready"]
    assert notes["never"] == notes["other"] == ""


def test_a_part_is_not_started_while_what_it_needs_is_not_ready(toys: Toys) -> None:
    supervisor = toys.supervise(toys.part("first", SLEEPER, ready=False), toys.part("second", SLEEPER, after=("first",)))
    toys.until(supervisor, "first", State.STARTING)

    def probed() -> bool:
        supervisor.step()
        return supervisor.status["first"].note == "not up"

    eventually(probed)
    assert supervisor.status["second"].state is State.WAITING


def test_a_killed_part_is_started_again_and_nothing_of_its_session_is_left(toys: Toys) -> None:
    supervisor = toys.supervise(toys.part("family", FAMILY))
    first = toys.until(supervisor, "family", State.READY)
    session = first.pid
    grandchild = int(last_lines(toys.folder / "family.log")[-1].split()[1])
    assert grandchild in session_members(session)
    os.kill(session, signal.SIGKILL)
    toys.until(supervisor, "family", State.RESTARTING)
    assert session_members(session) == []
    assert not Path(f"/proc/{grandchild}").exists() or "Z" in Path(f"/proc/{grandchild}/stat").read_text()
    again = toys.until(supervisor, "family", State.READY)
    assert again.pid not in (0, session)
    assert again.restarts.total == 1


def test_a_part_that_dies_at_once_is_given_up_with_its_last_lines(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.standalone.restarts.MAX_DELAY", 0.05)
    supervisor = toys.supervise(toys.part("broken", "raise SystemExit('no luck today')"))

    def gave_up() -> GaveUp | None:
        try:
            supervisor.step()
        except GaveUp as error:
            return error
        return None

    error = eventually(gave_up, 20)
    assert error is not None
    assert "no luck today" in str(error)
    assert "exit status 1" in str(error)
    assert "broken.log" in str(error)
    assert supervisor.status["broken"].state is State.FAILED


def test_parts_stop_in_the_order_given_and_a_stubborn_one_is_killed(toys: Toys) -> None:
    supervisor = toys.supervise(toys.part("a", SLEEPER), toys.part("b", STUBBORN, stop_seconds=0.3), toys.part("c", SLEEPER))
    for name in "abc":
        toys.until(supervisor, name, State.READY)
    pids = {name: status.pid for name, status in supervisor.status.items()}
    supervisor.stop(["c", "b", "a"])
    stops = [name for name, state in toys.seen if state is State.STOPPED]
    assert stops == ["c", "b", "a"]
    assert [session_members(pid) for pid in pids.values()] == [[], [], []]


def test_children_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from headrace.standalone.process import Child, Launch
child = Child(Launch((sys.executable, "-c", {SLEEPER!r})), Path({str(tmp_path / "child.log")!r}))
print(child.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        eventually(lambda: last_lines(tmp_path / "child.log") == ["up"])
        parent.kill()
    eventually(lambda: session_members(child) == [], 10, "the child ended")


def test_a_program_that_does_not_exist_says_so_in_the_log(toys: Toys) -> None:
    part = Part("ghost", lambda: Launch(("/no/such/program",)), lambda: ["x"], toys.folder / "ghost.log")
    supervisor = toys.supervise(part)
    toys.until(supervisor, "ghost", State.RESTARTING)
    assert "cannot run /no/such/program" in last_lines(part.log_path)[-1]


def test_an_exit_is_told_in_words() -> None:
    assert describe_exit(3) == "exit status 3"
    assert describe_exit(-9) == "killed by SIGKILL"
