"""The processes of a dispatcher, told apart by what the kernel says of them."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path


def parent(pid: int) -> int:
    """Its parent; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def jvm(pids: Collection[int]) -> int:
    """Spark's JVM among the processes of a dispatcher."""
    return next(pid for pid in pids if _program(pid) == "java")


def workers(pids: Collection[int]) -> list[int]:
    """Spark's Python workers among them: forked from a daemon that the JVM has started."""
    spark = jvm(pids)
    parents = {pid: parent(pid) for pid in pids}
    return [pid for pid, above in parents.items() if parents.get(above) == spark]


def connected(pids: Collection[int], port: int) -> list[int]:
    """Those of the processes that have a connection to this port of the loopback interface."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    sockets = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(f":{port:04X}")}
    return [pid for pid in pids if sockets & _files(pid)]


def _files(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.add(os.readlink(link))
        except OSError:
            continue
    return found


def _program(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""
