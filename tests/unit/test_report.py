"""A report: what is collected, what is missing, what is hidden, and the file that it becomes."""

from __future__ import annotations

import base64
import zipfile
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from headrace.base.errors import Terminal
from headrace.core.masking import HIDDEN
from headrace.core.report import Report, Secrets
from headrace.home.report import archive

FACTS = {"made": "today"}


def files(report: Report) -> dict[str, str]:
    return {path: content.decode() for path, content in report.files("Report", FACTS)}


def fail(error: Exception) -> None:
    raise error


def test_a_step_that_fails_is_listed_with_its_reason_and_the_others_go_on() -> None:
    told: list[str] = []
    report = Report(tell=told.append)
    with report.section("first"):
        report.add("a.yaml", {"a": 1})
        fail(Terminal("does not answer", subject="Kafka", hint="Start it"))
    with report.section("second"):
        with report.trying("a part of it"):
            fail(KeyError("gone"))
        report.add("b.txt", "text")
    found = files(report)
    assert found["a.yaml"] == "a: 1\n"
    assert found["b.txt"] == "text"
    assert found["missing.txt"].splitlines() == ["first: Kafka: does not answer. Start it", "a part of it: KeyError: 'gone'"]
    assert told == [
        "first",
        "    a.yaml",
        "    first: not collected (Kafka: does not answer. Start it)",
        "second",
        "    a part of it: not collected (KeyError: 'gone')",
        "    b.txt",
    ]


def test_a_secret_that_is_learnt_late_is_hidden_in_what_was_collected_early() -> None:
    report = Report()
    report.add("early.log", "cannot log in with rowan-berry")
    report.miss("something", "refused: rowan-berry")
    report.add("late.yaml", {"password": "rowan-berry"})
    found = files(report)
    assert not [path for path, text in found.items() if "rowan-berry" in text]
    assert found["early.log"] == f"cannot log in with {HIDDEN}"
    assert found["missing.txt"] == f"something: refused: {HIDDEN}\n"


@pytest.mark.parametrize("secrets", list(Secrets))
def test_secret_objects_are_left_out_or_hidden_or_shown(secrets: Secrets) -> None:
    report = Report(secrets)
    encoded = base64.b64encode(b"rowan-berry").decode()
    report.add_object("secrets/s.yaml", {"kind": "Secret", "metadata": {"name": "s"}, "data": {"word": encoded}}, "secret/s")
    report.add("a.log", "rowan-berry")
    found = files(report)
    assert found["a.log"] == HIDDEN
    if secrets is Secrets.OFF:
        assert "secrets/s.yaml" not in found
    else:
        shown = yaml.safe_load(found["secrets/s.yaml"])
        assert shown["data"] == {"word": encoded if secrets is Secrets.ALL else HIDDEN}


@pytest.mark.parametrize(
    ("path", "safe"),
    [("a/b.yaml", "a/b.yaml"), ("../../etc/x", "etc/x"), ("/a//b", "a/b"), ("a/b c<d>.txt", "a/b_c_d_.txt"), ("..", "unnamed")],
)
def test_names_of_objects_cannot_lead_out_of_the_archive(path: str, safe: str) -> None:
    report = Report()
    report.add(path, "x")
    assert [one.path for one in report.documents] == [safe]


def test_no_document_takes_the_place_of_another_or_of_the_index() -> None:
    report = Report()
    for path in ("a.yaml", "A.yaml", "a.yaml", "index.html"):
        report.add(path, path)
    assert [one.path for one in report.documents] == ["a.yaml", "A-2.yaml", "a-3.yaml", "index-2.html"]


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [unquote(str(value)) for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_index_links_every_file_and_says_what_is_missing() -> None:
    report = Report()
    with report.section("logs"):
        report.add("logs/a.log", "x" * 50_000 + "the end")
    with report.section("resources"):
        report.add("resources/broker/a@b.yaml", {"note": "<script>alert(1)</script>", "password": "rowan-berry"})
    report.miss("Kafka", "down, it said rowan-berry")
    page = _Page(files(report)["index.html"])
    assert {"logs/a.log", "resources/broker/a@b.yaml"} <= set(page.links)
    assert "script" not in page.tags
    text = "".join(page.words)
    assert "alert(1)" in text
    assert "the end" in text
    assert f"down, it said {HIDDEN}" in text
    assert "rowan-berry" not in text


def test_the_zip_holds_everything_in_one_folder_and_is_for_its_owner(tmp_path: Path) -> None:
    report = Report()
    report.add("a.yaml", {"a": 1})
    path = tmp_path / "r.zip"
    archive.write(report, path, "Report", FACTS)
    assert sorted(zipfile.ZipFile(path).namelist()) == ["reports/a.yaml", "reports/index.html", "reports/missing.txt"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.zip"
    path.write_text("mine")
    with pytest.raises(Terminal, match=r"r\.zip: exists already"):
        archive.write(Report(), path, "Report", FACTS)
    assert path.read_text() == "mine"


def test_a_file_that_comes_while_the_report_is_written_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.zip"

    class Slow(Report):
        def files(self, title, facts):  # type: ignore[no-untyped-def]
            path.write_text("mine")
            yield from super().files(title, facts)

    with pytest.raises(Terminal, match="exists already"):
        archive.write(Slow(), path, "Report", FACTS)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_a_report_that_could_not_be_written(tmp_path: Path) -> None:
    class Broken(Report):
        def files(self, title, facts):  # type: ignore[no-untyped-def]
            yield "a.txt", b"a"
            raise OSError(28, "No space left on device")

    with pytest.raises(Terminal, match="No space left on device"):
        archive.write(Broken(), tmp_path / "r.zip", "Report", FACTS)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named_before_anything_is_collected(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match="--file"):
        archive.check_free(tmp_path / "no" / "r.zip")


def test_the_name_of_a_report_sorts_by_time() -> None:
    assert archive.default_name(datetime(2026, 1, 2, 3, 4, 5)) == "headrace-report-2026-01-02_03-04-05.zip"
