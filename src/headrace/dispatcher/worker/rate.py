"""At most so many events per second, evenly: a bucket of tokens."""

from __future__ import annotations


class Rate:
    """`per_second` > 0; bursts of up to a tenth of a second's worth, at least one event. Times are seconds of one monotonic clock."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second / 10)
        self._tokens = self._most
        self._at = 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next event may go; 0: now."""
        self._tokens = min(self._most, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        return 0.0 if self._tokens >= 1.0 - 1e-9 else (1.0 - self._tokens) / self._per_second

    def spend(self) -> None:
        """One event goes."""
        self._tokens -= 1.0
