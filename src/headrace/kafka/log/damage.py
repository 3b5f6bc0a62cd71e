"""What is wrong with a file, and where."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.base.errors import Terminal


@dataclass(frozen=True, slots=True)
class Damage:
    """`size` bytes at `position` of a segment that are no batch; `at_end`: nothing readable follows."""

    position: int
    size: int
    reason: str
    at_end: bool = False


class CorruptRecords(Terminal):
    """The content of one batch can't be read; the next batch may."""
