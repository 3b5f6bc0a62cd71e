"""The page that a report is opened with: one HTML file without scripts, that works from a folder on disk. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from urllib.parse import quote

_SHOWN = 40_000
"""Characters of a document that the page shows itself; browsers offer a YAML file for saving rather than show it."""

_STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; } td { padding: .15rem 1rem .15rem 0; vertical-align: top; }
.gaps { border-left: 4px solid #c60; padding-left: 1rem; } .gaps td:first-child { white-space: nowrap; }
summary { cursor: pointer; } summary small { color: #777; }
pre { background: #f5f5f5; padding: .8rem; overflow: auto; max-height: 32rem; font-size: 12px; line-height: 1.4; }
nav a { margin-right: 1rem; }
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the report, with its text as it is written."""

    heading: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What could not be collected, and why."""

    what: str
    reason: str


def index_page(title: str, facts: Mapping[str, str], entries: Sequence[Entry], gaps: Sequence[Gap]) -> str:
    """The page: facts, what is missing, and each file with its beginning (of a log: its end) to fold out, by heading."""
    headings = list(dict.fromkeys(entry.heading for entry in entries))
    links = "".join(f'<a href="#{number}">{escape(heading)}</a>' for number, heading in enumerate(headings))
    ordered = sorted(entries, key=lambda entry: headings.index(entry.heading))
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>\n{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>",
        _table(facts.items()),
        *(_missing(gaps) if gaps else []),
        f"<nav>{links}</nav>",
    ]
    for heading, group in groupby(ordered, key=lambda entry: entry.heading):
        parts.append(f'<h2 id="{headings.index(heading)}">{escape(heading)}</h2>')
        parts += [_entry(entry) for entry in group]
    return "\n".join([*parts, "</body></html>\n"])


def _missing(gaps: Sequence[Gap]) -> list[str]:
    rows = _table((gap.what, gap.reason) for gap in gaps)
    return [f'<div class="gaps"><h2>Not collected ({len(gaps)})</h2>', rows, "</div>"]


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return f"<table>{''.join(f'<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>' for name, value in rows)}</table>"


def _entry(entry: Entry) -> str:
    size, text = len(entry.text), entry.text
    link = f'<a href="{quote(entry.path)}">{escape(entry.path)}</a>'
    note = f"{size:,} characters"
    if size > _SHOWN:
        is_log = entry.path.endswith((".log", ".0", ".txt"))
        text = text[-_SHOWN:] if is_log else text[:_SHOWN]
        note += f", the {'last' if is_log else 'first'} {_SHOWN:,} here"
    return f"<details><summary>{link} <small>{note}</small></summary><pre>{escape(text)}</pre></details>"
