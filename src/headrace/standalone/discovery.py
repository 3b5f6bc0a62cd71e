"""What a client asks before anything else: groups, versions, kinds (`/api`, `/apis`, `/apis/GROUP/VERSION`, `/version`)."""

from __future__ import annotations

import platform
from typing import Any

from headrace import __version__
from headrace.core.resources.registry import KINDS, KindInfo
from headrace.standalone.failures import Failure

Json = dict[str, Any]
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]


def groups() -> dict[str, list[str]]:
    """Group -> its versions, the preferred one (v1, if there is one) first; the group of ConfigMap and Secret is left out."""
    found: dict[str, list[str]] = {}
    for info in KINDS:
        if info.group:
            found.setdefault(info.group, []).extend(info.versions)
    return {group: sorted(set(versions), key=lambda version: (version != "v1", version)) for group, versions in found.items()}


def core_versions() -> Json:
    """`/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list() -> Json:
    """`/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(name) for name in groups()]}


def group(name: str) -> Json:
    """`/apis/GROUP`."""
    versions = groups().get(name)
    if versions is None:
        raise _unknown(name)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(group_name: str, version: str) -> Json:
    """`/api/v1` (empty group) and `/apis/GROUP/VERSION`."""
    infos = [info for info in KINDS if info.group == group_name and version in info.versions]
    if not infos:
        raise _unknown(f"{group_name}/{version}")
    resources: list[Json] = []
    for info in infos:
        resources.append(_resource(info))
        if info.has_status:
            name = f"{info.plural}/status"
            resources.append({"name": name, "singularName": "", "namespaced": True, "kind": info.kind, "verbs": _STATUS_VERBS})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": infos[0].api_version(version),
        "resources": resources,
    }


def version() -> Json:
    """`/version`."""
    major, minor, _ = __version__.split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{__version__}+headrace",
        "platform": f"{platform.system().lower()}/{platform.machine()}",
        "compiler": platform.python_implementation(),
    }


def _resource(info: KindInfo) -> Json:
    out: Json = {
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": True,
        "kind": info.kind,
        "verbs": _VERBS,
        "shortNames": list(info.short_names),
        "categories": list(info.categories),
    }
    return out


def _unknown(what: str) -> Failure:
    return Failure(404, "NotFound", f"no API group or version {what} is served here; /apis lists them")
