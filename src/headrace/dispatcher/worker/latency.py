"""How long events took, without keeping each: counts in buckets that grow by a fifth, good for percentiles within 10 %."""

from __future__ import annotations

from bisect import bisect_left

_BOUNDS = tuple(1.2**step for step in range(100))
"""Upper bounds in milliseconds: 1 ms to 19 hours; less than 1 ms counts as up to 1."""


class Latencies:
    """Filled event by event, read and emptied once a second or so."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._total = 0

    def add(self, milliseconds: float) -> None:
        """One event took so long (a negative time, from clocks that differ, counts as 0)."""
        bucket = bisect_left(_BOUNDS, milliseconds)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._total += 1

    def drain(self, *shares: float) -> tuple[float, ...]:
        """The percentiles of what was added since the last call (0.5 for the median); 0 when nothing was."""
        counts, total = self._counts, self._total
        self._counts, self._total = {}, 0
        return tuple(_percentile(counts, total, share) for share in shares)


def _percentile(counts: dict[int, int], total: int, share: float) -> float:
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= share * total:
            return _BOUNDS[min(bucket, len(_BOUNDS) - 1)]
    return 0.0
