"""A big segment dumped in parts, by several processes, prints and finds what one that reads it from its start does."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from headrace.kafka.log import parts
from headrace.kafka.log.dump import Dump, Options
from headrace.kafka.log.findings import KEPT, Bounded, FileFindings
from headrace.kafka.log.printers import JsonPrinter, TextPrinter
from headrace.kafka.log.segment import SegmentFile
from tests.support.segments import Record, batch, message

SIZE = 2_000
NAME = f"{0:020d}.log"


def good(number: int, count: int | None = None) -> bytes:
    """Ten records, from offset 10 * `number` on."""
    return batch([Record(b"%d" % at, b"v" * 50, [("h", b"x")]) for at in range(10)], base_offset=10 * number, count=count)


def goods(begin: int, end: int) -> bytes:
    return b"".join(map(good, range(begin, end)))


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


SEGMENTS = {
    "whole": goods(0, 40),
    "gaps": goods(0, 7)
    + goods(8, 20)
    + batch([Record(b"a", b""), Record(b"b", b"", delta=4)], base_offset=200)
    + goods(21, 40),
    "a gap at each batch": b"".join(good(number) for number in range(1, 80, 2)),
    "a wrong checksum": goods(0, 20) + flipped(good(20)) + goods(21, 40),
    "every checksum wrong": b"".join(flipped(good(number)) for number in range(40)),
    "junk between": goods(0, 12) + b"junk" * 9 + goods(12, 40),
    "cut short": goods(0, 30) + good(30)[:40],
    "zeros at the end": goods(0, 30) + bytes(5_000),
    "records that make no sense": goods(0, 12) + good(12, count=11) + goods(13, 25) + good(25, count=9) + goods(26, 40),
    "compressed from some batch on": goods(0, 15)
    + b"".join(batch([Record(b"k", b"v" * 900)], base_offset=number, codec="gzip") for number in range(150, 170)),
    "old messages": goods(0, 15) + message(150, b"k", b"v") + goods(16, 40),
    "one huge batch": goods(0, 5) + batch([Record(b"k", b"v" * 9_000)], base_offset=50) + goods(6, 20),
}


def dumped(path: Path, kind: type[TextPrinter | JsonPrinter], options: Options) -> tuple[bytes, list[str]]:
    out = io.BytesIO()
    [found] = Dump(options, kind(out, contents=options.deep, metadata=True)).run([path])
    return out.getvalue(), list(found.lines())


@pytest.mark.parametrize("kind", [TextPrinter, JsonPrinter])
@pytest.mark.parametrize("options", [Options(), Options(deep=True), Options(deep=True, max_bytes=7_777)], ids=repr)
@pytest.mark.parametrize("segment", SEGMENTS.values(), ids=SEGMENTS.keys())
def test_parts_and_whole_are_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    segment: bytes,
    options: Options,
    kind: type[TextPrinter | JsonPrinter],
) -> None:
    path = tmp_path / NAME
    path.write_bytes(segment)
    whole = dumped(path, kind, options)
    monkeypatch.setattr(parts, "LEAST", 0)
    monkeypatch.setattr(parts, "PART", SIZE)
    monkeypatch.setattr(parts, "processes", lambda: 2)
    assert dumped(path, kind, options) == whole


def found_parts(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    monkeypatch.setattr(parts, "PART", SIZE)
    with SegmentFile(path) as file:
        return [(part.begin, part.end) for part in parts.parts_of(file)]


def test_parts_begin_where_batches_do_and_leave_out_what_is_not_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / NAME
    each = len(good(10))
    some = SIZE // each + 1
    path.write_bytes(b"".join(good(10 + number) for number in range(2 * some + 1)) + b"junk" * 50)
    assert found_parts(path, monkeypatch) == [(0, some * each), (some * each, 2 * some * each)]
    path.write_bytes(SEGMENTS["old messages"][-5:] + SEGMENTS["whole"])
    assert found_parts(path, monkeypatch) == []


def test_what_was_found_in_parts_is_bounded_like_what_is_found_at_once() -> None:
    first, second = FileFindings("a"), FileFindings("a")
    for number in range(KEPT - 1):
        first.gaps.add(number, number)
    for number in (7, 8, 9):
        second.gaps.add(number, number)
    first.extend(second)
    assert first.gaps == Bounded(first.gaps.pairs, KEPT + 2)
    assert first.gaps.pairs[-2:] == [(KEPT - 2, KEPT - 2), (7, 7)]
    assert len(first.gaps.pairs) == KEPT


def test_a_place_tells_a_part_that_does_not_follow() -> None:
    found, place = FileFindings("a"), parts.Place(last=-1)
    place.go_on(parts.Place(), found)
    place.go_on(parts.Place(0, 9), found)
    place.go_on(parts.Place(10, None), found)
    place.go_on(parts.Place(12, 19), found)
    assert (found.gaps.pairs, place.last) == ([(9, 12)], 19)
