"""The contract from a file: followed, kept when broken, drained when empty."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError
from headrace.kafka.contracts import FileContract
from tests.support.waiting import eventually


def write(path: Path, generation: int, *uids: str, **more: Any) -> None:
    resources = [{"uid": uid, "topics": ["t"], "bootstrapServers": "k:1", "ingress": {"path": f"/{uid}"}} for uid in uids]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"generation": str(generation), "resources": resources, **more}))
    os.replace(new, path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "contract.json"


@pytest.fixture
def source(path: Path) -> Iterator[FileContract]:
    contract = FileContract(path, lambda: None)
    contract.start()
    yield contract
    contract.close()


def uids(source: FileContract) -> set[str]:
    return set(source.state.resources)


def test_the_file_is_read_and_followed(path: Path, source: FileContract) -> None:
    write(path, 1, "a")
    source.wait_ready(Deadline(10))
    assert uids(source) == {"a"}
    first = source.state.offset
    write(path, 2, "a", "b")
    eventually(lambda: uids(source) == {"a", "b"}, 10)
    assert source.state.offset > first
    assert source.contract.generation == 2


def test_the_offset_is_the_generation(path: Path, source: FileContract) -> None:
    write(path, 41, "a")
    source.wait_ready(Deadline(10))
    assert source.state.offset == source.state.applied["a"] == 41


def test_several_files_are_one_contract_as_old_as_the_oldest(path: Path) -> None:
    other = path.with_name("other.json")
    write(path, 3, "a")
    write(other, 5, "b")
    both = FileContract(f"{path},{other}", lambda: None)
    both.start()
    try:
        both.wait_ready(Deadline(10))
        assert (uids(both), both.state.offset) == ({"a", "b"}, 3)
        write(path, 6)
        eventually(lambda: uids(both) == {"b"}, 10)
        assert both.state.offset == 5
    finally:
        both.close()


def test_a_contract_of_the_same_generation_is_dropped(path: Path, source: FileContract) -> None:
    write(path, 1, "a")
    source.wait_ready(Deadline(10))
    write(path, 1, "b")
    write(path.with_name("other.json"), 1)
    write(path, 2, "c")
    eventually(lambda: "c" in uids(source), 10)
    assert uids(source) == {"c"}


def test_a_broken_or_missing_file_leaves_the_last_contract_in_force(path: Path, source: FileContract) -> None:
    write(path, 1, "a")
    source.wait_ready(Deadline(10))
    path.write_text('{"resources": [')
    eventually(lambda: source._told, 10)
    assert uids(source) == {"a"}
    path.unlink()
    eventually(lambda: "cannot be read" in source._told, 10)
    assert uids(source) == {"a"}
    write(path, 2, "b")
    eventually(lambda: uids(source) == {"b"}, 10)


def test_an_empty_file_drains(path: Path, source: FileContract) -> None:
    write(path, 1, "a")
    source.wait_ready(Deadline(10))
    path.write_text("")
    eventually(lambda: uids(source) == set(), 10)


def test_waiting_for_a_file_that_is_not_there_says_which(path: Path, source: FileContract) -> None:
    eventually(lambda: source._told, 10)
    with pytest.raises(HeadraceError, match=r"contract file .*contract\.json: cannot be read"):
        source.wait_ready(Deadline(0))


def test_two_resources_with_one_uid_are_refused(path: Path, source: FileContract) -> None:
    write(path, 1, "a", "a")
    eventually(lambda: "two resources" in source._told, 10)
    assert uids(source) == set()
