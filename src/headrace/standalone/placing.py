"""What a request is about, and whether the object that it brings fits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.control.model import ObjectKey
from headrace.core.resources.invalid import FieldError, Invalid
from headrace.core.resources.registry import KindInfo
from headrace.standalone.failures import Cause, Failure, bad_request, conflict, invalid
from headrace.standalone.mergepatch import merge
from headrace.standalone.metadata import made_up_name

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about: a kind in a version, a namespace, and a name unless it is about the collection."""

    info: KindInfo
    version: str
    namespace: str
    name: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.info.group, self.info.kind, self.namespace, self.name)


def placed(target: Target, obj: Json) -> tuple[Target, Json]:
    """The target with the new object's name, the object with its namespace."""
    _same_kind(target, obj)
    metadata = obj.get("metadata")
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    if metadata.get("namespace") not in (None, "", target.namespace):
        raise bad_request(
            f"the namespace of the object ({metadata['namespace']}) does not match that of the request ({target.namespace})"
        )
    name = metadata.get("name")
    if not name and isinstance(metadata.get("generateName"), str):
        name = made_up_name(metadata["generateName"])
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    placed = {**obj, "metadata": {**metadata, "namespace": target.namespace} | ({"name": name} if name else {})}
    return replace(target, name=name if isinstance(name, str) else ""), placed


def same_place(target: Target, obj: Json) -> None:
    """The object must be of the kind, namespace and name that the request is about; the namespace is filled in."""
    _same_kind(target, obj)
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object with a name")
    if metadata.get("name") != target.name:
        raise bad_request(f"the name of the object ({metadata.get('name')}) does not match that of the request ({target.name})")
    if metadata.setdefault("namespace", target.namespace) != target.namespace:
        raise bad_request(
            f"the namespace of the object ({metadata['namespace']}) does not match that of the request ({target.namespace})"
        )


def _same_kind(target: Target, obj: Json) -> None:
    wanted = {"apiVersion": target.info.api_version(target.version), "kind": target.info.kind}
    for field, value in wanted.items():
        if obj.setdefault(field, value) != value:
            raise bad_request(f"the {field} of the object ({obj[field]}) does not match that of the request ({value})")


def check_unmoved(target: Target, obj: Json, old: Json) -> None:
    """A resourceVersion or uid in what is sent must be that of the object."""
    for field, text in (("resourceVersion", "the object has been modified"), ("uid", "the object is another one by now")):
        given = obj["metadata"].get(field)
        if given and given != old["metadata"][field]:
            raise conflict(
                target.info.plural,
                target.name,
                f"{text} ({field} is {old['metadata'][field]}, not {given}); read it anew and try again",
            )


def check_preconditions(target: Target, old: Json, preconditions: Mapping[str, Any]) -> None:
    """Raises 409 unless the object is the one that the sender meant."""
    for field in ("uid", "resourceVersion"):
        if preconditions.get(field) and preconditions[field] != old["metadata"][field]:
            raise conflict(target.info.plural, target.name, f"the precondition {field} {preconditions[field]} does not hold")


def patched(obj: Json, patch: Json) -> Json:
    """The object with a merge patch applied."""
    result = merge(obj, patch)
    given = patch.get("metadata")
    if not isinstance(given, dict) or "resourceVersion" not in given:
        # Without a version in the patch, whatever is there now is patched.
        result = {**result, "metadata": _unversioned(result.get("metadata"))}
    return dict(result)


def _unversioned(metadata: Any) -> Any:
    return (
        {key: value for key, value in metadata.items() if key != "resourceVersion"} if isinstance(metadata, dict) else metadata
    )


def with_finalizers(obj: Json, finalizers: list[str]) -> Json:
    """The object with these finalizers and no others."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "finalizers"}
    return {**obj, "metadata": metadata | ({"finalizers": finalizers} if finalizers else {})}


def bare(obj: Json) -> Json:
    """The object without its version: equal ones need not be written again."""
    return {**obj, "metadata": _unversioned(obj["metadata"])}


def refusal(target: Target, error: Invalid) -> Failure:
    """What admission said, as an answer of the API."""
    causes = [_cause(path, fault) for fault in error.errors for path in fault.paths or ("",)]
    return invalid(target.info.kind, target.name, causes, target.info.group)


def _cause(path: str, fault: FieldError) -> Cause:
    reasons = {"missing field(s)": "FieldValueRequired", "unknown field(s)": "FieldValueForbidden"}
    text = f"{fault.message} ({fault.details})" if fault.details else fault.message
    return Cause(path, text, reasons.get(fault.message, "FieldValueInvalid"))
