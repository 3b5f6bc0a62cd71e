"""What a kind adds to `Resource`: its defaults and admission rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from headrace.core.resources.base import Json, Resource
from headrace.core.resources.invalid import FieldError, changed
from headrace.core.resources.rules import Rules


class Kind(Resource):
    """A kind that Headrace serves. These methods are all that differs between kinds at admission."""

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """Fill in what was left out, in place. `raw` may have any shape yet: what does not fit is left alone."""

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """The faults of the object by itself."""
        yield from ()

    def check_create(self, rules: Rules) -> Iterator[FieldError]:
        """The faults that only count when the object is new."""
        yield from ()

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """The faults of the change from `old`."""
        yield from ()


def section(raw: Json, *names: str) -> Json:
    """The object at `raw.a.b`, made on the way if absent; a throw-away one where something else stands there."""
    current: Any = raw
    for name in names:
        current = current.setdefault(name, {})
        if not isinstance(current, dict):
            return {}
    return current if isinstance(current, dict) else {}


def existing(raw: Json, *names: str) -> Json | None:
    """The object at `raw.a.b`, or None."""
    current: Any = raw
    for name in names:
        if not isinstance(current, dict):
            return None
        current = current.get(name)
    return current if isinstance(current, dict) else None


def namespace_of(raw: Json) -> str:
    """The object's namespace, as far as it can be told."""
    name = (existing(raw, "metadata") or {}).get("namespace")
    return name if isinstance(name, str) else ""


def immutable(path: str, old: Json, new: Json) -> Iterator[FieldError]:
    """One fault if the two differ."""
    if old != new:
        yield changed("fields", path, old, new)
