"""Versions, and figures of the machine: from `/proc` and the interpreter, without asking anybody."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace import __version__
from headrace.core.report import Report

Json = dict[str, Any]
_OURS = ("HEADRACE_", "KAFKA_", "JAVA_", "SPARK_", "PYSPARK_", "PYTHON", "KUBE", "LC_")
_KNOWN = {"PATH", "LANG", "TZ", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = {"open files": resource.RLIMIT_NOFILE, "processes": resource.RLIMIT_NPROC, "core file": resource.RLIMIT_CORE}


def collect_versions(report: Report) -> None:
    """Headrace, Python, and the packages that Headrace is made of."""
    packages = {}
    for line in metadata.requires("headrace") or ():
        name = line.partition(";")[0].split("=")[0].split(">")[0].split("<")[0].split("[")[0].strip()
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = "not installed"
    found: Json = {
        "headrace": __version__,
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": packages,
    }
    report.add("versions.yaml", found)


def collect_host(report: Report, folders: Iterable[Path] = ()) -> None:
    """Processors, memory, load, pressure, disks, limits. `folders`: whose disks count."""
    facts: Json = {
        "kernel": " ".join(os.uname()[i] for i in (0, 2, 3, 4)),
        "processors": {"all": os.cpu_count(), "usable": len(os.sched_getaffinity(0))},
        "load": list(os.getloadavg()),
        "uptimeSeconds": _number("/proc/uptime"),
        "memory": dict(
            _pairs("/proc/meminfo", ("MemTotal", "MemFree", "MemAvailable", "Cached", "SwapTotal", "SwapFree", "Shmem"))
        ),
        "openFiles": _text("/proc/sys/fs/file-nr").split(),
        "pressure": {name: _text(f"/proc/pressure/{name}").splitlines() for name in ("cpu", "memory", "io")},
        "limits": {name: [str(_limit(value)) for value in resource.getrlimit(number)] for name, number in _LIMITS.items()},
        "cgroup": {name: _text(_CGROUP / name).strip() for name in ("cpu.max", "memory.max", "memory.current", "pids.max")},
        "disks": [_disk(folder) for folder in folders],
    }
    report.add("host.yaml", facts)


def shown_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that have a bearing on us. The others, which are nobody's business, do not get into a report."""
    return {name: value for name, value in sorted(variables.items()) if name.upper() in _KNOWN or name.startswith(_OURS)}


def processes(pids: Iterable[int]) -> list[Json]:
    """What the kernel says of processes; those that have ended are left out."""
    found = []
    for pid in pids:
        status = dict(
            _pairs(f"/proc/{pid}/status", ("PPid", "State", "VmHWM", "VmRSS", "VmSwap", "Threads", "voluntary_ctxt_switches"))
        )
        if status:
            command = _text(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")
            times = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
            ticks = os.sysconf("SC_CLK_TCK")
            cpu = sum(int(value) for value in times[11:13]) / ticks if len(times) > 12 else None
            found.append({"pid": pid, "command": command, "cpuSeconds": cpu, "openFiles": _open_files(pid), **status})
    return found


def environment_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty when it can't be read."""
    pairs = (part.partition("=") for part in _text(f"/proc/{pid}/environ").split("\0") if "=" in part)
    return {name: value for name, _, value in pairs}


def _disk(folder: Path) -> Json:
    place = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    usage = shutil.disk_usage(place)
    files = os.statvfs(place)
    return {
        "folder": str(folder),
        "totalBytes": usage.total,
        "freeBytes": usage.free,
        "freeInodes": files.f_favail,
    }


def _open_files(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def _limit(value: int) -> int | str:
    return "unlimited" if value == resource.RLIM_INFINITY else value


def _pairs(path: str, names: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        if name in names:
            yield name, value.strip()


def _number(path: str) -> float | None:
    words = _text(path).split()
    return float(words[0]) if words else None


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
