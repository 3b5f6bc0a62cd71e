"""The runner of the public compatibility kit, on a kit of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import cesql_kit

SUITE = """
name: A suite
tests:
  - name: unquoted scalars are expressions
    expression: TRUE
    result: true
  - name: an event of its own, with a time
    expression: time
    event: {specversion: "1.0", id: "1", source: /s, type: t, time: 2018-04-26T14:48:09+02:00}
    result: 2018-04-26T14:48:09+02:00
  - name: attributes with types
    expression: myint
    eventOverrides: {myint: 10}
    result: 10
  - name: an error without a result
    expression: "missing = 1"
    error: missingAttribute
  - name: a field with a misspelt name
    expresion: 1 = 1
    result: true
"""


def test_a_kit_passes_when_all_its_cases_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    assert cesql_kit.main(str(tmp_path)) == 0
    assert capsys.readouterr().out == "5 of 5 cases passed, from 1 files\n"


@pytest.mark.parametrize(
    "case",
    [
        "{name: result, expression: 1 = 1, result: false}",
        "{name: type, expression: 1 = 1, result: 1}",
        "{name: no error, expression: 1 = 1, result: true, error: cast}",
        "{name: unexpected error, expression: missing}",
    ],
)
def test_a_kit_fails_when_one_case_does(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    (tmp_path / "suite.yaml").write_text(f"{SUITE}  - {case}\n")
    assert cesql_kit.main(str(tmp_path)) == 1
    assert "5 of 6 cases passed" in capsys.readouterr().out


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    assert cesql_kit.main(str(tmp_path)) == 1
