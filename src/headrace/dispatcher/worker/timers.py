"""What is to happen later: a heap of due times. Nothing ever sleeps for it."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class Timers(Generic[T]):
    """Items with due times (seconds of one monotonic clock); equal times come in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due: float, item: T) -> None:
        """`item` comes back from `pop` once it is `due`."""
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, item))

    def pop(self, now: float) -> T | None:
        """The next item that is due, None when there is none."""
        if self._heap and self._heap[0][0] <= now:
            return heapq.heappop(self._heap)[2]
        return None

    @property
    def next_due(self) -> float | None:
        """When the next item is due; None without items."""
        return self._heap[0][0] if self._heap else None
