"""`headrace kafka dump-log` on files made by hand: what it prints, what it finds wrong, how it ends."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from typer import Typer
from typer.testing import CliRunner, Result

from headrace.base.errors import HeadraceError
from headrace.cli.kafka_log import dump_log
from headrace.kafka.log.schema import family
from tests.support.segments import NOW, Record, batch, compress, encode, message

NAME = "00000000000000000000"

app = Typer()
app.command()(dump_log)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def log(folder: Path, *parts: bytes, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.log"
    path.write_bytes(b"".join(parts))
    return path


def json_lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def commit(group: str, topic: str, offset: int) -> Record:
    messages = family("group")
    key = struct.pack(">h", 1) + encode(messages["OffsetCommitKey"], 0, {"group": group, "topic": topic, "partition": 0})
    value = {"offset": offset, "leaderEpoch": 0, "metadata": "", "commitTimestamp": NOW}
    return Record(key, struct.pack(">h", 3) + encode(messages["OffsetCommitValue"], 3, value))


def test_a_record_is_printed_with_its_batch(tmp_path: Path) -> None:
    path = log(tmp_path, batch([Record(b"1", b"hello", [("a", b"x"), ("b", None)])]))
    result = run("--print-data-log", path)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    assert lines[2].startswith(
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
    )
    assert lines[2].endswith("isvalid: true")
    assert lines[3] == (
        f"| offset: 0 CreateTime: {NOW} keySize: 1 valueSize: 5 sequence: -1 headerKeys: [a,b] key: 1 payload: hello"
    )
    assert len(lines) == 4


def test_files_may_be_given_as_a_list_with_commas(tmp_path: Path) -> None:
    one, two = log(tmp_path / "a", batch([Record(b"k", b"v")])), log(tmp_path / "b", batch([Record(b"k", b"v")]))
    result = run("--files", f"{one},{two}")
    assert [line for line in result.stdout.splitlines() if line.startswith("Dumping")] == [f"Dumping {one}", f"Dumping {two}"]


def test_without_deep_iteration_only_batches_are_printed(tmp_path: Path) -> None:
    assert "| offset" not in run(log(tmp_path, batch([Record(b"k", b"v")]))).stdout
    deep = run("--deep-iteration", log(tmp_path, batch([Record(b"k", b"v")]))).stdout
    assert "| offset" in deep
    assert "payload" not in deep


def test_damage_is_told_with_its_position_and_the_rest_is_read(tmp_path: Path) -> None:
    parts = [batch([Record(b"k", b"value")], base_offset=n) for n in range(3)]
    path = log(tmp_path, parts[0], b"junk" * 5, parts[1], parts[2][:30])
    result = run("--print-data-log", path)
    assert result.exit_code == 1
    assert result.stdout.count("| offset:") == 2
    assert f"Found 20 invalid bytes at position {len(parts[0])} of {path.name}" in result.stdout
    assert result.stdout.endswith(f"Found 30 invalid bytes at the end of {path.name}\n")
    assert f"  20 bytes at position {len(parts[0])}: size 1786080875 reaches beyond the end of the file" in result.stderr


def test_a_batch_with_a_wrong_checksum_is_named(tmp_path: Path) -> None:
    part = batch([Record(b"k", b"value")])
    path = log(tmp_path, part[:-3] + b"?" + part[-2:], batch([Record(b"k", b"v")], base_offset=1))
    result = run(path)
    assert result.exit_code == 1
    assert "isvalid: false" in result.stdout
    assert f"Wrong checksums in {path}\n  Batch at position 0, last offset 0" in result.stderr


def test_records_that_make_no_sense_are_told_and_the_next_batch_is_read(tmp_path: Path) -> None:
    path = log(tmp_path, batch([Record(b"k", b"v")], count=2), batch([Record(b"k", b"v")], base_offset=2))
    result = run("--print-data-log", path)
    assert result.exit_code == 1
    assert result.stdout.count("| offset:") == 2
    assert "  Records of the batch at position 0: ends after 1 of 2 records" in result.stderr


def test_gaps_are_told_but_are_no_fault(tmp_path: Path) -> None:
    path = log(tmp_path, batch([Record(b"a", b"v"), Record(b"b", b"v", delta=4)]), batch([Record(b"c", b"v")], base_offset=9))
    result = run("--deep-iteration", path)
    assert result.exit_code == 0
    assert result.stderr == f"Non-consecutive offsets in {path}\n  0 is followed by 4\n  4 is followed by 9\n"


def test_old_message_sets_are_read(tmp_path: Path) -> None:
    inner = message(0, b"a", b"1", time=5) + message(1, None, b"2", time=6)
    wrapper = message(11, None, compress("gzip", inner), attributes=1, time=6)
    path = log(tmp_path, message(9, b"k", b"old", magic=0), wrapper, batch([Record(b"k", b"new")], base_offset=12))
    result = run("--print-data-log", path)
    lines = result.stdout.splitlines()
    assert lines[2].startswith("offset: 9 position: 0 NoTimestampType: -1 size: ")
    assert "| offset: 9 NoTimestampType: -1 keySize: 1 valueSize: 3 isValid: true crc: " in lines[3]
    assert lines[5].startswith("| offset: 10 CreateTime: 5 keySize: 1 valueSize: 1 isValid: true")
    assert lines[6].startswith("| offset: 11 CreateTime: 6 keySize: -1 valueSize: 1 isValid: true")
    assert lines[6].endswith("payload: 2")
    assert lines[7].startswith("baseOffset: 12")


def test_one_group_can_be_followed(tmp_path: Path) -> None:
    records = [commit("mine", "t", 1), commit("other", "t", 2), commit("mine", "u", 3)]
    path = log(tmp_path, batch(records), batch([commit("other", "t", 4)], base_offset=3))
    lines = run("--group", "mine", path).stdout.splitlines()
    assert [line for line in lines if "| offset" in line] == [line for line in lines if '"group":"mine"' in line]
    assert sum("| offset" in line for line in lines) == 2
    assert sum("baseOffset" in line for line in lines) == 1, "batches without that group"


def test_json_is_one_object_a_line(tmp_path: Path) -> None:
    path = log(tmp_path, batch([Record(b"k", b"\xff\xfe", [("h", b"x")]), Record(None, None)], producer=(7, 1, 3)))
    file, heading, head, first, second = json_lines(run("--print-data-log", "-o", "json", path))
    assert (file["kind"], file["path"], heading["text"]) == ("file", str(path), "Log starting offset: 0")
    assert (head["kind"], head["baseOffset"], head["lastSequence"], head["isValid"]) == ("batch", 0, 4, True)
    assert first == {
        "kind": "record",
        "offset": 0,
        "timestampType": "CreateTime",
        "timestamp": NOW,
        "keySize": 1,
        "valueSize": 2,
        "sequence": 3,
        "headers": [["h", "x"]],
        "key": "k",
        "payload": {"base64": "//4="},
    }
    assert (second["key"], second["payload"], second["keySize"]) == (None, None, -1)


def test_json_of_a_decoder_is_data(tmp_path: Path) -> None:
    record = json_lines(run("--offsets-decoder", "-o", "json", log(tmp_path, batch([commit("g", "t", 5)]))))[-1]
    assert record["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    assert record["payload"]["data"]["offset"] == 5


def test_control_records_say_what_they_end(tmp_path: Path) -> None:
    marker = Record(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 6))
    path = log(tmp_path, batch([marker], attributes=0x30, producer=(4, 0, -1)))
    assert run("--print-data-log", path).stdout.endswith(" headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 6\n")
    assert json_lines(run("--print-data-log", "-o", "json", path))[-1]["control"] == "COMMIT"


def test_cloudevents_are_printed_an_attribute_a_line(tmp_path: Path) -> None:
    headers = [
        (f"ce_{name}", value) for name, value in [("specversion", b"1.0"), ("id", b"1"), ("source", b"/s"), ("type", b"t")]
    ]
    event = Record(b"k", b'{"a":1}', [*headers, ("ce_zone", b"x"), ("content-type", b"application/json")])
    path = log(tmp_path, batch([event, Record(b"k", b"plain")]))
    text = run("--cloudevents", path).stdout
    assert "key: k payload: \n    specversion: 1.0\n    id: 1\n    source: /s\n    type: t\n" in text
    assert '    zone: x\n    data:\n      {\n        "a": 1\n      }\n' in text
    assert "(no CloudEvent: " in text
    assert json_lines(run("--cloudevents", "-o", "json", path))[3]["payload"]["data"] == {"a": 1}


def indexed(folder: Path) -> Path:
    """A partition's folder with two batches and indexes that fit them; zeros follow the entries."""
    parts = [batch([Record(b"k", b"v", time=n)], base_offset=n) for n in (0, 1)]
    path = log(folder, *parts)
    path.with_suffix(".index").write_bytes(struct.pack(">ii", 1, len(parts[0])) + bytes(80))
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", NOW + 1, 1) + bytes(120))
    return path


