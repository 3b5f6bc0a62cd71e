"""An event for the eye, or as one JSON document for a machine."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from headrace.cli.output import console

if TYPE_CHECKING:
    from headrace.core.events.model import Event

_CONTEXT = ("specversion", "type", "source", "id", "subject", "time", "datacontenttype", "dataschema")
_LONGEST = 4000


def print_event(event: Event, note: str, *, as_json: bool) -> None:
    """Print it; `note` says where it came from or went (a path, partition and offset, the answer)."""
    if as_json:
        from headrace.core.events.jsonformat import encode

        print(encode(event).decode(), flush=True)
        return
    out = console()
    moment = time.strftime("%H:%M:%S")
    out.print(f"{moment}  {event.attributes['type']}  {note}", style="bold", markup=False)
    for name in (*_CONTEXT, *(name for name in event.attributes if name not in _CONTEXT)):
        if name in event.attributes and name != "type":
            out.print(f"    {name + ':':<16} {event.attributes[name]}", markup=False)
    if event.data is not None:
        out.print("    data:", markup=False)
        for line in _data(event).splitlines() or [""]:
            out.print(f"      {line}", markup=False)


def _data(event: Event) -> str:
    data = event.data or b""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are not text)"
    if "json" in event.attributes.get("datacontenttype", "json"):
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except ValueError:
            pass
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(data)} bytes)"
