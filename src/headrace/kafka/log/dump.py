"""Dumping files: which ones, in what order, batch by batch, with what is wrong collected on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from headrace.base.errors import Terminal
from headrace.kafka.log import parts
from headrace.kafka.log.damage import CorruptRecords, Damage
from headrace.kafka.log.decoders import Decoded, Decoder
from headrace.kafka.log.findings import FileFindings
from headrace.kafka.log.indexes import OffsetIndex, TimeIndex, aborted_transactions, base_offset, producer_snapshot
from headrace.kafka.log.legacy import Message, messages_of
from headrace.kafka.log.parts import Place
from headrace.kafka.log.printers import Aside, Printer, PrinterKind
from headrace.kafka.log.records import RawRecord, raw_records
from headrace.kafka.log.segment import Entry, SegmentFile, read_segment
from headrace.kafka.log.verify import verify_offsets, verify_times

Progress = Callable[[Path, int, int], None]
"""File, position, size of the file."""

LOG, INDEX, TIME_INDEX, ABORTED, PRODUCERS, CHECKPOINT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"
SUFFIXES = (LOG, INDEX, TIME_INDEX, ABORTED, PRODUCERS, CHECKPOINT)
_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_BOOTSTRAP = "bootstrap.checkpoint"


class IndexMode(StrEnum):
    """What to do with indexes: print their entries and check them, only check them, or only do what a starting broker does."""

    PRINT = "print"
    VERIFY = "verify"
    SANITY = "sanity"


@dataclass(frozen=True)
class Options:
    """How to dump.

    `deep`: records too, not only batches. `decoder`: what keys and values mean. `select`: only records for which it says yes, and the
    batches that have such. `max_bytes`: how much of each segment to read.
    """

    deep: bool = False
    decoder: Decoder | None = None
    select: Callable[[Decoded], bool] | None = None
    max_bytes: int | None = None
    indexes: IndexMode = IndexMode.PRINT


def expand(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """The files that `paths` stand for, and whether each was named itself: a folder of a partition stands for its files, a log
    folder for those of its partitions. Raises `Terminal` for a folder without any, or a path that does not exist.
    """
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise Terminal("no such file or folder", subject=str(path))
            yield path, True
            continue
        inside = sorted(path.iterdir())
        found = _segment_files(inside) or [
            file for sub in inside if sub.is_dir() for file in _segment_files(sorted(sub.iterdir()))
        ]
        if not found:
            raise Terminal(
                "no segment files in this folder", subject=str(path), hint="Give a segment, a partition's or a log folder"
            )
        yield from ((file, False) for file in found)


def _segment_files(files: Sequence[Path]) -> list[Path]:
    known = [file for file in files if file.suffix in SUFFIXES and file.is_file()]
    return sorted(known, key=lambda file: (file.name.split(".")[0], SUFFIXES.index(file.suffix)))


class Dump:
    """Dumps files through `printer`, and remembers what was wrong with each."""

    def __init__(self, options: Options, printer: Printer, progress: Progress | None = None) -> None:
        self._options = options
        self._printer = printer
        self._progress = progress
        self.findings: list[FileFindings] = []

    def run(self, paths: Sequence[Path]) -> list[FileFindings]:
        """Dump them all; a file that can't be read is a finding, not the end."""
        for path, named in expand(paths):
            found = FileFindings(str(path.absolute()))
            self.findings.append(found)
            self._printer.file(path)
            try:
                self._file(path, named, found)
            except Terminal as error:
                found.problem = error.message
        return self.findings

    def _file(self, path: Path, named: bool, found: FileFindings) -> None:
        mode = self._options.indexes if named or self._options.indexes is IndexMode.SANITY else IndexMode.VERIFY
        match path.suffix:
            case ".log" | ".checkpoint":
                self._log(path, found)
            case ".index":
                self._index(path, mode, named, found)
            case ".timeindex":
                self._time_index(path, mode, named, found)
            case ".txnindex":
                self._asides(aborted_transactions(path))
            case ".snapshot":
                self._asides(iter(producer_snapshot(path)))
            case _:
                self._printer.note(f"Ignoring unknown file {path}")

    def _asides(self, entries: Iterator[Aside], show: bool = True) -> int:
        number = 0
        for entry in entries:
            number += 1
            if show:
                self._printer.aside(entry)
        return number

    def _index(self, path: Path, mode: IndexMode, named: bool, found: FileFindings) -> None:
        index = OffsetIndex(path)
        with SegmentFile(path.with_suffix(LOG)) as log:
            # The preallocated index of a segment without records is all zeros.
            if not index.entries or not log.size:
                self._printer.note(f"{path} is empty.")
            elif mode is IndexMode.SANITY:
                self._sanity(path, index.insane())
            else:
                entries = verify_offsets(index if named else index.used(), log, found)
                self._verified(path, self._asides(entries, mode is IndexMode.PRINT), named, found)

    def _time_index(self, path: Path, mode: IndexMode, named: bool, found: FileFindings) -> None:
        times = TimeIndex(path)
        with SegmentFile(path.with_suffix(LOG)) as log:
            if not log.size:
                self._printer.note(f"{path} is empty.")
            elif mode is IndexMode.SANITY:
                self._sanity(path, times.insane())
            else:
                index = OffsetIndex(path.with_suffix(INDEX))
                entries = verify_times(times if named else times.used(), index, log, found)
                self._verified(path, self._asides(entries, mode is IndexMode.PRINT), named, found)

    def _sanity(self, path: Path, problem: str) -> None:
        if problem:
            raise Terminal(f"failed the sanity check: {problem}", subject=str(path))
        self._printer.note(f"{path} passed sanity check.")

    def _verified(self, path: Path, number: int, named: bool, found: FileFindings) -> None:
        if not named:
            self._printer.note(f"{path}: {number} entries, {'not all right' if found.harmful else 'all right'}.")

    def _log(self, path: Path, found: FileFindings) -> None:
        self._printer.note(_heading(path))
        with SegmentFile(path, self._options.max_bytes) as file:
            tell = self._teller(path, file.size)
            at, place = 0, Place(last=-1)
            if self._options.deep and self._options.decoder is None and file.size >= parts.LEAST and parts.processes() > 1:
                at = self._in_parts(file, place, found, tell)
            self._entries(read_segment(file, at, progress=tell), path, place, found)

    def _in_parts(self, file: SegmentFile, place: Place, found: FileFindings, tell: Callable[[int], None] | None) -> int:
        """Dump what can be dumped in parts; where the rest begins."""
        at = 0
        work = partial(_dump_part, self._options, self._printer.kind, self._printer.contents, self._printer.metadata)
        for part, printed, dumped in parts.dump_parts(parts.parts_of(file), work):
            if tell:
                tell(part.begin)
            self._printer.copy(printed)
            place.go_on(dumped.place, found)
            found.extend(dumped.found)
            at = part.end
        return at

    def _entries(self, entries: Iterator[Entry | Damage], path: Path, place: Place, found: FileFindings) -> None:
        for entry in entries:
            if isinstance(entry, Damage):
                if self._options.max_bytes is None or not entry.at_end:
                    found.damages.append(entry)
                    self._printer.damage(path, entry)
                continue
            if not entry.valid:
                found.bad_checksums.add(entry.position, entry.last_offset)
            if self._options.select is None:
                self._printer.batch(entry)
            if self._options.deep:
                try:
                    self._records(entry, place, found)
                except CorruptRecords as error:
                    found.unreadable.append((entry.position, error.message))

    def _teller(self, path: Path, size: int) -> Callable[[int], None] | None:
        progress = self._progress
        return (lambda position: progress(path, position, size)) if progress else None

    def _records(self, entry: Entry, place: Place, found: FileFindings) -> None:
        """Print the records of `entry`, and move `place` on with them."""
        if isinstance(entry, Message):
            for message in messages_of(entry):
                place.go_on(Place(message.offset, message.offset), found)
                self._printer.message(message, self._decode_message(message))
            return
        shown = self._options.select is None
        for records in raw_records(entry):
            if not records:
                continue
            _find_gaps(entry.base_offset, records, place, found)
            if self._options.decoder is None or entry.is_control:
                if shown:
                    self._printer.records(entry, records)
                continue
            for record in records:
                decoded = self._options.decoder(entry.base_offset + record[0], record[2], record[3], record[4])
                if self._options.select is not None:
                    if not self._options.select(decoded):
                        continue
                    if not shown:
                        self._printer.batch(entry)
                        shown = True
                self._printer.decoded(entry, record, decoded)

    def _decode_message(self, message: Message) -> Decoded | None:
        decoder = self._options.decoder
        return decoder(message.offset, message.key, message.value, []) if decoder else None


def _heading(path: Path) -> str:
    if path.suffix == LOG:
        return f"Log starting offset: {base_offset(path)}"
    if path.name == _BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    match = _SNAPSHOT_NAME.fullmatch(path.name)
    if not match:
        raise Terminal("not named as a snapshot of cluster metadata is", subject=str(path))
    return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}"


def _dump_part(
    options: Options, kind: PrinterKind, contents: bool, metadata: bool, part: parts.Part, out: Path
) -> parts.Dumped:
    """In a process of its own."""
    found, place = FileFindings(str(part.path)), Place()
    with SegmentFile(part.path, part.end) as file, out.open("wb") as stream:
        dump = Dump(options, kind(stream, contents=contents, metadata=metadata))
        dump._entries(read_segment(file, part.begin), part.path, place, found)
    return parts.Dumped(found, place)


def _find_gaps(base: int, records: list[RawRecord], place: Place, found: FileFindings) -> None:
    """Move `place` on over `records`, and note where their offsets do not follow each other, or those before."""
    first, end = base + records[0][0], base + records[-1][0]
    if end - first == len(records) - 1:
        place.go_on(Place(first, end), found)
        return
    for record in records:
        place.go_on(Place(base + record[0], base + record[0]), found)
