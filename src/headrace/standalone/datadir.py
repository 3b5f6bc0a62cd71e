"""The data folder of `headrace up`: its lock, its `run.json`, its logs.

DATA_DIR/lock       held (flock) by the one `headrace up` that uses the folder; holds its pid
DATA_DIR/run.json   addresses, pids, states; written atomically, so that readers never see half of it
DATA_DIR/logs/      PART.log
DATA_DIR/issuer.pem the private key of the controller's issuer of tokens (mode 0600)
DATA_DIR/kafka/     the embedded Kafka's data
DATA_DIR/spark/     Spark's throw-away files
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from headrace.base.errors import HeadraceError, Terminal

MIN_FREE_BYTES = 256 << 20
"""Below this Kafka could not keep even what it reserves for its internal topics."""


@dataclass(frozen=True, slots=True)
class PartState:
    """One part as `run.json` tells it. `started` is the kernel's start time of the process, which tells reused pids apart."""

    name: str
    state: str
    address: str = ""
    operations: str = ""
    pid: int = 0
    started: str = ""
    deaths: int = 0
    log: str = ""


@dataclass(frozen=True, slots=True)
class RunState:
    """The whole of `run.json`. `state`: STARTING, RUNNING, STOPPING, STOPPED."""

    state: str
    pid: int
    instance: str
    version: str
    parts: Mapping[str, PartState] = field(default_factory=dict)

    def address(self, part: str) -> str:
        """Address of a part, empty when it is not there."""
        known = self.parts.get(part)
        return known.address if known else ""


class DataDir:
    """One data folder. Nothing is created before `prepare`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: TextIO | None = None

    @property
    def kafka(self) -> Path:
        return self.path / "kafka"

    @property
    def spark(self) -> Path:
        return self.path / "spark"

    @property
    def issuer_key(self) -> Path:
        return self.path / "issuer.pem"

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    def log(self, part: str) -> Path:
        """The log of a part."""
        return self.path / "logs" / f"{part}.log"

    def prepare(self, min_free: int = MIN_FREE_BYTES) -> None:
        """Create the folder and take its lock. Raises `Terminal` when another process holds it, or the disk is full or not writable."""
        try:
            for folder in (self.path, self.kafka, self.spark, self.path / "logs"):
                folder.mkdir(parents=True, exist_ok=True)
            self._acquire()
        except OSError as error:
            raise disk_error(error, self.path) from None
        try:
            self.check_space(min_free)
        except Terminal:
            self.release()
            raise

    def check_space(self, min_free: int = MIN_FREE_BYTES) -> None:
        """Raises `Terminal` when the disk has less than `min_free` bytes left."""
        free = shutil.disk_usage(self.path).free
        if free < min_free:
            raise Terminal(
                f"the disk has {free >> 20} MiB left, at least {min_free >> 20} MiB are needed",
                subject=f"data folder {self.path}",
                hint="Free some space, or choose a folder on another disk with --data-dir",
            )

    def write_run(self, run: RunState) -> None:
        """Replace `run.json`. Raises `Terminal` when the disk is full."""
        part = self.run_file.with_name(".run.json.new")
        try:
            with part.open("w") as file:
                json.dump(asdict(run), file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.run_file)
        except OSError as error:
            raise disk_error(error, self.run_file) from None

    def read_run(self) -> RunState | None:
        """What `run.json` says, None when there is none. Raises `Terminal` when it is not one of ours."""
        try:
            raw = json.loads(self.run_file.read_text())
            parts = {name: PartState(**part) for name, part in raw.pop("parts").items()}
            return RunState(**raw, parts=parts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Terminal(
                f"cannot be read: {error}",
                subject=str(self.run_file),
                hint="Name the server with --server, or start `headrace up`",
            ) from None

    def in_use(self) -> bool:
        """Whether a `headrace up` holds this folder now."""
        try:
            with (self.path / "lock").open("a+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _acquire(self) -> None:
        lock = (self.path / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise Terminal(
                f"in use by another `headrace up` (pid {holder})",
                subject=f"data folder {self.path}",
                hint="Stop that one, or choose another folder with --data-dir",
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock


def disk_error(error: OSError, path: Path) -> HeadraceError:
    """What to tell a user about a file operation that failed."""
    hints: dict[Any, str] = {
        28: "The disk is full: free some space, or choose another folder with --data-dir",
        13: "Choose a folder that you may write to with --data-dir",
        30: "Choose a folder that can be written to with --data-dir",
    }
    return Terminal(
        f"cannot be written: {error.strerror}",
        subject=str(path),
        hint=hints.get(error.errno, "Choose another folder with --data-dir"),
    )
