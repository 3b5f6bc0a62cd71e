"""Java's classes, kept ready between starts: half of what a start of Kafka or Spark costs is reading and checking them.

    archive missing --a process is started with `recording`--> it ends --`keep`--> archive there --`options`--> quick starts

A process that records writes the archive at its end, which takes seconds. Java holds an archive against its own version and the class
path, and goes on without one that does not fit; so does this module where the folder can't be written (an image). But one that was cut off
makes Java crash: so its size is part of its name.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from headrace.base.log import get_logger

log = get_logger(__name__)

FOLDER = "classes"
"""Where archives are, in the cache folder."""
RECORDING_SECONDS = 60.0
"""How much longer the end of a process that records may take."""

_QUIET = ("-Xlog:disable", "-Xlog:all=warning")
"""Java would print a line for each class that it does not take in: of archives only errors are heard. They are spoken of by the first name,
from Java 24 on by both.
"""
_SUBJECTS = ("cds", "aot")
_BOTH_FROM = 24
_COMPLETE = bytes.fromhex("a8ab0bf0")
"""The first bytes of an archive with all its parts: they are written last."""
_ROOM = 1 << 30
_KEPT = 3
"""Archives of a program: other versions, and other folders that it is installed in, have their own."""
_BASE_SECONDS = 60.0
_ABANDONED_SECONDS = 24 * 3600.0


class ClassArchive:
    """The archive of the program `name`, run by `java` (`JAVA_HOME/bin/java`) with `classpath` (jars, or folders of jars), in `folder`."""

    def __init__(self, folder: Path, name: str, java: Path, classpath: Iterable[Path]) -> None:
        self._folder = folder
        self._name = name
        self._java = java
        self._home = java.parent.parent
        self._program = f"{name}-{_fingerprint([self._home / 'release', *classpath])}"
        self._unfinished = folder / f"{name}.{uuid.uuid4().hex}"
        self._recorded = ""

    @property
    def missing(self) -> bool:
        """Whether a process that is started with `recording` now would make it."""
        return self._found is None and self._has_room

    def options(self) -> list[str]:
        """Options of a process that uses the archive, if it is there."""
        base, found = self._base, self._found
        if base is None or found is None:
            return []
        with suppress(OSError):
            os.utime(found)  # the ones used last are kept
        return [f"-XX:SharedArchiveFile={found if base == self._shipped else f'{base}:{found}'}", *self._quiet]

    def recording(self) -> list[str]:
        """Options of a process that uses the archive, or else makes it at its end: then `keep` or `discard` it."""
        if not self.missing:
            return self.options()
        base = self._base or self._make_base()
        if base is None:
            return []
        self._tidy()
        self._recorded = self._stem
        given = [] if base == self._shipped else [f"-XX:SharedArchiveFile={base}"]
        return [*given, f"-XX:ArchiveClassesAtExit={self._unfinished}", *self._quiet]

    def keep(self) -> None:
        """The process that recorded has ended: later ones are to use what it wrote, if that is whole."""
        try:
            with self._unfinished.open("rb") as file:
                whole = file.read(len(_COMPLETE)) == _COMPLETE
            if not whole:
                self.discard()
                return
            self._publish(self._unfinished, self._recorded)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("Java's classes can't be kept", folder=self._folder, error=error.strerror)

    def discard(self) -> None:
        """Nobody is to use what the process wrote: it did too little."""
        self._unfinished.unlink(missing_ok=True)

    @property
    def _shipped(self) -> Path:
        """Java's own archive of its own classes, which all others build on. Some have none."""
        return self._home / "lib" / "server" / "classes.jsa"

    @property
    def _base(self) -> Path | None:
        """The one to build on, if there is one."""
        return self._shipped if self._shipped.is_file() else self._whole(self._base_stem)

    @property
    def _found(self) -> Path | None:
        """The archive, if it is there and whole."""
        return self._whole(self._stem)

    @property
    def _base_stem(self) -> str:
        return f"java-{_fingerprint([self._home / 'release', self._home / 'lib' / 'server' / 'libjvm.so'])}"

    @property
    def _stem(self) -> str:
        base = self._base
        return self._program if base is None or base == self._shipped else f"{self._program}-{_fingerprint([base])}"

    def _whole(self, stem: str) -> Path | None:
        for path in self._folder.glob(f"{stem}.*.jsa"):
            with suppress(FileNotFoundError):
                if path.stat().st_size == int(path.suffixes[-2][1:]):
                    return path
        return None

    def _publish(self, unfinished: Path, stem: str) -> None:
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        path = self._folder / f"{stem}.{size}.jsa"
        unfinished.replace(path)
        same = self._folder.glob(f"{stem}.*.jsa")
        others = sorted(self._folder.glob(f"{stem.partition('-')[0]}-*.jsa"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in {*same, *others[_KEPT:]} - {path}:
            old.unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Remove what processes left that were killed as they recorded, or before anybody could take it."""
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if path.suffix != ".jsa" and time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()

    @property
    def _quiet(self) -> list[str]:
        version = re.search(r'JAVA_VERSION="(\d+)', self._release)
        both = version is not None and int(version[1]) >= _BOTH_FROM
        return [*_QUIET, *(f"-Xlog:{subject}*=error" for subject in (_SUBJECTS if both else _SUBJECTS[:1]))]

    @property
    def _release(self) -> str:
        """What Java says of itself."""
        try:
            return (self._home / "release").read_text(errors="replace")
        except OSError:
            return ""

    @property
    def _has_room(self) -> bool:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return os.access(self._folder, os.W_OK) and shutil.disk_usage(self._folder).free >= _ROOM
        except OSError:
            return False

    def _make_base(self) -> Path | None:
        """A Java without an archive of its own classes gets one."""
        unfinished = self._unfinished.with_suffix(".base")
        command = [str(self._java), "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedArchiveFile={unfinished}"]
        try:
            subprocess.run(command, capture_output=True, timeout=_BASE_SECONDS, check=True)
            if self._base is None:  # nobody else was quicker
                self._publish(unfinished, self._base_stem)
        except (OSError, subprocess.SubprocessError) as error:
            log.info("This Java makes no archive of its classes", java=str(self._java), error=str(error))
        finally:
            unfinished.unlink(missing_ok=True)
        return self._base


def _fingerprint(paths: Iterable[Path]) -> str:
    """Changes when one of the files does, as Java sees it: by name, size and time in seconds."""
    digest = hashlib.sha256()
    for path in _files(paths):
        try:
            seen = path.stat()
        except FileNotFoundError:
            continue
        digest.update(f"{path}\0{seen.st_size}\0{int(seen.st_mtime)}\n".encode())
    return digest.hexdigest()[:16]


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.jar"))
        else:
            yield path