def test_indexes_that_fit_are_printed_without_complaint(tmp_path: Path) -> None:
    path = indexed(tmp_path)
    size = path.stat().st_size // 2
    result = run(path.with_suffix(".index"), path.with_suffix(".timeindex"))
    assert result.exit_code == 0
    assert f"offset: 1 position: {size}\n" in result.stdout
    assert f"timestamp: {NOW + 1} offset: 1\n" in result.stdout
    assert result.stderr == ""


def test_a_partition_stands_for_its_files_and_its_indexes_are_summed_up(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "topic-0"
    path = indexed(folder)
    for given in (folder, tmp_path / "logs"):
        result = run(given)
        assert result.exit_code == 0
        assert result.stdout.count("baseOffset") == 2
        assert f"{path.with_suffix('.index')}: 1 entries, all right.\n" in result.stdout
        assert f"{path.with_suffix('.timeindex')}: 1 entries, all right.\n" in result.stdout


def test_the_zeros_of_indexes_in_use_are_no_entries(tmp_path: Path) -> None:
    path = indexed(tmp_path)
    path.with_suffix(".index").write_bytes(bytes(80))
    path.with_suffix(".timeindex").write_bytes(bytes(120))
    result = run(tmp_path)
    assert result.exit_code == 0
    assert result.stdout.count(": 0 entries, all right.") == 2


@pytest.mark.parametrize(
    ("suffix", "content", "said"),
    [
        (".index", struct.pack(">ii", 1, 3), "  Index offset: 1, log offset: -1"),
        (".index", struct.pack(">ii", 7, 0), "  Index offset: 7, log offset: 0"),
        (".timeindex", struct.pack(">qi", NOW + 7, 1), f"  Index timestamp: {NOW + 7}, log timestamp: {NOW + 1}"),
        (".timeindex", struct.pack(">qi", NOW + 7, 5), "Indexed offset: 5, found log offset: -1"),
        (
            ".timeindex",
            struct.pack(">qiqi", NOW + 1, 1, NOW + 1, 1),
            f"  Index timestamp: {NOW + 1}, Previously indexed timestamp: {NOW + 1}",
        ),
    ],
)
def test_an_index_that_does_not_fit_is_a_fault(tmp_path: Path, suffix: str, content: bytes, said: str) -> None:
    path = indexed(tmp_path)
    path.with_suffix(suffix).write_bytes(content)
    result = run("--verify-index-only", path.with_suffix(suffix))
    assert result.exit_code == 1
    assert said in result.stderr.splitlines()
    assert "position:" not in result.stdout


def test_the_sanity_check_is_that_of_a_starting_broker(tmp_path: Path) -> None:
    index = indexed(tmp_path).with_suffix(".index")
    assert run("--index-sanity-check", index).stdout.endswith("passed sanity check.\n")
    index.write_bytes(index.read_bytes() + b"x")
    result = run("--index-sanity-check", index)
    assert result.exit_code == 1
    assert "failed the sanity check: its size 89 is not a multiple of 8" in result.stderr


def test_aborted_transactions_and_producers_are_printed(tmp_path: Path) -> None:
    aborted = tmp_path / f"{NAME}.txnindex"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 7, 10, 20, 21))
    assert run(aborted).stdout.endswith("version: 0 producerId: 7 firstOffset: 10 lastOffset: 20 lastStableOffset: 21\n")
    entries = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 1, 9, 20, 4, NOW, 3, -1)
    snapshot = tmp_path / f"{NAME}.snapshot"
    snapshot.write_bytes(struct.pack(">hI", 1, google_crc32c.value(entries)) + entries)
    assert run(snapshot).stdout.endswith(
        f"producerId: 7 producerEpoch: 1 coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: {NOW} "
        f"firstSequence: 5 lastSequence: 9 lastOffset: 20 offsetDelta: 4 timestamp: {NOW}\n"
    )
    snapshot.write_bytes(struct.pack(">hI", 1, 1) + entries)
    result = run(snapshot)
    assert result.exit_code == 1
    assert "producer snapshot with a wrong checksum" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to dump"),
        (["nowhere.log"], "nowhere.log: no such file or folder"),
        (["--offsets-decoder", "--cluster-metadata-decoder", "x"], "records can't be offsets and cluster-metadata at once"),
        (["--group", "g", "--cloudevents", "x"], "only offsets have groups"),
        (["-o", "yaml", "x"], "a dump is a stream of records"),
    ],
)
def test_what_can_not_be_done_is_said(arguments: list[str], said: str) -> None:
    with pytest.raises(HeadraceError, match=said):
        run(*arguments)


def test_a_folder_without_segments_is_said(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="no segment files in this folder"):
        run(tmp_path)
