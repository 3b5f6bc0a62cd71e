"""The verbs on objects, with the meaning that a Kubernetes API server gives them: admission, versions, generations, finalizers.

Users come through `create`, `replace`, `patch`, `replace_status` and `delete`; the control plane through the rest, under a name that may
change what users may not. Objects are stored in the storage version of their kind and given out in the version asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.base.clock import Clock
from headrace.base.errors import Retriable
from headrace.control.model import ObjectKey
from headrace.core.resources.admission import admit, convert
from headrace.core.resources.base import read
from headrace.core.resources.invalid import FieldError, Invalid
from headrace.core.resources.registry import KINDS, KindInfo, by_kind
from headrace.core.resources.rules import Rules
from headrace.standalone.failures import Cause, Failure, already_exists, bad_request, conflict, invalid, not_found
from headrace.standalone.mergepatch import merge
from headrace.standalone.metadata import made_up_name, on_create, on_delete, on_update
from headrace.standalone.store import Store

Json = dict[str, Any]
CONTROLLER = "headrace:controller"
USER = "headrace:user"


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


class Registry:
    """Any number of threads may call it. Methods raise `Failure`, or what the store's writer raises."""

    def __init__(self, store: Store, rules: Rules, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rules = {
            USER: replace(rules, user=USER, controllers=frozenset({CONTROLLER})),
            CONTROLLER: replace(rules, user=CONTROLLER, controllers=frozenset({CONTROLLER})),
        }

    # What users ask for

    def get(self, target: Target) -> Json:
        """The object in the version asked for."""
        return convert(self._existing(target), target.version)

    def create(self, target: Target, obj: Json, *, dry_run: bool = False, user: str = USER) -> Json:
        """Admit and write a new object; `target` names its collection."""
        target, obj = _placed(target, obj)
        admitted = self._admit(target, obj, None, user)
        with self._store.writing():
            if self._store.get(target.key) is not None:
                raise already_exists(target.info.plural, target.name, target.info.group)
            made = on_create(admitted, self._clock.now(), counted=target.info.has_status)
            return convert(made if dry_run else self._write(target.key, made), target.version)

    def replace(self, target: Target, obj: Json, *, dry_run: bool = False) -> Json:
        """Put `obj` in the place of the object; its status stays."""
        _same_place(target, obj)
        with self._store.writing():
            return self._update(target, obj, self._existing(target), USER, dry_run)

    def patch(self, target: Target, patch: Json, *, dry_run: bool = False) -> Json:
        """Apply a JSON merge patch; the status stays."""
        with self._store.writing():
            old = self._existing(target)
            patched = _patched(convert(old, target.version), patch)
            _same_place(target, patched)
            return self._update(target, patched, old, USER, dry_run)

    def replace_status(self, target: Target, obj: Json, *, dry_run: bool = False) -> Json:
        """Take the status of `obj` and nothing else."""
        _same_place(target, obj)
        with self._store.writing():
            return self._update_status(target, obj, self._existing(target), dry_run)

    def patch_status(self, target: Target, patch: Json, *, dry_run: bool = False) -> Json:
        """Apply a JSON merge patch to the object and take the status of the result."""
        with self._store.writing():
            old = self._existing(target)
            patched = _patched(convert(old, target.version), patch)
            _same_place(target, patched)
            return self._update_status(target, patched, old, dry_run)

    def delete(self, target: Target, options: Mapping[str, Any], *, dry_run: bool = False) -> Json | None:
        """Remove the object, or mark it while it has finalizers (then it is returned). `options`: `preconditions`."""
        with self._store.writing():
            old = self._existing(target)
            _check_preconditions(target, old, options.get("preconditions") or {})
            gone = self._delete(target.key, old, dry_run)
            return None if gone is None else convert(gone, target.version)

    # What the control plane does

    def write_statuses(self, statuses: Mapping[ObjectKey, Json]) -> None:
        """Write whole statuses in one go; objects that are gone are passed over."""
        with self._store.writing():
            changed: dict[ObjectKey, Json] = {}
            for key, status in statuses.items():
                obj = self._store.get(key)
                if obj is not None and obj.get("status") != status:
                    changed[key] = {**obj, "status": status}
            if changed:
                self._store.put_all(changed)

    def add_finalizer(self, key: ObjectKey, uid: str, finalizer: str) -> None:
        """Add it, unless the object is another one by now, or going."""
        with self._store.writing():
            obj = self._of_uid(key, uid)
            finalizers = obj["metadata"].get("finalizers", [])
            if finalizer not in finalizers and "deletionTimestamp" not in obj["metadata"]:
                self._write(key, _with_finalizers(obj, [*finalizers, finalizer]))

    def remove_finalizer(self, key: ObjectKey, uid: str, finalizer: str) -> None:
        """Remove it; an object that was only waiting for that is forgotten."""
        with self._store.writing():
            obj = self._store.get(key)
            if obj is None or obj["metadata"]["uid"] != uid:
                return
            left = [other for other in obj["metadata"].get("finalizers", []) if other != finalizer]
            self._write(key, _with_finalizers(obj, left))

    def create_owned(self, manifest: Json) -> None:
        """Create an object of the control plane's own; that it is there already is fine."""
        info = by_kind(manifest["apiVersion"].rpartition("/")[0], manifest["kind"])
        if info is None:
            raise bad_request(f"no kind {manifest['kind']} in {manifest['apiVersion']}")
        target = Target(info, manifest["apiVersion"].rpartition("/")[2], manifest["metadata"]["namespace"])
        try:
            self.create(target, manifest, user=CONTROLLER)
        except Failure as failure:
            if failure.reason != "AlreadyExists":
                raise

    def patch_owned(self, key: ObjectKey, uid: str, patch: Json) -> None:
        """Merge-patch an object as the control plane, if it is still the one that was meant."""
        with self._store.writing():
            old = self._of_uid(key, uid)
            info = _info(key)
            self._update(Target(info, info.storage, key.namespace, key.name), _patched(old, patch), old, CONTROLLER, False)

    def delete_owned(self, key: ObjectKey, uid: str) -> None:
        """Delete an object, if it is still the one that was meant."""
        with self._store.writing():
            obj = self._store.get(key)
            if obj is not None and obj["metadata"]["uid"] == uid:
                self._delete(key, obj, False)

    def collect_garbage(self) -> None:
        """Delete objects all of whose owners are gone."""
        with self._store.writing():
            objects = self._store.all()
            living = {obj["metadata"]["uid"] for obj in objects.values()}
            for key, obj in objects.items():
                owners = obj["metadata"].get("ownerReferences") or []
                if owners and not any(owner["uid"] in living for owner in owners):
                    self._delete(key, obj, False)

    # Inside, with the store held for writing

    def _existing(self, target: Target) -> Json:
        obj = self._store.get(target.key)
        if obj is None:
            raise not_found(target.info.plural, target.name, target.info.group)
        return obj

    def _of_uid(self, key: ObjectKey, uid: str) -> Json:
        obj = self._store.get(key)
        if obj is None or obj["metadata"]["uid"] != uid:
            raise Retriable("is another object by now", subject=str(key))
        return obj

    def _admit(self, target: Target, obj: Json, old: Json | None, user: str) -> Json:
        try:
            return convert(admit(obj, old, self._rules[user]), target.info.storage)
        except Invalid as error:
            raise _refusal(target, error) from None

    def _update(self, target: Target, obj: Json, old: Json, user: str, dry_run: bool) -> Json:
        _check_unmoved(target, obj, old)
        new = on_update(self._admit(target, obj, convert(old, target.version), user), old)
        going = "deletionTimestamp" in old["metadata"]
        added = set(new["metadata"].get("finalizers", [])) - set(old["metadata"].get("finalizers", []))
        if going and added:
            cause = Cause(
                "metadata.finalizers", "no finalizer can be added once the object is being deleted", "FieldValueForbidden"
            )
            raise invalid(target.info.kind, target.name, [cause], target.info.group)
        return convert(new if dry_run else self._write(target.key, new), target.version)

    def _update_status(self, target: Target, obj: Json, old: Json, dry_run: bool) -> Json:
        _check_unmoved(target, obj, old)
        new = {name: value for name, value in old.items() if name != "status"}
        if obj.get("status") is not None:
            new["status"] = obj["status"]
        try:
            read(target.info.model, convert(new, target.version))
        except Invalid as error:
            raise _refusal(target, error) from None
        return convert(new if dry_run else self._write(target.key, new), target.version)

    def _write(self, key: ObjectKey, obj: Json) -> Json:
        """Write what differs from what is there; an object that is going and has no finalizers left is removed."""
        old = self._store.get(key)
        if old is not None and _bare(old) == _bare(obj):
            return old
        if "deletionTimestamp" in obj["metadata"] and not obj["metadata"].get("finalizers"):
            self._remove(key)
            return obj
        return self._store.put(key, obj)

    def _delete(self, key: ObjectKey, obj: Json, dry_run: bool) -> Json | None:
        if not obj["metadata"].get("finalizers"):
            if not dry_run:
                self._remove(key)
            return None
        if "deletionTimestamp" in obj["metadata"]:
            return obj
        marked = on_delete(obj, self._clock.now())
        return marked if dry_run else self._store.put(key, marked)

    def _remove(self, key: ObjectKey) -> None:
        self._store.remove(key)
        self.collect_garbage()


def _info(key: ObjectKey) -> KindInfo:
    return next(info for info in KINDS if (info.group, info.kind) == (key.group, key.kind))


def _placed(target: Target, obj: Json) -> tuple[Target, Json]:
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


def _same_place(target: Target, obj: Json) -> None:
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


def _check_unmoved(target: Target, obj: Json, old: Json) -> None:
    """A resourceVersion or uid in what is sent must be that of the object."""
    for field, text in (("resourceVersion", "the object has been modified"), ("uid", "the object is another one by now")):
        given = obj["metadata"].get(field)
        if given and given != old["metadata"][field]:
            raise conflict(
                target.info.plural,
                target.name,
                f"{text} ({field} is {old['metadata'][field]}, not {given}); read it anew and try again",
            )


def _check_preconditions(target: Target, old: Json, preconditions: Mapping[str, Any]) -> None:
    for field in ("uid", "resourceVersion"):
        if preconditions.get(field) and preconditions[field] != old["metadata"][field]:
            raise conflict(target.info.plural, target.name, f"the precondition {field} {preconditions[field]} does not hold")


def _patched(obj: Json, patch: Json) -> Json:
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


def _with_finalizers(obj: Json, finalizers: list[str]) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "finalizers"}
    return {**obj, "metadata": metadata | ({"finalizers": finalizers} if finalizers else {})}


def _bare(obj: Json) -> Json:
    return {**obj, "metadata": _unversioned(obj["metadata"])}


def _refusal(target: Target, error: Invalid) -> Failure:
    causes = [_cause(path, fault) for fault in error.errors for path in fault.paths or ("",)]
    return invalid(target.info.kind, target.name, causes, target.info.group)


def _cause(path: str, fault: FieldError) -> Cause:
    reasons = {"missing field(s)": "FieldValueRequired", "unknown field(s)": "FieldValueForbidden"}
    text = f"{fault.message} ({fault.details})" if fault.details else fault.message
    return Cause(path, text, reasons.get(fault.message, "FieldValueInvalid"))
