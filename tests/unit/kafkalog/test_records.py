"""Numbers, records and batches survive being written and read; what is malformed is told apart from what is not."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kafka.log.batch import LOG_OVERHEAD, Batch, parse_batch
from headrace.kafka.log.damage import CorruptRecords
from headrace.kafka.log.records import RawRecord, raw_records
from headrace.kafka.log.varint import read_signed, read_unsigned, write_signed, write_unsigned
from tests.support.segments import NOW, Record, batch, compress

INT32 = st.integers(0, 2**31 - 1)
BLOBS = st.none() | st.binary(max_size=300)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
RECORDS = st.builds(
    Record, BLOBS, BLOBS, st.lists(st.tuples(NAMES, BLOBS), max_size=3), st.none(), st.integers(-(2**40), 2**40)
)
CODECS = st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])


def read(data: bytes) -> Batch:
    return parse_batch(data, 0, len(data), 0)


@given(st.integers(0, 2**64 - 1))
def test_an_unsigned_number_is_read_as_it_was_written(value: int) -> None:
    data = write_unsigned(value)
    assert read_unsigned(b"x" + data + b"y", 1) == (value, len(data) + 1)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_is_read_as_it_was_written(value: int) -> None:
    data = write_signed(value)
    assert read_signed(data, 0) == (value, len(data))


@pytest.mark.parametrize(("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001")])
def test_small_numbers_have_the_bytes_of_the_specification(value: int, encoded: str) -> None:
    assert write_signed(value).hex() == encoded


def test_a_number_of_more_than_ten_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="10 bytes"):
        read_unsigned(b"\xff" * 11, 0)


@settings(max_examples=200)
@given(st.lists(RECORDS, min_size=1, max_size=8), CODECS, st.integers(0, 2**40))
def test_records_are_read_as_they_were_written(records: list[Record], codec: str, base: int) -> None:
    data = batch(records, base_offset=base, codec=codec)
    read_back = read(data)
    assert read_back.valid
    assert (read_back.base_offset, read_back.last_offset, read_back.count) == (base, base + len(records) - 1, len(records))
    got = [record for part in raw_records(read_back) for record in part]
    assert got == [(n, r.time, r.key, r.value, list(r.headers)) for n, r in enumerate(records)]


@settings(max_examples=200)
@given(st.lists(INT32, min_size=1, max_size=20, unique=True).map(sorted), st.integers(-(2**31), 2**31 - 1))
def test_wide_offsets_and_times_are_exact(deltas: list[int], time: int) -> None:
    data = batch([Record(b"k", b"v", (), delta, time) for delta in deltas])
    assert [(record[0], record[1]) for part in raw_records(read(data)) for record in part] == [(d, time) for d in deltas]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_across_pieces_of_the_decompressed_data_are_whole(codec: str) -> None:
    records = [Record(b"%d" % n, bytes([n % 256]) * 50_000) for n in range(100)]
    parts = list(raw_records(read(batch(records, codec=codec))))
    assert len(parts) > 3, "nothing was read in pieces"
    assert [record[3] for part in parts for record in part] == [record.value for record in records]


def test_snappy_of_librdkafka_has_no_frame() -> None:
    raw = compress("snappy", b"some data" * 1000, framed=False)
    framed = batch([Record(None, b"x" * 1000)], codec="snappy")
    body = compress("snappy", batch([Record(None, b"x" * 1000)])[61:], framed=False)
    data = framed[:8] + (len(body) + 61 - LOG_OVERHEAD).to_bytes(4, "big") + framed[12:61] + body
    assert not raw.startswith(b"\x82SNAPPY")
    assert [record[3] for part in raw_records(read(data)) for record in part] == [b"x" * 1000]


@given(st.lists(RECORDS, min_size=1, max_size=3), CODECS, st.data())
def test_bytes_that_changed_make_the_checksum_wrong(records: list[Record], codec: str, data: st.DataObject) -> None:
    good = batch(records, codec=codec)
    at = data.draw(st.integers(21, len(good) - 1))
    bad = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    assert not read(bad).valid


@settings(max_examples=300)
@given(st.lists(RECORDS, min_size=1, max_size=3), CODECS, st.data())
def test_damaged_records_are_a_told_error_and_never_another(records: list[Record], codec: str, data: st.DataObject) -> None:
    good = batch(records, codec=codec)
    at = data.draw(st.integers(61, len(good) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=20))
    bad = read(good[:at] + junk + good[at + len(junk) :])
    with suppress(CorruptRecords):
        assert sum(len(part) for part in raw_records(bad)) == bad.count


def test_fewer_records_than_the_header_claims_are_told_after_those_that_are_there() -> None:
    data = batch([Record(b"a", b"1"), Record(b"b", b"2")], count=3)
    got: list[RawRecord] = []
    with pytest.raises(CorruptRecords, match="ends after 2 of 3 records"):
        got.extend(record for part in raw_records(read(data)) for record in part)
    assert [record[2] for record in got] == [b"a", b"b"]


def test_more_records_than_the_header_claims_are_told() -> None:
    with pytest.raises(CorruptRecords, match="bytes after the last of 1 records"):
        list(raw_records(read(batch([Record(b"a", b"1"), Record(b"b", b"2")], count=1))))


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_compressed_data_cut_short_is_told(codec: str) -> None:
    good = batch([Record(b"a", bytes(range(256)) * 100)], codec=codec)
    with pytest.raises(CorruptRecords):
        list(raw_records(read(good[:-20])))


def test_attributes_say_what_they_say() -> None:
    plain = read(batch([Record(b"k", b"v", time=7)]))
    assert (plain.timestamp_type, plain.is_transactional, plain.is_control, plain.delete_horizon_ms) == (
        "CreateTime",
        False,
        False,
        None,
    )
    assert plain.timestamp(7) == NOW + 7
    full = read(batch([Record(b"k", b"v", time=9)], attributes=0x78, producer=(5, 2, 2**31 - 1)))
    assert (full.timestamp_type, full.is_transactional, full.is_control, full.delete_horizon_ms) == (
        "LogAppendTime",
        True,
        True,
        NOW,
    )
    assert full.timestamp(3) == NOW + 9
    assert [full.sequence(0), full.sequence(1), full.sequence(5)] == [2**31 - 1, 0, 4]
    assert plain.sequence(3) == -1
