"""What is wrong with an object, in Knative's words: `missing field(s): spec.subscriber`.

The forms are those of `knative.dev/pkg/apis` (`FieldError`), so that what users know, and tests written against Knative, hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import Terminal

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: the message, the paths it is about (`spec.filters[0].exact`), and a longer text."""

    message: str
    paths: tuple[str, ...] = ()
    details: str = ""

    def __str__(self) -> str:
        text = f"{self.message}: {', '.join(self.paths)}"
        return f"{text}\n{self.details}" if self.details else text


class Invalid(Terminal):
    """An object that is refused. `errors` holds every fault that was found."""

    def __init__(self, errors: Iterable[FieldError], *, subject: str = "") -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors), subject=subject)


def at(*parts: str | int) -> str:
    """The path of a field: `at("spec", "filters", 0, "exact", "my-key")` -> `spec.filters[0].exact[my-key]`."""
    text = ""
    for part in parts:
        if isinstance(part, int) or not _PLAIN.fullmatch(part):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def missing(*paths: str, details: str = "") -> FieldError:
    """A field that has to be there is not."""
    return FieldError("missing field(s)", paths, details)


def disallowed(*paths: str, details: str = "") -> FieldError:
    """A field is set that may not be."""
    return FieldError("must not set the field(s)", paths, details)


def invalid_value(value: Any, path: str, details: str = "") -> FieldError:
    """A field has a value that it can't have."""
    return FieldError(f"invalid value: {_show(value)}", (path,), details)


def invalid_key(key: str, path: str, details: str = "") -> FieldError:
    """A key of a map is not allowed."""
    return FieldError(f'invalid key name "{key}"', (path,), details)


def one_of(given: int, *paths: str) -> FieldError:
    """Exactly one of these fields may be set; `given` says how many were."""
    return FieldError(f"expected exactly one, got {'both' if given else 'neither'}", paths)


def changed(what: str, path: str, old: Any, new: Any) -> FieldError:
    """Something immutable was changed; `what` is `fields` or `annotations`."""
    return FieldError(f"Immutable {what} changed (-old +new)", (path,), "\n".join(differences(old, new, path)))


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two JSON values differ: one line per place, `spec.broker: -"a" +"b"`."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines: list[str] = []
        for key in sorted(old.keys() | new.keys()):
            lines += differences(old.get(key), new.get(key), f"{path}{at(key) if at(key).startswith('[') else '.' + key}")
        return lines
    return [] if old == new else [f"{path}: -{json.dumps(old)} +{json.dumps(new)}"]


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
