"""Manifests as users write them, and what is said of those that can't be read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.cli.manifests import read_all


def test_a_file_may_hold_several_documents_each_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "# first\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n"
    )
    documents = read_all([str(file)])
    assert [document.subject for document in documents] == [f"configmap/a ({file}, line 2)", f"secret/b ({file}, line 7)"]


def test_a_folder_is_read_in_order_of_names(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json"):
        (tmp_path / name).write_text(f'{{"kind": "ConfigMap", "metadata": {{"name": "{name[0]}"}}}}')
    (tmp_path / "README.md").write_text("not a manifest")
    assert [document.body["metadata"]["name"] for document in read_all([str(tmp_path)])] == ["a", "b", "c"]


def test_standard_input_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("kind: ConfigMap\nmetadata: {name: a}\n"))
    assert read_all(["-"])[0].origin == "standard input, line 1"


def test_a_list_stands_for_its_items(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text(
        "apiVersion: v1\nkind: List\nitems:\n- {kind: ConfigMap, metadata: {name: a}}\n- {kind: Secret, metadata: {name: b}}\n"
    )
    assert [document.body["kind"] for document in read_all([str(file)])] == ["ConfigMap", "Secret"]


def test_what_looks_like_a_date_stays_text(tmp_path: Path) -> None:
    file = tmp_path / "date.yaml"
    file.write_text("kind: ConfigMap\nmetadata: {name: a}\ndata: {day: 2026-01-31}\n")
    assert read_all([str(file)])[0].body["data"] == {"day": "2026-01-31"}


def test_text_of_a_secret_becomes_data(tmp_path: Path) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text("kind: Secret\nmetadata: {name: a}\ndata: {old: eA==}\nstringData: {user: me}\n")
    body = read_all([str(file)])[0].body
    assert body["data"] == {"old": "eA==", "user": "bWU="}
    assert "stringData" not in body


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", r"bad\.yaml, line 1: not YAML"),
        ("kind: x\n\tbad: 1\n", r"bad\.yaml, line 2: not YAML"),
        ("- 1\n", r"bad\.yaml, line 1: expected an object"),
        ("just text\n", r"expected an object"),
        ("kind: A\nkind: B\n", r"line 2: not YAML: the key kind is there twice"),
        ("x: !!python/object:os.system 1\n", "not YAML"),
        ("", "no objects in it"),
        ("# nothing\n---\n", "no objects in it"),
    ],
)
def test_what_cannot_be_read_is_told_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_all([str(file)])


def test_a_file_that_is_not_there_or_not_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml: cannot be read: No such file"):
        read_all([str(tmp_path / "none.yaml")])
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        read_all([str(tmp_path / "binary.yaml")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"holds no \.yaml"):
        read_all([str(tmp_path / "empty")])
