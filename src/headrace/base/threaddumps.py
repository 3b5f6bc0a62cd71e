"""Thread dumps on request: each process writes to its log what its threads are doing.

A Python process of ours does that on SIGUSR1 (`answer`), a JVM on SIGQUIT. `ask` sends the right one, and only to a process of which the
kernel says that it catches it: any other would be ended by it. Linux only.

    python -m headrace.base.threaddumps     asks every process that can be seen: for use within a container
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Asked:
    """A process that was asked; `is_java` tells what its dump looks like."""

    pid: int
    is_java: bool


def answer() -> None:
    """From now on this process writes the stacks of its threads to standard error when it gets SIGUSR1; so do processes it forks."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def ask(pids: Iterable[int]) -> list[Asked]:
    """Ask those of the processes that can answer; which they are. The dumps come a moment later."""
    asked = []
    for pid in pids:
        program = _program(pid)
        if not program.startswith(("java", "python")):
            continue
        is_java = program.startswith("java")
        number = signal.SIGQUIT if is_java else signal.SIGUSR1
        if not _catches(pid, number):
            continue
        try:
            os.kill(pid, number)
        except OSError:
            continue
        asked.append(Asked(pid, is_java))
    return asked


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


def _catches(pid: int, number: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def main() -> None:
    """Ask every process that can be seen, and say which were."""
    found = ask(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    print(*(f"asked {one.pid} ({'java' if one.is_java else 'python'})" for one in found), sep="\n")


if __name__ == "__main__":
    main()
