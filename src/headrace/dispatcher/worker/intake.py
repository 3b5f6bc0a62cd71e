"""Where the thread that reads Spark's input and the engine's thread meet: frames one way, patience the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_MOST_FRAMES = 512
_MOST_BYTES = 4 * 1024 * 1024


class Intake:
    """Frames that were read and not yet taken. A reader that is too far ahead waits; one batch larger than the bounds passes alone."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._frames: deque[bytes] = deque()
        self._read_bytes = 0  # written by the reader only
        self._taken_bytes = 0  # written by the engine only
        self._room = threading.Event()
        self._ended = False
        self._discarding = False

    def put(self, frames: list[bytes]) -> None:
        """Hand frames over (reader's thread); waits while there are too many."""
        if self._discarding:
            return
        self._read_bytes += sum(map(len, frames))
        self._frames.extend(frames)
        self._wake()
        while self._full and not self._discarding:
            self._room.clear()
            if self._full:
                self._room.wait(1.0)

    def end(self) -> None:
        """There will be no more (reader's thread)."""
        self._ended = True
        self._wake()

    def take(self) -> bytes | None:
        """The next frame (engine's thread)."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._taken_bytes += len(frame)
        if not self._room.is_set() and not self._full:
            self._room.set()
        return frame

    def discard(self) -> None:
        """From now on what is read is thrown away: the reader must go on to the end of its input, but nobody wants it."""
        self._discarding = True
        self._frames.clear()
        self._room.set()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def ended(self) -> bool:
        """The input has ended and all of it was taken."""
        return self._ended and not self._frames

    @property
    def _full(self) -> bool:
        return len(self._frames) > _MOST_FRAMES or self._read_bytes - self._taken_bytes > _MOST_BYTES
