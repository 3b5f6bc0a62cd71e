"""Objects as tables; the controller knows the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.cli.output import console, error_console, print_table
from headrace.cli.selection import Selected
from headrace.standalone.client import Client, ResourceType

Json = dict[str, Any]


def print_tables(client: Client, chosen: Sequence[Selected], selector: str, *, wide: bool) -> None:
    """One table per type. With several types the names carry the type, and empty types are left out."""
    by_kind: dict[ResourceType, list[Json]] = {}
    for one in chosen:
        by_kind.setdefault(one.kind, []).append(client.table(one.kind, one.namespace, one.name, selector))
    prefixed = len(by_kind) > 1
    everywhere = any(one.namespace is None for one in chosen)
    filled = {kind: tables for kind, tables in by_kind.items() if any(table["rows"] for table in tables)}
    if not filled:
        where = "in any namespace" if everywhere else f"in namespace {chosen[0].namespace}"
        error_console().print(f"No {', '.join(kind.plural for kind in by_kind)} {where}.", markup=False)
    for index, (kind, tables) in enumerate(filled.items()):
        if index:
            console().print()
        rows = [row for table in tables for row in table["rows"]]
        columns = [definition["name"] for definition in tables[0]["columnDefinitions"]]
        extra = (["Namespace"] if everywhere else [], ["UID", "Generation"] if wide else [])
        print_table(
            [*extra[0], *columns, *extra[1]],
            [_cells(row, kind if prefixed else None, everywhere=everywhere, wide=wide) for row in rows],
        )


def print_row(client: Client, kind: ResourceType, change: str, obj: Json) -> None:
    """One line for a change that a watch saw."""
    metadata = obj["metadata"]
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready: Json = next((c for c in conditions if c.get("type") == "Ready"), {})
    words = [change, f"{kind.singular}/{metadata['name']}", ready.get("status", ""), ready.get("reason") or ""]
    console().print("  ".join(f"{word:<12}" for word in words).rstrip(), markup=False)


def _cells(row: Json, prefix: ResourceType | None, *, everywhere: bool, wide: bool) -> list[Any]:
    metadata = row["object"]["metadata"]
    name, *rest = row["cells"]
    cells = [f"{prefix.singular}/{name}" if prefix else name, *rest]
    if everywhere:
        cells.insert(0, metadata["namespace"])
    return [*cells, metadata.get("uid", ""), metadata.get("generation", "")] if wide else cells
