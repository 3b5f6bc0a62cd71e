"""Names and addresses that belong to one object each.

A topic or group name belongs to the uid that made it, as recorded in its status; `a-b/c` and `a/b-c` would give the same, and then the
newcomer's gets the first characters of its uid. Of two ingresses with one path or host, the one that has its address keeps it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.control.model import ObjectKey
from headrace.core.names import MAX_TOPIC_NAME, with_uid


class Owners:
    """Who owns which name."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def record(self, name: str, uid: str) -> None:
        """`name` is in use by `uid`."""
        self._owners.setdefault(name, uid)

    def name_for(self, uid: str, template: str) -> str:
        """`template` if it is free (or that object's already), else a name of its own."""
        free = len(template) <= MAX_TOPIC_NAME and self._owners.get(template, uid) == uid
        name = template if free else with_uid(template, uid)
        self.record(name, uid)
        return name


@dataclass(frozen=True, slots=True)
class Claim:
    """An ingress and where it wants to be reached. `settled`: it has its address already. `created`: RFC 3339."""

    key: ObjectKey
    uid: str
    created: str
    settled: bool
    path: str
    host: str = ""


def losers(claims: Iterable[Claim]) -> dict[str, str]:
    """uid -> why, for each claim whose path or host is another's."""
    holders: dict[str, Claim] = {}
    lost: dict[str, str] = {}
    for claim in sorted(claims, key=lambda claim: (not claim.settled, claim.created, claim.uid)):
        places = [place for place in (claim.path, claim.host) if place]
        taken = next((place for place in places if place in holders), None)
        if taken is not None:
            lost[claim.uid] = f"{taken} belongs to {holders[taken].key}"
        else:
            holders.update(dict.fromkeys(places, claim))
    return lost


def channel_host(name: str, namespace: str, domain: str) -> str:
    """Host name of a channel: `<name>-kn-channel`, or the plain name where that would be no legal host label."""
    label = f"{name}-kn-channel"
    return f"{label if len(label) <= 63 else name}.{namespace}.svc.{domain}"


def audience(group: str, kind: str, namespace: str, name: str) -> str:
    """The OIDC audience of an object."""
    return f"{group}/{kind}/{namespace}/{name}".lower()


def service_account(name: str, group: str, kind: str) -> str:
    """The ServiceAccount under whose identity an object sends; at most 63 characters."""
    suffix = f"-oidc-{group}-{kind}".lower()
    if len(name) + len(suffix) <= 63:
        return f"{name}{suffix}".lower()
    digest = hashlib.md5(f"{name}{suffix}".encode(), usedforsecurity=False).hexdigest()
    return f"{name[:31]}{digest}".lower()
