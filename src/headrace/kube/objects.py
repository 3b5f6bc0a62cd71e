"""What the operator does to objects of the cluster: finalizers, statuses, objects of its own, events."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
_ATTEMPTS = 8


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

        def with_it(obj: Json) -> list[str]:
            finalizers = list(obj["metadata"].get("finalizers") or [])
            going = "deletionTimestamp" in obj["metadata"]
            return finalizers if going or finalizer in finalizers else [*finalizers, finalizer]

        if not self._change_finalizers(key, uid, with_it):
            raise Retriable("is another object by now", subject=str(key))

    def remove_finalizer(self, key: ObjectKey, uid: str, finalizer: str) -> None:
        """Remove it; an object that was only waiting for that is gone."""

        def without_it(obj: Json) -> list[str]:
            return [other for other in obj["metadata"].get("finalizers") or [] if other != finalizer]

        if not self._change_finalizers(key, uid, without_it):
            self._mirrors.forget(key)

    def create_owned(self, manifest: Json) -> None:
        """Create an object of the control plane's own; that it is there already is fine."""
        group, _, version = manifest["apiVersion"].rpartition("/")
        metadata = manifest["metadata"]
        key = ObjectKey(group, manifest["kind"], metadata["namespace"], metadata["name"])
        place = replace(self._places.of(key), version=version)
        try:
            self._api.create(place.collection(key.namespace), manifest)
        except Refused as error:
            if error.reason != "AlreadyExists":
                raise
        # Read in the version that is mirrored, which may be another than that of the manifest.
        self._mirrors.note(self._api.get(self._path(key)))

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

    def _change_finalizers(self, key: ObjectKey, uid: str, change: Callable[[Json], list[str]]) -> bool:
        """Whether the object with this uid is there. Others change it as well: what they did meanwhile is looked at again."""
        for _ in range(_ATTEMPTS):
            obj = self._api.find(self._path(key))
            if obj is None or obj["metadata"]["uid"] != uid:
                return False
            finalizers = change(obj)
            if finalizers == (obj["metadata"].get("finalizers") or []):
                return True
            version = obj["metadata"]["resourceVersion"]
            patch = [
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
            ]
            try:
                self._mirrors.note(self._api.patch(self._path(key), patch, JSON_PATCH))
                return True
            except Refused as error:
                if error.code not in (409, 422):
                    raise
        raise Retriable("is changed all the time", subject=str(key))

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
