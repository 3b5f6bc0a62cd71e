"""A child process in a session of its own, which ends when its parent ends.

A session, not only a process group: Spark's Python daemon makes a group of its own, but nothing of ours leaves its session, so what
is left of a dead part can be found in `/proc` and killed. Linux only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.base.clock import Deadline
from headrace.base.errors import Terminal
from headrace.standalone import guard

_LOG_LIMIT = 20 << 20
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run: the arguments, and the whole environment (None: that of this process)."""

    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None


class Child:
    """One running child. Start it from a thread that lives as long as the process: the kernel watches the thread."""

    def __init__(self, launch: Launch, log_path: Path) -> None:
        """Start it, its output appended to `log_path`. Raises `Terminal` when that can't be done (no such program, a full disk)."""
        rotate(log_path)
        command = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), *launch.argv]
        try:
            with log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=None if launch.env is None else dict(launch.env),
                    start_new_session=True,
                )
        except OSError as error:
            raise Terminal(
                f"cannot start: {error.strerror}", subject=launch.argv[0], hint=f"Its log would be {log_path}"
            ) from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_status(self) -> int | None:
        """None while it runs; else its exit status, or minus the signal that ended it."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to stop."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, too_late: Callable[[], bool]) -> bool:
        """Ask it to stop, wait until `too_late`, then kill whatever is left of its session. True when it ended by itself."""
        self.terminate()
        while self._process.poll() is None and not too_late():
            time.sleep(_POLL)
        willing = self._process.poll() is not None
        self.kill_session()
        return willing

    def kill_session(self) -> None:
        """Kill the child and all of its session, and wait until they are gone (2 s at most)."""
        kill_session(self.pid)
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            pass


def describe_exit(status: int) -> str:
    """An exit status in words: `exit status 1`, `killed by SIGKILL`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def session_members(session: int) -> list[int]:
    """The pids of the session's processes that have not ended."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state = _stat(int(entry.name))
            if state is not None and state[3] == str(session) and state[0] not in "ZX":
                members.append(int(entry.name))
    return members


def kill_session(session: int) -> None:
    """Kill all processes of a session, also those that are born meanwhile."""
    deadline = Deadline(2)
    while (members := session_members(session)) and not deadline.expired:
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(_POLL)


def start_ticks(pid: int) -> str:
    """When a process started, in the kernel's ticks: with its pid it names a process for good. Empty when there is none."""
    state = _stat(pid)
    return state[19] if state is not None and state[0] not in "ZX" else ""


def rotate(path: Path) -> None:
    """Move a log that has grown large aside, to `NAME.1`."""
    try:
        if path.stat().st_size > _LOG_LIMIT:
            path.replace(path.with_name(path.name + ".1"))
    except FileNotFoundError:
        pass


def last_lines(path: Path, count: int = 15) -> list[str]:
    """The last lines of a log, none when it can't be read."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 256 * count))
            return log.read().decode(errors="replace").splitlines()[-count:]
    except OSError:
        return []


def _stat(pid: int) -> list[str] | None:
    # The fields after the command name, which may itself hold spaces and parentheses: state is [0], session [3], start time [19].
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
