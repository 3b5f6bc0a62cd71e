"""A big segment in parts, dumped side by side by processes of their own and printed in order.

A batch needs nothing of those before it but the offset of the last record, to tell gaps. So the segment is cut where batches begin, and
the parts' outputs and findings are put together again. Only a few parts are under way at once: memory does not grow with the file.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.kafka.log.batch import HEADER, LOG_OVERHEAD
from headrace.kafka.log.findings import FileFindings
from headrace.kafka.log.segment import SegmentFile, length_at, plausible

LEAST = 64 << 20
"""Bytes of a segment that is worth the start of processes."""
PART = 4 << 20
_MOST_PROCESSES = 4
_ATTRIBUTES_AT, _CODEC = 21, 0x07
_AHEAD = 2
"""Parts under way for each process."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a segment from one batch's beginning to another's."""

    path: Path
    begin: int
    end: int


@dataclass(slots=True)
class Place:
    """How far a dump has come: offsets of the first record, and of the last one before what follows; None while unknown."""

    first: int | None = None
    last: int | None = None

    def go_on(self, after: Place, found: FileFindings) -> None:
        """Move on over what was dumped, and note whether it follows what was before."""
        if self.first is None:
            self.first = after.first
        if after.first is not None and self.last is not None and after.first != self.last + 1:
            found.gaps.add(self.last, after.first)
        if after.last is not None:
            self.last = after.last


@dataclass(slots=True)
class Dumped:
    """What became of a part: what was wrong, and its offsets."""

    found: FileFindings
    place: Place


DumpPart = Callable[[Part, Path], Dumped]
"""Dumps one part to a file. It is sent to other processes."""


def processes() -> int:
    """How many may work at once."""
    return min(_MOST_PROCESSES, len(os.sched_getaffinity(0)))


def parts_of(file: SegmentFile) -> Iterator[Part]:
    """Parts of about `PART` bytes, from the segment's start on. They end where the headers stop to make sense, and at a compressed batch:
    how much such a one prints is not known. The rest is left over.
    """
    begin = at = 0
    while True:
        header = file.peek(at, HEADER.size)
        if not plausible(header, 0, file.size - at) or header[_ATTRIBUTES_AT + 1] & _CODEC:
            return
        if at - begin >= PART:
            yield Part(file.path, begin, at)
            begin = at
        at += LOG_OVERHEAD + length_at(header, 0)


def dump_parts(parts: Iterator[Part], dump: DumpPart) -> Iterator[tuple[Part, bytes, Dumped]]:
    """Each part with its output and what became of it, in order.

    The processes are forked: a new interpreter would import for longer than most parts take. They touch nothing but files; their output
    comes by temporary ones, which costs half of what a pipe does.
    """
    count = processes()
    under_way: deque[tuple[Part, Path, Future[Dumped]]] = deque()

    def oldest() -> tuple[Part, bytes, Dumped]:
        part, out, future = under_way.popleft()
        dumped = future.result()
        printed = out.read_bytes()
        out.unlink()
        return part, printed, dumped

    with (
        TemporaryDirectory(prefix="headrace-dump-") as folder,
        ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool,
    ):
        for part in parts:
            out = Path(folder, str(part.begin))
            under_way.append((part, out, pool.submit(dump, part, out)))
            if len(under_way) >= count * _AHEAD:
                yield oldest()
        while under_way:
            yield oldest()
