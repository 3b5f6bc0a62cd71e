"""The jars of Kafka and of Spark's Kafka connector: fetched once by Spark's own Ivy, from Maven's central repository or a mirror.

What is wanted is written down in `jars.lock`, with hashes: nothing is resolved on a user's machine, and what does not match is not
used. `scripts/lock-jars` writes that file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as once
from importlib import resources
from pathlib import Path

from headrace.base.errors import Retriable, Terminal
from headrace.kafka.cache import cache_folder
from headrace.kafka.ivy import Coordinates, run_ivy
from headrace.kafka.java import JavaHome, java_home

KAFKA = "kafka"
SPARK_CONNECTOR = "spark-connector"


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar of the lock file; `sha256` in hexadecimal."""

    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.organisation}_{self.module}-{self.revision}.jar"

    @property
    def coordinates(self) -> Coordinates:
        return self.organisation, self.module, self.revision


@dataclass(frozen=True, slots=True)
class Fetching:
    """How far the fetching is: `done` of `total` jars, and the module that came last (empty at the beginning)."""

    done: int
    total: int
    last: str


Progress = Callable[[Fetching], None]


def kafka_classpath(progress: Progress | None = None, *, cache: Path | None = None, java: JavaHome | None = None) -> list[Path]:
    """The jars to run Kafka's server and tools, fetched first if need be. Errors: see `fetch`."""
    return fetch(KAFKA, progress, cache=cache, java=java)


def spark_connector_jars(
    progress: Progress | None = None, *, cache: Path | None = None, java: JavaHome | None = None
) -> list[Path]:
    """The jars that Spark needs beside its own to read Kafka, fetched first if need be. Errors: see `fetch`."""
    return fetch(SPARK_CONNECTOR, progress, cache=cache, java=java)


def fetch(
    group: str,
    progress: Progress | None = None,
    *,
    cache: Path | None = None,
    java: JavaHome | None = None,
    mirror: str | None = None,
) -> list[Path]:
    """The jars of a group of the lock file as paths in `cache`; what is missing is fetched, once for all who ask at the same time.

    `mirror` is the URL of a Maven repository to use instead of the central one (default: `HEADRACE_KAFKA_JAR_MIRROR`). Raises
    `Retriable` with what was tried when jars can't be had, `Terminal` when they can't be kept or are not the ones of the lock file.
    """
    cache = cache or cache_folder()
    mirror = os.environ.get("HEADRACE_KAFKA_JAR_MIRROR", "") if mirror is None else mirror
    wanted = locked(group)
    folder = cache / "jars"
    try:
        if _missing(wanted, folder):
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(cache / "jars.flock"):
                _Fetch(folder, java or java_home(cache=cache), mirror, progress).bring(_missing(wanted, folder))
    except OSError as error:
        raise Terminal(
            f"can't keep the jars: {error.strerror}",
            subject=f"cache folder {cache}",
            hint="Make room there or make it writable, or set HEADRACE_CACHE_DIR to another folder",
        ) from error
    return [folder / jar.file_name for jar in wanted]


@once
def locked(group: str) -> tuple[Jar, ...]:
    """The jars of one group of `jars.lock`, whose lines are `group organisation:module:revision sha256`."""
    lines = resources.files("headrace.kafka").joinpath("jars.lock").read_text().splitlines()
    fields = [line.split() for line in lines if line.startswith(f"{group} ")]
    return tuple(_jar(coordinates, digest) for _, coordinates, digest in fields)


def _jar(coordinates: str, digest: str) -> Jar:
    organisation, module, revision = coordinates.split(":")
    return Jar(organisation, module, revision, digest)


def sha256(path: Path) -> str:
    """The hash of a file, as `jars.lock` gives it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(wanted: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in wanted if not (folder / jar.file_name).is_file()]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let others who fetch finish first; the lock ends with its holder, however that ends."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Fetch:
    """One fetching of what is missing. What came stays, even if the rest did not."""

    def __init__(self, folder: Path, java: JavaHome, mirror: str, progress: Progress | None) -> None:
        self._folder = folder
        self._java = java
        self._mirror = mirror
        self._progress = progress or (lambda _: None)
        self._log = folder.parent / "fetch.log"
        self._tried: list[str] = []
        self._reasons: list[str] = []
        self._done = self._total = 0

    def bring(self, missing: Sequence[Jar]) -> None:
        """Fetch all, first as this machine trusts, then as Java does by itself; one jar goes ahead to see whether there is a way out."""
        self._total = len(missing)
        self._log.unlink(missing_ok=True)
        for machine_trust in (True, False):
            for part in (missing[:1], missing[1:]):
                if not self._part(_missing(part, self._folder), machine_trust):
                    break
            if not _missing(missing, self._folder):
                return
        self._give_up(_missing(missing, self._folder))

    def _part(self, part: Sequence[Jar], machine_trust: bool) -> bool:
        if not part:
            return True
        self._progress(Fetching(self._done, self._total, ""))
        with tempfile.TemporaryDirectory(dir=self._folder.parent, prefix="fetch-") as work:
            wanted = [jar.coordinates for jar in part]
            outcome = run_ivy(
                self._java.java, wanted, Path(work), self._came, self._log, mirror=self._mirror, machine_trust=machine_trust
            )
            for jar in part:
                if jar.coordinates in outcome.found:
                    self._keep(jar, outcome.found[jar.coordinates])
        self._tried += outcome.tried
        self._reasons += outcome.reasons
        return not _missing(part, self._folder)

    def _came(self, jar: Coordinates) -> None:
        self._done += 1
        self._progress(Fetching(self._done, self._total, jar[1]))

    def _keep(self, jar: Jar, file: Path) -> None:
        if sha256(file) != jar.sha256:
            raise Terminal(
                "the jar that was fetched is not the one of the lock file (its hash differs), so it is not used",
                subject=":".join(jar.coordinates),
                hint=f"The repository{f' {self._mirror}' if self._mirror else ''} or something on the way to it has changed the file",
            )
        arriving = self._folder / f".{jar.file_name}"
        shutil.move(file, arriving)
        arriving.rename(self._folder / jar.file_name)

    def _give_up(self, missing: Sequence[Jar]) -> None:
        first, tried = ":".join(missing[0].coordinates), list(dict.fromkeys(self._tried))
        # That a jar was not found is the least of what may be told.
        reasons = sorted(dict.fromkeys(self._reasons), key=lambda reason: reason.startswith("module not found"))
        raise Retriable(
            f"{len(missing)} of {self._total} jars could not be fetched, {first} first. Tried: {', '.join(tried[:3]) or 'nothing'}. "
            f"Reason: {'; '.join(reasons[:3]) or 'none was given'}",
            subject="jars of Kafka and its Spark connector",
            hint="Connect this machine to a Maven repository: https_proxy and SSL_CERT_FILE are honoured, HEADRACE_KAFKA_JAR_MIRROR "
            f"names another repository, or copy the jars to {self._folder}. Ivy's log: {self._log}",
        )
