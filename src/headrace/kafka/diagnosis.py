"""Why a Kafka process ended or does not answer, in words for people, from what it left in its logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headrace.base.errors import HeadraceError, Terminal

_TAIL_BYTES = 65536


def tail(paths: Sequence[Path], lines: int = 15) -> list[str]:
    """The last lines of the given logs, in the order given; logs that are not there count as empty."""
    found: list[str] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                found += file.read().decode(errors="replace").splitlines()[-lines:]
        except OSError:
            continue
    return found


def diagnose(paths: Sequence[Path], what: str, subject: str) -> HeadraceError:
    """The error for a Kafka that `what` (such as "ended while starting"): the known cause if its logs tell one, else their last lines."""
    lines = tail(paths, 400)
    where = f"See {' and '.join(str(path) for path in paths if path.exists()) or 'no log: it wrote none'}"
    for pattern, cause, advice in _CAUSES:
        match = next((match for line in reversed(lines) if (match := re.search(pattern, line))), None)
        if match:
            return Terminal(f"{what}: {cause.format(*match.groups())}", subject=subject, hint=f"{advice}. {where}")
    last = [line.strip() for line in lines if line.strip()][-5:]
    return Terminal(f"{what}. Its last words: {' | '.join(last) or 'none'}", subject=subject, hint=where)


_CAUSES = (
    (r"No space left on device", "the disk is full", "Make room on the disk of the data folder"),
    (
        r"Socket server failed to bind to (\S+): Address already in use",
        "{0} is in use by another process",
        "Stop that process or choose another port (0 takes any free one)",
    ),
    (r"Address already in use", "its port is in use by another process", "Stop that process or choose another port"),
    (
        r"Failed to acquire lock on file (\S+) in",
        "another Kafka uses this folder (it holds {0})",
        "Stop the other Kafka or use another data folder",
    ),
    (r"Permission denied|AccessDeniedException", "it may not write to its folder", "Give this user the right to write there"),
    (r"OutOfMemoryError: (.*)", "it ran out of memory ({0})", "Raise its heap"),
    (
        r"Could not reserve enough space|Cannot allocate memory",
        "the machine has too little memory for its heap",
        "Lower its heap",
    ),
    (
        r"Invalid cluster\.id in: (\S+)",
        "its storage belongs to another cluster ({0})",
        "Use the data folder that this cluster was made with",
    ),
)
