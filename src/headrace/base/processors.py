"""How busy this machine's processors are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

_IDLE, _WAITING = 3, 4
"""Columns of Linux's `/proc/stat` (proc(5))."""


def processors() -> int:
    """How many of them this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_stat() -> str:
    """What the kernel says of them; empty where there is no such file."""
    try:
        return Path("/proc/stat").read_text()
    except OSError:
        return ""


class IdleShare:
    """The share of the processors' time, over all of them, in which they had nothing to do. `read`: as `read_stat`."""

    def __init__(self, read: Callable[[], str] = read_stat) -> None:
        self._read = read
        self._idle, self._all = self._times()

    def since(self) -> float:
        """Between 0 and 1, of the time since the last call; 1 where it can't be known, or for no time at all."""
        idle, total = self._idle, self._all
        self._idle, self._all = self._times()
        return (self._idle - idle) / (self._all - total) if self._all > total else 1.0

    def _times(self) -> tuple[int, int]:
        line = self._read().partition("\n")[0].split()
        values = [int(value) for value in line[1:9]] if line[:1] == ["cpu"] else []
        return sum(values[_IDLE : _WAITING + 1]), sum(values)
