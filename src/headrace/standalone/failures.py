"""What the REST API answers when it can't do what was asked: an HTTP status and a `v1` `Status` object, as Kubernetes shapes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with an object: `field` is its path (`spec.delivery.retry`), `reason` as `metav1.CauseType` has it."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class Failure(HeadraceError):
    """A refused request. `code` is the HTTP status, `reason` the CamelCase `metav1.StatusReason`."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: dict[str, Any] | None = None, causes: Sequence[Cause] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details or {}
        self.causes = tuple(causes)

    def status(self) -> dict[str, Any]:
        """The `v1` `Status` object."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [{"field": c.field, "message": c.message, "reason": c.reason} for c in self.causes]
        out: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if details:
            out["details"] = details
        return out


def not_found(resource: str, name: str, group: str = "") -> Failure:
    """No such object; `resource` is the plural (`triggers`)."""
    full = f"{resource}.{group}" if group else resource
    return Failure(404, "NotFound", f'{full} "{name}" not found', details={"name": name, "group": group, "kind": resource})


def already_exists(resource: str, name: str, group: str = "") -> Failure:
    """A create of an object that is there."""
    full = f"{resource}.{group}" if group else resource
    return Failure(
        409, "AlreadyExists", f'{full} "{name}" already exists', details={"name": name, "group": group, "kind": resource}
    )


def conflict(resource: str, name: str, message: str) -> Failure:
    """An update that was made from an older version of the object, or of another object of the same name."""
    return Failure(
        409,
        "Conflict",
        f'operation cannot be fulfilled on {resource} "{name}": {message}',
        details={"name": name, "kind": resource},
    )


def bad_request(message: str) -> Failure:
    """A request that can't be understood."""
    return Failure(400, "BadRequest", message)


def expired(since: int) -> Failure:
    """A watch from a version that is no longer remembered: list again."""
    return Failure(410, "Expired", f"too old resource version: {since}")


def invalid(kind: str, name: str, causes: Sequence[Cause], group: str = "") -> Failure:
    """An object that breaks rules; one cause each."""
    what = f"{kind}.{group}" if group else kind
    text = "; ".join(f"{c.field}: {c.message}" if c.field else c.message for c in causes)
    return Failure(
        422,
        "Invalid",
        f'{what} "{name}" is invalid: {text}',
        details={"name": name, "group": group, "kind": kind},
        causes=causes,
    )
