"""Where objects of a kind are in the Kubernetes API: its path, found by discovery for kinds that are not ours."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from urllib.parse import quote

from headrace.control.model import Json, ObjectKey
from headrace.core.resources.registry import KINDS
from headrace.kube.api import Api, Refused

_FORGET_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """The collection of a kind. `group` is empty for v1."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """The path of all objects, or of those in a namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{quote(namespace)}/{self.plural}" if namespace else f"{root}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """The path of one object."""
        return f"{self.collection(namespace)}/{quote(name)}"


SERVICE = Place("", "v1", "Service", "services")
SECRET = Place("", "v1", "Secret", "secrets")
CONFIG_MAP = Place("", "v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNT = Place("", "v1", "ServiceAccount", "serviceaccounts")
POD = Place("", "v1", "Pod", "pods")
EVENT = Place("", "v1", "Event", "events")
DEPLOYMENT = Place("apps", "v1", "Deployment", "deployments")
DISRUPTION_BUDGET = Place("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE = Place("coordination.k8s.io", "v1", "Lease", "leases")
OURS = tuple(Place(info.group, info.storage, info.kind, info.plural) for info in KINDS if info.group)
_KNOWN = {
    (place.group, place.kind): place
    for place in (SERVICE, SECRET, CONFIG_MAP, SERVICE_ACCOUNT, DEPLOYMENT, DISRUPTION_BUDGET, LEASE, *OURS)
}


class Places:
    """`find` asks the server about each kind once; what it does not have is asked for again after half a minute."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Place] = {}
        self._absent: dict[tuple[str, str], float] = {}

    def of(self, key: ObjectKey) -> Place:
        """The place of an object whose kind is known. Raises `Refused` when the server does not serve it."""
        place = self.find(key.group, key.kind)
        if place is None:
            raise Refused(404, "NotFound", f"no kind {key.kind} in group {key.group or 'v1'}", subject=str(key))
        return place

    def find(self, group: str, kind: str) -> Place | None:
        """The place of a kind, or None if the server does not serve it."""
        if (group, kind) in _KNOWN:
            return _KNOWN[group, kind]
        with self._lock:
            if (group, kind) in self._found:
                return self._found[group, kind]
            if time.monotonic() < self._absent.get((group, kind), 0.0):
                return None
        place = self._ask(group, kind)
        with self._lock:
            if place is None:
                self._absent[group, kind] = time.monotonic() + _FORGET_SECONDS
            else:
                self._found[group, kind] = place
        return place

    def _ask(self, group: str, kind: str) -> Place | None:
        if group:
            about = self._api.find(f"/apis/{group}")
            versions = [str(one["version"]) for one in _preferred_first(about)] if about else []
        else:
            versions = ["v1"]
        for version in versions:
            listing = self._api.find(f"/apis/{group}/{version}" if group else f"/api/{version}") or {}
            for resource in listing.get("resources", ()):
                if resource["kind"] == kind and "/" not in resource["name"] and resource.get("namespaced"):
                    return Place(group, version, kind, str(resource["name"]))
        return None


def _preferred_first(about: Json) -> list[Json]:
    preferred = (about.get("preferredVersion") or {}).get("version")
    return sorted(about.get("versions", ()), key=lambda one: one["version"] != preferred)
