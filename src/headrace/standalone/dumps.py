"""Thread dumps of the processes that the data folder names: asked for first, read when everything else has been collected."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.base import threaddumps
from headrace.base.clock import Deadline
from headrace.core.report import Report

_PYTHON = b"(most recent call first)"
_JAVA = b"JNI global ref"
_LONGEST = 4 << 20
_LOOK_SECONDS = 0.1


class ThreadDumps:
    """What `logs` (name -> file) grow by from the moment of asking."""

    def __init__(self, logs: Mapping[str, Path], pids: Iterable[int]) -> None:
        """Ask the processes `pids`, whose output goes into `logs`."""
        self._before = {name: (log, size) for name, log in logs.items() if (size := _size(log)) is not None}
        self._asked = threaddumps.ask(pids)

    def collect(self, report: Report, seconds: float = 10.0) -> None:
        """What has come, as soon as each has answered, after `seconds` at the latest."""
        java = sum(one.is_java for one in self._asked)
        python = len(self._asked) - java
        deadline = Deadline(seconds)
        while True:
            grown = {name: _from(log, offset) for name, (log, offset) in self._before.items()}
            missing = [_count(grown, _JAVA) < java, _count(grown, _PYTHON) < python]
            if not any(missing) or deadline.expired:
                break
            time.sleep(_LOOK_SECONDS)
        for name, text in grown.items():
            if _JAVA in text or _PYTHON in text:
                report.add(f"threads/{name}.txt", text.decode(errors="replace"))
        if any(missing):
            answered = min(_count(grown, _JAVA), java) + min(_count(grown, _PYTHON), python)
            asked = ", ".join(str(one.pid) for one in self._asked)
            report.miss("thread dumps", f"{answered} of {len(self._asked)} processes ({asked}) answered within {seconds:g} s")


def _count(grown: Mapping[str, bytes], mark: bytes) -> int:
    return sum(text.count(mark) for text in grown.values())


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _from(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_LONGEST)
    except OSError:
        return b""
