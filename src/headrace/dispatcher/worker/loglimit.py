"""Keeps a line that may be true of every event from filling the log."""

from __future__ import annotations

from headrace.base.clock import Clock

_PER_SECOND = 10


class LogLimit:
    """At most ten lines a second; the next one says how many were left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def allow(self) -> dict[str, int] | None:
        """None: not now. Else the fields to add to the line."""
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > _PER_SECOND:
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        return {"left_out_before": left_out} if left_out else {}
