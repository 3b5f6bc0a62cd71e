"""A Kafka's data folder: room, rights, and one owner at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import time
from pathlib import Path
from typing import IO

from headrace.base.clock import Deadline
from headrace.base.errors import Terminal

_LEAST_FREE = 64 * 1024 * 1024
_FLOCK = "hhqqi"
_GRACE = 10.0


class FolderLock:
    """Keeps a second owner out of a folder; ends with this process, however it ends. The file says the owner's process id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Make this process the owner; nothing happens if it is already. Raises `Terminal` naming the owner there is."""
        if self._file is not None:
            return
        file = (self._folder / "lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            file.close()
            raise in_use(self._folder, owner) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file

    def release(self) -> None:
        """Let others have the folder."""
        if self._file is not None:
            self._file.close()
            self._file = None


def in_use(folder: Path, pid: str) -> Terminal:
    """The error for a folder that process `pid` uses."""
    return Terminal(
        f"is in use by process {pid}", subject=f"data folder {folder}", hint="Stop that process or use another folder"
    )


def check_room(folder: Path) -> None:
    """Make the folder and see that there is room in it for Kafka to start. Raises `Terminal`."""
    subject = f"data folder {folder}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise Terminal(
            f"can't be used: {error.strerror}", subject=subject, hint="Choose a folder that this user may write"
        ) from error
    if free < _LEAST_FREE:
        raise Terminal(
            f"its disk is full ({free >> 20} MiB free, {_LEAST_FREE >> 20} needed at least)",
            subject=subject,
            hint="Make room or use a folder on another disk",
        )


def wait_for_kafka_to_leave(log_dir: Path, folder: Path) -> None:
    """Wait a little for a Kafka that still holds `log_dir` though its parent is gone (it is ending); raises `Terminal` if it stays."""
    deadline = Deadline(_GRACE)
    while (holder := lock_holder(log_dir / ".lock")) is not None:
        if deadline.expired:
            raise in_use(folder, str(holder))
        time.sleep(0.1)


def lock_holder(path: Path) -> int | None:
    """The process that holds a POSIX lock on `path`, as Kafka does on `.lock` in its log folder; None when nobody does."""
    try:
        with path.open("r+b") as file:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except FileNotFoundError:
        return None
    return None if kind == fcntl.F_UNLCK else int(pid)
