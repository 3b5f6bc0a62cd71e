"""The fields of `metadata` that the server owns: set, kept and counted here, whatever a user sends. Pure but for random names."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from headrace.core.resources.timestamps import format_time

Json = dict[str, Any]
_SERVER_SET = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def without_server_fields(metadata: Json) -> Json:
    """What a user may say of `metadata`."""
    return {name: value for name, value in metadata.items() if name not in _SERVER_SET}


def made_up_name(prefix: str) -> str:
    """A name for `generateName`: the prefix (cut to 58 characters) and five letters without vowels."""
    return prefix[:58] + "".join(secrets.choice(_NAME_LETTERS) for _ in range(5))


def on_create(obj: Json, now: float, *, counted: bool) -> Json:
    """The object with its identity and time of birth; `counted`: it has a generation."""
    metadata = without_server_fields(obj["metadata"])
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": format_time(now)} | ({"generation": 1} if counted else {})
    return {**obj, "metadata": metadata}


def on_update(obj: Json, old: Json) -> Json:
    """The object with what the server had set; the generation grows when anything but metadata and status has changed."""
    kept = {name: old["metadata"][name] for name in _SERVER_SET if name in old["metadata"]}
    metadata = without_server_fields(obj["metadata"]) | kept
    if "generation" in metadata and _content(obj) != _content(old):
        metadata["generation"] += 1
    return {**obj, "metadata": metadata}


def on_delete(obj: Json, now: float) -> Json:
    """The object with the mark that its deletion was asked for."""
    metadata = {**obj["metadata"], "deletionTimestamp": format_time(now), "deletionGracePeriodSeconds": 0}
    if "generation" in metadata:
        metadata["generation"] += 1
    return {**obj, "metadata": metadata}


def _content(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status", "apiVersion")}
