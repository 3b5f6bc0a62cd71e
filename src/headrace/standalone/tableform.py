"""Lists as `meta.k8s.io/v1` `Table` objects: the server knows the columns, so that clients need not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.core.resources.printing import cell
from headrace.core.resources.registry import KindInfo

Json = dict[str, Any]


def wanted(accept: str) -> bool:
    """Whether an `Accept` header asks for a Table first."""
    first = accept.partition(",")[0].replace(" ", "").split(";")
    return "as=Table" in first and "g=meta.k8s.io" in first


def table(info: KindInfo, objects: Iterable[Json], version: str, now: float) -> Json:
    """One row per object, each with the object's metadata beside it. `now`: Unix seconds, for ages."""
    columns = [{"name": "Name", "type": "string", "format": "name", "description": "Name", "priority": 0}]
    columns += [{"name": c.name, "type": c.type, "format": "", "description": c.name, "priority": 0} for c in info.columns]
    rows = [
        {
            "cells": [obj["metadata"]["name"], *(cell(obj, column, now) for column in info.columns)],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]},
        }
        for obj in objects
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": columns,
        "rows": rows,
    }
