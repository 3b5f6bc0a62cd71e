"""Admission: what an object becomes when it is written, or why it is refused. Both homes call it (store, webhooks)."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from headrace.core.resources.annotations import check_annotations
from headrace.core.resources.base import Json, read, read_known, without_nulls
from headrace.core.resources.invalid import FieldError, Invalid
from headrace.core.resources.kinds import Kind
from headrace.core.resources.names import check_metadata
from headrace.core.resources.registry import KindInfo, kind_of
from headrace.core.resources.rules import Rules
from headrace.core.resources.syntax import check_syntax


def default(raw: Json, old: Json | None, rules: Rules) -> Json:
    """The object with nulls pruned and defaults filled in. Raises `Invalid` if its kind is not served."""
    info = kind_of(raw)
    new: Json = without_nulls(copy.deepcopy(raw))
    info.model.default(new, old, rules)
    return new


def admit(raw: Json, old: Json | None, rules: Rules) -> Json:
    """The object as it is to be stored, in the version that it was given in.

    `old` is the stored object when this is an update. `status` is kept from `old`: it is written apart. Raises `Invalid` with every
    fault at once; its text names the object.
    """
    try:
        new = default(raw, old, rules)
        info = kind_of(new)
        new.pop("status", None)
        model = read(info.model, new)
    except RecursionError:
        raise Invalid([FieldError("the object is nested too deeply")], subject=subject_of(raw)) from None
    except Invalid as error:
        raise Invalid(error.errors, subject=subject_of(raw)) from None
    before = None if old is None else read_known(info.model, old)
    faults = list(_faults(info, model, before, rules))
    if faults:
        raise Invalid(faults, subject=subject_of(raw))
    admitted = model.to_json()
    if old is not None and "status" in old:
        admitted["status"] = old["status"]
    return admitted


def convert(raw: Json, version: str) -> Json:
    """The object in another version of its kind. Raises `Invalid` if the kind is not served in it."""
    info = kind_of(raw)
    new = {**raw, "apiVersion": info.api_version(version)}
    kind_of(new)
    return new


def subject_of(raw: object) -> str:
    """How messages name an object: `trigger/default/orders`."""
    if not isinstance(raw, dict):
        return "object"
    metadata = raw.get("metadata")
    names = [metadata.get(key) for key in ("namespace", "name")] if isinstance(metadata, dict) else []
    return "/".join([str(raw.get("kind") or "object").lower(), *(str(name) for name in names if name)])


def _faults(info: KindInfo, model: Kind, before: Kind | None, rules: Rules) -> Iterator[FieldError]:
    if before is not None and before.metadata.deletion_timestamp:
        return
    yield from check_metadata(model.metadata)
    yield from check_annotations(info.kind, model.annotations)
    yield from model.check(rules)
    yield from check_syntax(model)
    if before is None:
        yield from model.check_create(rules)
    else:
        yield from model.check_update(before, rules)
