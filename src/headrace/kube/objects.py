"""What the operator does to objects of the cluster: finalizers, statuses, objects of its own, events."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError, Retriable
from headrace.base.log import get_logger
from headrace.control.model import Json, Notice, ObjectKey
from headrace.core.resources.timestamps import format_time
from headrace.kube.api import JSON_PATCH, Api, Refused
from headrace.kube.mirror import Mirrors
from headrace.kube.places import EVENT, Places

log = get_logger(__name__)
_THREADS = 8


class KubeObjects:
    """Writes, each of which is seen in the mirrors as soon as it is done. Any number of threads may call it."""

    def __init__(self, api: Api, places: Places, mirrors: Mirrors, clock: Clock) -> None:
        self._api = api
        self._places = places
        self._mirrors = mirrors
        self._clock = clock
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="statuses")

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def write_statuses(self, statuses: Mapping[ObjectKey, Json]) -> None:
        """Each whole status in one update; an object that was changed meanwhile is left to the next round, which its change asks for.

        Raises the first failure, when all were tried.
        """
        pending = [self._pool.submit(self._write_status, key, status) for key, status in statuses.items()]
        failures = [error for future in pending if (error := future.exception()) is not None]
        if failures:
            raise failures[0]

    def add_finalizer(self, key: ObjectKey, uid: str, finalizer: str) -> None:
        """Add it, unless the object is another one by now, or going."""
        obj = self._of_uid(key, uid)
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers and "deletionTimestamp" not in obj["metadata"]:
            self._set_finalizers(key, obj, [*finalizers, finalizer])

    def remove_finalizer(self, key: ObjectKey, uid: str, finalizer: str) -> None:
        """Remove it; an object that was only waiting for that is gone."""
        obj = self._api.find(self._path(key))
        if obj is None or obj["metadata"]["uid"] != uid:
            self._mirrors.forget(key)
            return
        left = [other for other in obj["metadata"].get("finalizers") or [] if other != finalizer]
        self._set_finalizers(key, obj, left)

    def create_owned(self, manifest: Json) -> None:
        """Create an object of the control plane's own; that it is there already is fine."""
        group = manifest["apiVersion"].rpartition("/")[0]
        metadata = manifest["metadata"]
        key = ObjectKey(group, manifest["kind"], metadata["namespace"], metadata["name"])
        try:
            made = self._api.create(self._places.of(key).collection(key.namespace), manifest)
        except Refused as error:
            if error.reason != "AlreadyExists":
                raise
            made = self._api.get(self._path(key))
        self._mirrors.note(made)

    def patch_owned(self, key: ObjectKey, uid: str, patch: Json) -> None:
        """Merge-patch an object, if it is still the one that was meant."""
        metadata = {**patch.get("metadata", {}), "uid": uid}
        self._mirrors.note(self._api.patch(self._path(key), {**patch, "metadata": metadata}))

    def delete_owned(self, key: ObjectKey, uid: str) -> None:
        """Delete an object, if it is still the one that was meant."""
        self._api.delete(self._path(key), uid)

    def tell(self, notice: Notice) -> None:
        """An Event about the object, its count raised when it is told again. What can't be told is logged."""
        obj = self._mirrors.get(notice.key)
        if obj is None:
            return
        digest = hashlib.sha256(f"{notice.uid}/{notice.reason}/{notice.message}".encode()).hexdigest()[:16]
        name = f"{notice.key.name[:200]}.{digest}"
        now = format_time(self._clock.now())
        try:
            path = EVENT.path(notice.key.namespace, name)
            known = self._api.find(path)
            if known is not None:
                self._api.patch(path, {"count": int(known.get("count", 1)) + 1, "lastTimestamp": now})
            else:
                self._api.create(EVENT.collection(notice.key.namespace), _event(notice, obj, name, now))
        except HeadraceError as error:
            log.warning("An Event could not be written", object=notice.key, reason=notice.reason, error=error)

    def _write_status(self, key: ObjectKey, status: Json) -> None:
        obj = self._mirrors.get(key)
        if obj is None or obj.get("status") == status:
            return
        try:
            self._mirrors.note(self._api.replace(f"{self._path(key)}/status", {**obj, "status": status}))
        except Refused as error:
            if error.code == 404:
                self._mirrors.forget(key)
            elif error.code == 409:
                fresh = self._api.find(self._path(key))
                if fresh is not None:
                    self._mirrors.note(fresh)
            else:
                raise

    def _set_finalizers(self, key: ObjectKey, obj: Json, finalizers: list[str]) -> None:
        version = obj["metadata"]["resourceVersion"]
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]
        try:
            self._mirrors.note(self._api.patch(self._path(key), patch, JSON_PATCH))
        except Refused as error:
            if error.code not in (409, 422):
                raise
            raise Retriable("was changed meanwhile", subject=str(key)) from None

    def _of_uid(self, key: ObjectKey, uid: str) -> Json:
        obj = self._api.find(self._path(key))
        if obj is None or obj["metadata"]["uid"] != uid:
            raise Retriable("is another object by now", subject=str(key))
        return obj

    def _path(self, key: ObjectKey) -> str:
        return self._places.of(key).path(key.namespace, key.name)


def _event(notice: Notice, obj: Mapping[str, Any], name: str, now: str) -> Json:
    metadata = obj["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": notice.key.namespace},
        "involvedObject": {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "namespace": notice.key.namespace,
            "name": notice.key.name,
            "uid": metadata.get("uid", ""),
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "reason": notice.reason,
        "message": notice.message[:1024],
        "type": "Warning" if notice.warning else "Normal",
        "source": {"component": "headrace-controller"},
        "reportingComponent": "headrace-controller",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
