"""What commands print: tables for people, JSON and YAML for machines. Colours only on terminals."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.base.errors import UsageError


class Format(StrEnum):
    """The value of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Format, typer.Option("-o", "--output", help="How to print: table, wide, json or yaml.")]


def console() -> Console:
    """Standard output. Not a terminal: no colours, no wrapping of table cells."""
    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False, width=None if sys.stdout.isatty() else 200)


def error_console() -> Console:
    """Standard error, for progress and problems, so that standard output stays parseable."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def print_data(value: Any, output: Format) -> None:
    """`value` as JSON or YAML (for `table` and `wide` too, as YAML: for things that have no table)."""
    if output is Format.JSON:
        print(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    output: Format = Format.TABLE,
    data: Any = None,
    empty: str = "Nothing found.",
) -> None:
    """`rows` as a table; with `json` or `yaml` instead `data`, or one object per row keyed by the columns."""
    if output in (Format.JSON, Format.YAML):
        keys = [column.lower().replace(" ", "_") for column in columns]
        print_data([dict(zip(keys, row, strict=True)) for row in rows] if data is None else data, output)
        return
    if not rows:
        error_console().print(empty)
        return
    console().print(table_of(columns, rows))


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """The table itself, for views that refresh it."""
    table = Table(box=SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, header_style="bold", show_edge=False)
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], (int, float)) for row in rows)
        table.add_column(column.upper(), justify="right" if numbers else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> Text:
    text = "" if value is None else f"{value:,.1f}" if isinstance(value, float) else str(value)
    styles: Mapping[str, str] = {"True": "green", "False": "red", "Unknown": "yellow", "Ready": "green"}
    return Text(text, style=styles.get(text, ""))


def parse_assignments(pairs: Sequence[str], what: str) -> dict[str, str]:
    """`name=value` words as a mapping; raises `UsageError` naming the word that is none."""
    out: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError("expected NAME=VALUE", subject=f"{what} {pair!r}")
        out[name] = value
    return out
