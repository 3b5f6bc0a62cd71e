"""Processes that outlive the command that started them, found again by what the kernel says of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.base.clock import Deadline
from headrace.base.files import write_atomically

_STARTED_FIELD = 19
_STATE_FIELD = 0


def start_detached(argv: Sequence[str], env: Mapping[str, str], folder: Path) -> int:
    """Start a process in a session of its own, its output appended to `folder/kafka.out`; `folder/pid` remembers it."""
    with (folder / "kafka.out").open("ab") as output:
        process = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    write_atomically(folder / "pid", f"{process.pid} {_started(process.pid)}\n".encode())
    # It is to live on: Popen must not complain about that when it is collected.
    process.returncode = 0
    return process.pid


def running_pid(folder: Path) -> int | None:
    """The process that `folder/pid` names, if it still runs and is the same one."""
    try:
        pid, started = (folder / "pid").read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    with suppress(ChildProcessError):
        os.waitpid(int(pid), os.WNOHANG)
    return int(pid) if _started(int(pid)) == started else None


def stop(folder: Path, deadline: Deadline, *, kill: bool = False) -> bool:
    """End the process of `folder`: asked to, then at the deadline killed; `kill`: at once, as a crash would. Whether it went by itself."""
    pid = running_pid(folder)
    if pid is None:
        return True
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
    while running_pid(folder) is not None:
        if deadline.expired:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return not kill


def _started(pid: int) -> str:
    """When the process started, in the kernel's clock ticks: tells it from another that got its id. Empty when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[_STATE_FIELD] in ("Z", "X") else fields[_STARTED_FIELD]
