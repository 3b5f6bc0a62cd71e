"""The verbs on objects, with the meaning that a Kubernetes API server gives them: admission, versions, generations, finalizers.

Users come through `create`, `replace`, `patch`, `replace_status` and `delete`; the control plane through the rest, under a name that may
change what users may not. Objects are stored in the storage version of their kind and given out in the version asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.base.clock import Clock
from headrace.base.errors import Retriable
from headrace.control.model import ObjectKey
from headrace.core.resources.admission import admit, convert
from headrace.core.resources.base import read
from headrace.core.resources.invalid import Invalid
from headrace.core.resources.registry import KINDS, KindInfo, by_kind
from headrace.core.resources.rules import Rules
from headrace.standalone.failures import Cause, Failure, already_exists, bad_request, invalid, not_found
from headrace.standalone.metadata import on_create, on_delete, on_update
from headrace.standalone.placing import (
    Target,
    bare,
    check_preconditions,
    check_unmoved,
    patched,
    placed,
    refusal,
    same_place,
    with_finalizers,
)
from headrace.standalone.store import Store

Json = dict[str, Any]
CONTROLLER = "headrace:controller"
USER = "headrace:user"


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
        target, obj = placed(target, obj)
        admitted = self._admit(target, obj, None, user)
        with self._store.writing():
            if self._store.get(target.key) is not None:
                raise already_exists(target.info.plural, target.name, target.info.group)
            made = on_create(admitted, self._clock.now(), counted=target.info.has_status)
            return convert(made if dry_run else self._write(target.key, made), target.version)

    def replace(self, target: Target, obj: Json, *, dry_run: bool = False) -> Json:
        """Put `obj` in the place of the object; its status stays."""
        same_place(target, obj)
        with self._store.writing():
            return self._update(target, obj, self._existing(target), USER, dry_run)

    def patch(self, target: Target, patch: Json, *, dry_run: bool = False) -> Json:
        """Apply a JSON merge patch; the status stays."""
        with self._store.writing():
            old = self._existing(target)
            new = patched(convert(old, target.version), patch)
            same_place(target, new)
            return self._update(target, new, old, USER, dry_run)

    def replace_status(self, target: Target, obj: Json, *, dry_run: bool = False) -> Json:
        """Take the status of `obj` and nothing else."""
        same_place(target, obj)
        with self._store.writing():
            return self._update_status(target, obj, self._existing(target), dry_run)

    def patch_status(self, target: Target, patch: Json, *, dry_run: bool = False) -> Json:
        """Apply a JSON merge patch to the object and take the status of the result."""
        with self._store.writing():
            old = self._existing(target)
            new = patched(convert(old, target.version), patch)
            same_place(target, new)
            return self._update_status(target, new, old, dry_run)

    def delete(self, target: Target, options: Mapping[str, Any], *, dry_run: bool = False) -> Json | None:
        """Remove the object, or mark it while it has finalizers (then it is returned). `options`: `preconditions`."""
        with self._store.writing():
            old = self._existing(target)
            check_preconditions(target, old, options.get("preconditions") or {})
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
                self._write(key, with_finalizers(obj, [*finalizers, finalizer]))

    def remove_finalizer(self, key: ObjectKey, uid: str, finalizer: str) -> None:
        """Remove it; an object that was only waiting for that is forgotten."""
        with self._store.writing():
            obj = self._store.get(key)
            if obj is None or obj["metadata"]["uid"] != uid:
                return
            left = [other for other in obj["metadata"].get("finalizers", []) if other != finalizer]
            self._write(key, with_finalizers(obj, left))

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
            self._update(Target(info, info.storage, key.namespace, key.name), patched(old, patch), old, CONTROLLER, False)

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
            raise refusal(target, error) from None

    def _update(self, target: Target, obj: Json, old: Json, user: str, dry_run: bool) -> Json:
        check_unmoved(target, obj, old)
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
        check_unmoved(target, obj, old)
        new = {name: value for name, value in old.items() if name != "status"}
        if obj.get("status") is not None:
            new["status"] = obj["status"]
        try:
            read(target.info.model, convert(new, target.version))
        except Invalid as error:
            raise refusal(target, error) from None
        return convert(new if dry_run else self._write(target.key, new), target.version)

    def _write(self, key: ObjectKey, obj: Json) -> Json:
        """Write what differs from what is there; an object that is going and has no finalizers left is removed."""
        old = self._store.get(key)
        if old is not None and bare(old) == bare(obj):
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
