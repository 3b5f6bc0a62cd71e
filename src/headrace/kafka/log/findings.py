"""What a dump found to be wrong, told at its end in the words of Kafka's `DumpLogSegments`, and what that tool would stop at.

The lists are bounded: beyond `KEPT` entries a file's problems of one kind are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.kafka.log.damage import Damage

KEPT = 10_000


@dataclass(slots=True)
class Bounded:
    """Pairs in the order found, the first `KEPT` of them, and the number of all."""

    pairs: list[tuple[int, int]] = field(default_factory=list)
    total: int = 0

    def add(self, first: int, second: int) -> None:
        self.total += 1
        if len(self.pairs) < KEPT:
            self.pairs.append((first, second))

    def extend(self, more: Bounded) -> None:
        """Add what was found further on."""
        self.pairs += more.pairs[: KEPT - len(self.pairs)]
        self.total += more.total

    def lines(self, form: str) -> Iterator[str]:
        """`form` filled in for each pair, then how many there are besides."""
        for pair in self.pairs:
            yield form.format(*pair)
        if self.total > len(self.pairs):
            yield f"  ... and {self.total - len(self.pairs)} more"


@dataclass(slots=True)
class FileFindings:
    """The problems of one file."""

    path: str
    index_mismatches: Bounded = field(default_factory=Bounded)
    """Offset in the index, last offset of the batch where it points (-1: there is none)."""
    time_mismatches: Bounded = field(default_factory=Bounded)
    """Timestamp in the time index, largest timestamp of that batch."""
    time_disorder: Bounded = field(default_factory=Bounded)
    """Timestamp in the time index, the larger or equal one before it."""
    time_not_found: Bounded = field(default_factory=Bounded)
    """Offset in the time index, last offset of the batch found instead (-1: none)."""
    gaps: Bounded = field(default_factory=Bounded)
    """Offset of a record, offset of the record after it. Normal where the log was compacted."""
    damages: list[Damage] = field(default_factory=list)
    bad_checksums: Bounded = field(default_factory=Bounded)
    """Position and last offset of a batch with a wrong CRC."""
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    """Position of a batch whose records can't be read, and why."""
    problem: str = ""
    """Why the file could not be dumped, or not to its end."""

    def extend(self, more: FileFindings) -> None:
        """Add what was found in the records of a later part of the same segment."""
        self.gaps.extend(more.gaps)
        self.bad_checksums.extend(more.bad_checksums)
        self.damages += more.damages
        self.unreadable += more.unreadable

    @property
    def harmful(self) -> bool:
        """Whether a broker or a consumer would have trouble with the file."""
        bounded = (self.index_mismatches, self.time_mismatches, self.time_disorder, self.time_not_found, self.bad_checksums)
        return bool(self.problem or self.damages or self.unreadable or any(found.total for found in bounded))

    def lines(self) -> Iterator[str]:
        """The report of this file, empty when all is well."""
        if self.problem:
            yield f"{self.path}: {self.problem}"
        if self.index_mismatches.total:
            yield f"Mismatches in :{self.path}"
            yield from self.index_mismatches.lines("  Index offset: {}, log offset: {}")
        if self.time_mismatches.total:
            yield f"Found timestamp mismatch in :{self.path}"
            yield from self.time_mismatches.lines("  Index timestamp: {}, log timestamp: {}")
        if self.time_disorder.total:
            yield f"Found out of order timestamp in :{self.path}"
            yield from self.time_disorder.lines("  Index timestamp: {}, Previously indexed timestamp: {}")
        if self.time_not_found.total:
            yield f"The following indexed offsets are not found in :{self.path}"
            yield from self.time_not_found.lines("Indexed offset: {}, found log offset: {}")
        if self.gaps.total:
            yield f"Non-consecutive offsets in {self.path}"
            yield from self.gaps.lines("  {} is followed by {}")
        if self.bad_checksums.total:
            yield f"Wrong checksums in {self.path}"
            yield from self.bad_checksums.lines("  Batch at position {}, last offset {}")
        if self.damages or self.unreadable:
            yield f"Damaged bytes in {self.path}"
            for damage in self.damages:
                yield f"  {damage.size} bytes at position {damage.position}: {damage.reason}"
            for position, reason in self.unreadable:
                yield f"  Records of the batch at position {position}: {reason}"
