"""`headrace filter`: try filters out on events, without a running Headrace."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from headrace.base.errors import Terminal, UsageError
from headrace.cli.output import error_console
from headrace.core import cesql
from headrace.core.events import jsonformat
from headrace.core.filters import Filter, explain, parse_trigger_filters

app = typer.Typer(help="Try filters out on events.", no_args_is_help=True)

Attributes = dict[str, str | int | bool]


@app.callback()
def main() -> None:
    """Try filters out on events."""


@app.command("eval")
def evaluate(
    cesql_expression: Annotated[str | None, typer.Option("--cesql", metavar="EXPR", help="A CESQL expression.")] = None,
    event: Annotated[str | None, typer.Option(metavar="FILE", help="An event in the JSON format; - is standard input.")] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="FILE", help='Lines of {"expression": ..., "event": {...}}; - is standard input.')
    ] = None,
    trigger: Annotated[str | None, typer.Option(metavar="FILE", help="The manifest of a Trigger.")] = None,
) -> None:
    """Evaluate an expression, or the filters of a Trigger, on an event.

    With --cesql or --batch it prints {"result": ..., "error": KIND or null} for each. Attributes keep the types that they have in
    the JSON event. With --trigger it prints whether the Trigger would take the event, and which filter decided; attributes are
    strings then, as they are on their way through Kafka.
    """
    given = [
        name for name, value in (("--cesql", cesql_expression), ("--batch", batch), ("--trigger", trigger)) if value is not None
    ]
    if len(given) != 1:
        raise UsageError("give one of --cesql, --batch and --trigger", subject="headrace filter eval")
    if (event is None) == (batch is None):
        raise UsageError(
            f"--event {'is needed' if event is None else 'does not go'} with {given[0]}", subject="headrace filter eval"
        )
    if batch is not None:
        _batch(batch)
    elif cesql_expression is not None:
        _print_result(cesql_expression, _members(_read(str(event)), str(event)))
    else:
        _print_decision(str(trigger), str(event))


def _batch(file: str) -> None:
    for number, line in enumerate(_read(file).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        case = _members(line, where)
        if not isinstance(case.get("expression"), str) or not isinstance(case.get("event", {}), dict):
            raise UsageError('expected {"expression": "...", "event": {...}}', subject=where)
        _print_result(case["expression"], case.get("event", {}), quiet=True)


def _print_result(expression: str, event: dict[str, Any], *, quiet: bool = False) -> None:
    result, error = cesql.evaluate(expression, jsonformat.typed_attributes(event))
    print(json.dumps({"result": result, "error": error.kind if error else None}, ensure_ascii=False))
    if error and not quiet:
        error_console().print(error.message, markup=False)


def _print_decision(trigger: str, event: str) -> None:
    filters = _trigger_filters(trigger)
    decided = explain(filters, jsonformat.decode(_read(event).encode()).attributes)
    path = f"spec.{decided.path}" if decided.path else None
    print(json.dumps({"accepted": decided.accepted, "filter": path, "reason": decided.reason}, ensure_ascii=False))


def _trigger_filters(file: str) -> tuple[Filter, ...]:
    try:
        documents: Iterable[Any] = [document for document in yaml.safe_load_all(_read(file)) if isinstance(document, dict)]
    except yaml.YAMLError as error:
        raise UsageError(f"not YAML: {error}", subject=file) from None
    for document in documents:
        if document.get("kind") == "Trigger":
            spec = document.get("spec") or {}
            written = [item for item in spec.get("filters") or () if item != {"cesql": ""}]
            return parse_trigger_filters(written, None if spec.get("filters") else spec.get("filter"))
    raise UsageError("it holds no Trigger", subject=file)


def _members(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"not JSON: {error}", subject=where) from None
    if not isinstance(value, dict):
        raise UsageError("expected one JSON object", subject=where)
    return value


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise Terminal(f"can't be read: {error.strerror}", subject=file) from None
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8", subject=file) from None
