"""`headrace filter eval`: what it prints and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.base.errors import HeadraceError
from headrace.cli.filters import app

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "number": 10, "data": {"a": 1}}
TRIGGER = """
apiVersion: v1
kind: ConfigMap
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: orders}
spec:
  broker: default
  filter: {attributes: {type: other}}
  filters: %s
"""


@pytest.fixture
def event(tmp_path: Path) -> str:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(EVENT))
    return str(path)


def run(*arguments: str, stdin: str | None = None) -> tuple[list[Any], str]:
    """The lines of standard output as JSON, and standard error. Raises what the command raises."""
    result = CliRunner().invoke(app, ["eval", *arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


@pytest.mark.parametrize(
    ("expression", "result", "error"),
    [
        ("type = 't'", True, None),
        ("number", 10, None),
        ("CONCAT(type, 'é')", "té", None),
        ("missing", False, "missingAttribute"),
        ("5 / 0", 0, "math"),
        ("type =", False, "parse"),
    ],
)
def test_an_expression_gives_result_and_error(event: str, expression: str, result: Any, error: str | None) -> None:
    printed, explained = run("--cesql", expression, "--event", event)
    assert printed == [{"result": result, "error": error}]
    assert bool(explained) is (error is not None)


def test_a_parse_error_is_explained_on_standard_error(event: str) -> None:
    assert "line 1, column 7" in run("--cesql", "type =", "--event", event)[1]


def test_the_event_can_come_from_standard_input() -> None:
    assert run("--cesql", "id", "--event", "-", stdin=json.dumps(EVENT))[0] == [{"result": "1", "error": None}]


def test_a_batch_gives_a_line_for_each_line(tmp_path: Path) -> None:
    lines = [{"expression": "id = '1'", "event": EVENT}, {"expression": "1 +", "event": EVENT}, {"expression": "1 + 1"}]
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    wanted = [{"result": True, "error": None}, {"result": False, "error": "parse"}, {"result": 2, "error": None}]
    assert run("--batch", str(path))[0] == wanted


@pytest.mark.parametrize(
    ("filters", "accepted", "path"),
    [
        ("[]", False, "spec.filter.attributes.type"),
        ("[{exact: {type: t}}]", True, "spec.filters[0].exact.type"),
        ("[{exact: {type: t}}, {not: {cesql: 'EXISTS subject'}}]", True, "spec.filters[1].not"),
        ("[{any: [{prefix: {type: x}}, {suffix: {source: x}}]}]", False, "spec.filters[0].any"),
        ("[{cesql: ''}]", True, None),
        ("[{cesql: 'number = 10'}]", True, "spec.filters[0].cesql"),
    ],
)
def test_a_trigger_says_whether_it_takes_the_event_and_which_filter_decided(
    tmp_path: Path, event: str, filters: str, accepted: bool, path: str | None
) -> None:
    (tmp_path / "trigger.yaml").write_text(TRIGGER % filters)
    ((printed,), _) = run("--trigger", str(tmp_path / "trigger.yaml"), "--event", event)
    assert (printed["accepted"], printed["filter"]) == (accepted, path)
    assert printed["reason"]


def test_with_a_trigger_attributes_are_strings_as_behind_kafka(tmp_path: Path, event: str) -> None:
    (tmp_path / "trigger.yaml").write_text(TRIGGER % "[{cesql: 'number'}]")
    ((printed,), _) = run("--trigger", str(tmp_path / "trigger.yaml"), "--event", event)
    assert printed["reason"] == "the expression gives 10"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of"),
        (["--cesql", "1"], "--event is needed"),
        (["--cesql", "1", "--batch", "x"], "give one of"),
        (["--batch", "x", "--event", "y"], "--event does not go with --batch"),
        (["--cesql", "1", "--event", "/nowhere"], "can't be read"),
        (["--cesql", "1", "--event", "{folder}/list.json"], "expected one JSON object"),
        (["--cesql", "1", "--event", "{folder}/broken"], "not JSON"),
        (["--cesql", "1", "--event", "{folder}/bytes"], "is not UTF-8"),
        (["--cesql", "1", "--event", "{folder}/fraction.json"], "integer of 32 bits"),
        (["--batch", "{folder}/list.json"], "expected one JSON object"),
        (["--batch", "{folder}/fraction.json"], "line 1: expected {"),
        (["--trigger", "{folder}/fraction.json", "--event", "{folder}/event.json"], "it holds no Trigger"),
        (["--trigger", "{folder}/broken", "--event", "{folder}/event.json"], "not YAML"),
        (["--trigger", "{folder}/trigger.yaml", "--event", "{folder}/event.json"], "spec.filters[0]: unknown dialect"),
        (["--trigger", "{folder}/good.yaml", "--event", "{folder}/fraction.json"], "not an Integer"),
    ],
)
def test_what_can_not_be_done_is_said(tmp_path: Path, event: str, arguments: list[str], message: str) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "broken").write_text("{")
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "fraction.json").write_text('{"number": 1.5}')
    (tmp_path / "trigger.yaml").write_text(TRIGGER % "[{sql: x}]")
    (tmp_path / "good.yaml").write_text(TRIGGER % "[]")
    with pytest.raises(HeadraceError) as caught:
        run(*(argument.replace("{folder}", str(tmp_path)) for argument in arguments))
    assert message in str(caught.value)
