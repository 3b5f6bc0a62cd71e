"""A segment is read to its end whatever lies in between, in memory that does not depend on its size."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.base.errors import Terminal
from headrace.kafka.log import segment as segment_module
from headrace.kafka.log.batch import Batch
from headrace.kafka.log.damage import Damage
from headrace.kafka.log.segment import Entry, SegmentFile, read_segment
from tests.support.segments import Record, batch


def batches(number: int, size: int = 100) -> list[bytes]:
    return [batch([Record(b"key", bytes([n % 251]) * size)], base_offset=n) for n in range(number)]


def read(path: Path, content: bytes, limit: int | None = None) -> list[Entry | Damage]:
    path.write_bytes(content)
    with SegmentFile(path, limit) as file:
        return list(read_segment(file))


def offsets(entries: list[Entry | Damage]) -> list[int]:
    return [entry.base_offset for entry in entries if isinstance(entry, Batch)]


def damages(entries: list[Entry | Damage]) -> list[tuple[int, int, bool]]:
    return [(entry.position, entry.size, entry.at_end) for entry in entries if isinstance(entry, Damage)]


def test_every_batch_of_a_segment_is_read_at_its_position(tmp_path: Path) -> None:
    content = batches(50, 60_000)
    entries = read(tmp_path / "x.log", b"".join(content))
    assert offsets(entries) == list(range(50))
    assert [entry.position for entry in entries] == [n * len(content[0]) for n in range(50)]


def test_an_empty_file_has_no_entries(tmp_path: Path) -> None:
    assert read(tmp_path / "x.log", b"") == []


@pytest.mark.parametrize("left", [1, 11, 12, 16, 17, 40, 61, 100])
def test_a_batch_cut_short_at_the_end_is_damage_there(tmp_path: Path, left: int) -> None:
    whole = batches(3)
    entries = read(tmp_path / "x.log", whole[0] + whole[1] + whole[2][:left])
    assert offsets(entries) == [0, 1]
    assert damages(entries) == [(len(whole[0]) * 2, left, True)]


def test_zeros_of_a_preallocated_file_are_damage_at_the_end(tmp_path: Path) -> None:
    whole = b"".join(batches(2))
    entries = read(tmp_path / "x.log", whole + bytes(3_000_000))
    assert damages(entries) == [(len(whole), 3_000_000, True)]
    assert isinstance(entries[-1], Damage)
    assert entries[-1].reason == "zeros"


def test_a_batch_whose_content_changed_is_an_entry_that_is_not_valid(tmp_path: Path) -> None:
    parts = batches(3)
    parts[1] = parts[1][:-5] + b"?" + parts[1][-4:]
    entries = read(tmp_path / "x.log", b"".join(parts))
    assert [entry.valid for entry in entries if isinstance(entry, Batch)] == [True, False, True]
    assert damages(entries) == []


def test_a_destroyed_header_costs_one_batch(tmp_path: Path) -> None:
    parts = batches(4)
    parts[1] = b"\xff" * 61 + parts[1][61:]
    entries = read(tmp_path / "x.log", b"".join(parts))
    assert offsets(entries) == [0, 2, 3]
    assert damages(entries) == [(len(parts[0]), len(parts[1]), False)]


@pytest.mark.parametrize("claimed", [5, 49, 200, 700, 100_000])
def test_a_wrong_size_costs_one_batch(tmp_path: Path, claimed: int) -> None:
    parts = batches(8)
    parts[1] = parts[1][:8] + struct.pack(">i", claimed) + parts[1][12:]
    entries = read(tmp_path / "x.log", b"".join(parts))
    good = [entry.base_offset for entry in entries if isinstance(entry, Batch) and entry.valid]
    assert good == [0, 2, 3, 4, 5, 6, 7]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_batches_before_and_after_junk_are_all_found(tmp_path: Path, data: st.DataObject) -> None:
    parts = batches(6)
    at = data.draw(st.integers(0, 5))
    junk = data.draw(st.binary(min_size=1, max_size=400))
    entries = read(tmp_path / "x.log", b"".join(parts[:at]) + junk + b"".join(parts[at:]))
    assert [entry.base_offset for entry in entries if isinstance(entry, Batch) and entry.valid] == list(range(6))
    covered = sum(entry.size for entry in entries)
    assert covered == sum(map(len, parts)) + len(junk), "bytes told twice or never"


def test_a_batch_after_megabytes_of_junk_is_found(tmp_path: Path) -> None:
    parts = batches(2)
    junk = b"\x02\x00\x01" * 1_000_000
    entries = read(tmp_path / "x.log", parts[0] + junk + parts[1])
    assert offsets(entries) == [0, 1]
    assert damages(entries) == [(len(parts[0]), len(junk), False)]


def test_a_limit_hides_what_lies_behind_it(tmp_path: Path) -> None:
    parts = batches(3)
    entries = read(tmp_path / "x.log", b"".join(parts), limit=len(parts[0]) * 2)
    assert offsets(entries) == [0, 1]


def test_a_huge_claim_is_not_loaded_unless_its_checksum_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "HUGE", 10_000)
    big = batch([Record(None, bytes(50_000))])
    broken = big[:-1] + b"\x01"
    follow = batch([Record(None, b"v")], base_offset=1)
    assert offsets(read(tmp_path / "x.log", big + follow)) == [0, 1]
    entries = read(tmp_path / "x.log", broken + follow)
    assert offsets(entries) == [1]
    assert damages(entries) == [(0, len(broken), False)]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match=r"nowhere.log: can't be read: No such file"):
        SegmentFile(tmp_path / "nowhere.log")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    one = batch([Record(b"key", bytes(1000))] * 16)
    with path.open("wb") as out:
        for _ in range(6000):
            out.write(one)
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from headrace.kafka.log.records import raw_records\n"
        "from headrace.kafka.log.segment import SegmentFile, read_segment\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with SegmentFile(Path(sys.argv[1])) as file:\n"
        "    records = sum(len(part) for entry in read_segment(file) for part in raw_records(entry))\n"
        "print(records, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    records, grown = map(int, done.stdout.split())
    assert records == 96_000
    assert grown < 10_000, f"{grown} KiB for a file of {path.stat().st_size >> 20} MiB"
