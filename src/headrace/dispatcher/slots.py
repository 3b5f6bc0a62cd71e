"""Who may use how many of Spark's slots.

A query in Real-Time Mode needs one slot per partition, all at once; with fewer, Spark serves only some partitions and says nothing. A
batch job that takes a slot of a query between two of its batches does the same harm. So nothing starts that the book has no room for.
"""

from __future__ import annotations

import threading

from headrace.base.errors import Retriable


class InsufficientSlots(Retriable):
    """More tasks would run than there are slots."""


class SlotBook:
    """Counts claims by name. `reserve` slots are kept free for catch-up jobs: queries can't claim them. Shared by threads."""

    def __init__(self, total: int, reserve: int = 0) -> None:
        self._total = total
        self._reserve = reserve
        self._claims: dict[str, int] = {}
        self._growths = 0
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Slots that Spark has now."""
        return self._total

    @property
    def claimed(self) -> int:
        """Slots in use or promised."""
        with self._lock:
            return sum(self._claims.values())

    def resize(self, total: int) -> None:
        """Executors came or went. Claims stay; `overdrawn` tells whose no longer fit."""
        with self._lock:
            self._growths += total > self._total
            self._total = total

    @property
    def growths(self) -> int:
        """How often executors came: who counts more than when it began may spread over more of them."""
        return self._growths

    def overdrawn(self, name: str) -> bool:
        """Whether the claim of `name` no longer fits, those before it counted first: it may have partitions that nobody serves."""
        with self._lock:
            total = 0
            for holder, held in self._claims.items():
                total += held
                if holder == name:
                    return total > self._total
            return False

    @property
    def free(self) -> int:
        """Slots that a job may claim."""
        return max(0, self._total - self.claimed)

    def claim(self, name: str, slots: int, *, job: bool = False) -> None:
        """Take `slots` for `name`, in place of what it had. Raises `InsufficientSlots` and changes nothing when they are not there."""
        with self._lock:
            others = sum(held for holder, held in self._claims.items() if holder != name)
            free = self._total - others - (0 if job else self._reserve)
            if slots > free:
                raise InsufficientSlots(
                    f"needs {slots} slots and {max(0, free)} of {self._total} are free",
                    subject=name,
                    hint="Give --master more slots (local[N]) or the cluster more executors: one slot per partition of every topic",
                    after=5.0,
                )
            self._claims[name] = slots

    def release(self, name: str) -> None:
        """Give back what `name` has; nothing to do when it has none."""
        with self._lock:
            self._claims.pop(name, None)
