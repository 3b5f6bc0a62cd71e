"""The data folder: one user at a time, `run.json` whole or not at all, errors that say what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.base.errors import HeadraceError, Terminal
from headrace.standalone.datadir import DataDir, PartState, RunState, disk_error

RUN = RunState("RUNNING", 1, "headrace", "0.1.0", {"kafka": PartState("kafka", "READY", address="127.0.0.1:9092", pid=2)})


def test_a_second_user_of_a_folder_is_refused_by_the_first_ones_pid(tmp_path: Path) -> None:
    first, second = DataDir(tmp_path / "d"), DataDir(tmp_path / "d")
    first.prepare()
    assert second.in_use()
    with pytest.raises(Terminal, match=rf"another `headrace up` \(pid {os.getpid()}\).*--data-dir"):
        second.prepare()
    first.release()
    assert not second.in_use()
    second.prepare()
    second.release()


def test_run_json_reads_back_as_it_was_written(tmp_path: Path) -> None:
    folder = DataDir(tmp_path)
    assert folder.read_run() is None
    folder.write_run(RUN)
    assert folder.read_run() == RUN
    assert RUN.address("kafka") == "127.0.0.1:9092"
    assert RUN.address("receiver") == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"parts": {"kafka": 1}}', '{"parts": {}, "nonsense": 1}'])
def test_a_run_json_that_is_none_is_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(Terminal, match=r"run\.json.*--server"):
        DataDir(tmp_path).read_run()


def test_too_little_space_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match=r"MiB left, at least .* MiB are needed.*--data-dir"):
        DataDir(tmp_path).prepare(min_free=1 << 60)


def test_a_path_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadraceError, match="--data-dir"):
        DataDir(tmp_path / "file").prepare()


def test_a_full_disk_is_called_by_its_name(tmp_path: Path) -> None:
    text = str(disk_error(OSError(28, "No space left on device"), tmp_path))
    assert "No space left on device" in text
    assert "The disk is full" in text
