"""Order by key: which record keys are taken, and which events wait behind another of their key."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from headrace.dispatcher.worker.delivery import Delivery


class KeyLines:
    """One line per key that is taken: the event at its head is under way or waits for a retry, the others stand behind it.

    `queued`: how many stand behind, in all lines. A key is *held* while its head waits for a retry.
    """

    def __init__(self) -> None:
        self._lines: dict[bytes, deque[Delivery]] = {}
        self._held: set[bytes] = set()
        self.queued = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def join(self, key: bytes, delivery: Delivery) -> bool:
        """Whether `delivery` is at the head of its line; if not, it stands behind."""
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque()
            return True
        line.append(delivery)
        self.queued += 1
        return False

    def leave(self, key: bytes) -> Delivery | None:
        """The head is done with: who follows, if anybody."""
        line = self._lines.get(key)
        if line:
            self.queued -= 1
            return line.popleft()
        if line is not None:
            del self._lines[key]
        return None

    def hold(self, key: bytes) -> Iterable[Delivery]:
        """The head waits for a retry; those behind it."""
        if key not in self._lines:
            return ()
        self._held.add(key)
        return self._lines[key]

    def is_held(self, key: bytes) -> bool:
        return key in self._held

    def release(self, key: bytes) -> None:
        """The head is under way again."""
        self._held.discard(key)

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()
        self._held.clear()
        self.queued = 0
