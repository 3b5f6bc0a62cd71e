"""Keeps the data plane's objects as they should be: applies what differs, deletes what nobody needs any more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.control.model import Json, ObjectKey
from headrace.kube import labels
from headrace.kube.api import APPLY_PATCH, Api, Refused
from headrace.kube.mirror import Mirrors
from headrace.kube.places import DEPLOYMENT, POD, Places

log = get_logger(__name__)
AUTH_VERSION = "headrace.dev/kafka-auth"


class Upkeep:
    """`keep` is given all objects that should be; those of ours in `namespace` that are not among them go."""

    def __init__(self, api: Api, places: Places, mirrors: Mirrors, namespace: str, deployment: str) -> None:
        self._api = api
        self._places = places
        self._mirrors = mirrors
        self._namespace = namespace
        self._deployment = deployment
        self._owners: list[Json] | None = None
        self._applied: dict[ObjectKey, tuple[str, str]] = {}
        self.problems: dict[ObjectKey, str] = {}

    def owners(self) -> list[Json]:
        """The operator's own Deployment, with which all goes; none outside of a cluster."""
        if self._owners is None:
            found = self._api.find(DEPLOYMENT.path(self._namespace, self._deployment)) if self._deployment else None
            self._owners = [_owner(found)] if found is not None else []
        return self._owners

    def auth_version(self, secret: str) -> str:
        """Changes with the content of the Secret that opens the installation's Kafka: its pods start anew then."""
        found = self._mirrors.get(ObjectKey("", "Secret", self._namespace, secret)) if secret else None
        data = json.dumps((found or {}).get("data") or {}, sort_keys=True)
        return hashlib.sha256(data.encode()).hexdigest()[:16]

    def keep(self, wanted: Iterable[Json]) -> None:
        """Apply and delete. What can't be done is logged once and tried again in the next round."""
        objects = {_key(obj): obj for obj in wanted}
        for key, obj in objects.items():
            self._guarded(key, lambda key=key, obj=obj: self._apply(key, obj))  # type: ignore[misc]
        for key, there in self._mirrors.objects().items():
            if key not in objects and _is_planes(there) and (key.namespace == self._namespace):
                self._guarded(key, lambda key=key, uid=there["metadata"]["uid"]: self._delete(key, uid))  # type: ignore[misc]

    def refresh_pods(self, names: Iterable[str], generation: int) -> None:
        """Touch the pods of these Deployments, so that the kubelet looks at their volumes at once."""
        patch = {"metadata": {"annotations": {labels.VOLUME_GENERATION: str(generation)}}}
        for name in names:
            try:
                query = {"labelSelector": f"{labels.NAME}={name}"}
                for pod in self._api.get(POD.collection(self._namespace), query).get("items", ()):
                    self._api.patch(POD.path(self._namespace, pod["metadata"]["name"]), patch)
            except Refused as error:
                log.warning("Pods could not be told of a new contract: they see it within a minute", pods=name, error=error)

    def _apply(self, key: ObjectKey, obj: Json) -> None:
        there = self._mirrors.get(key)
        digest = hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()
        if there is not None and (
            contains(there, obj) or self._applied.get(key) == (digest, there["metadata"]["resourceVersion"])
        ):
            return
        path = self._places.of(key).path(key.namespace, key.name)
        done = self._api.patch(path, obj, APPLY_PATCH)
        self._applied[key] = (digest, done["metadata"]["resourceVersion"])
        self._mirrors.note(done)
        log.info("Applied", object=key)

    def _delete(self, key: ObjectKey, uid: str) -> None:
        self._api.delete(self._places.of(key).path(key.namespace, key.name), uid)
        self._applied.pop(key, None)
        log.info("Deleted, since nobody needs it any more", object=key)

    def _guarded(self, key: ObjectKey, step: Callable[[], None]) -> None:
        try:
            step()
            self.problems.pop(key, None)
        except HeadraceError as error:
            if self.problems.get(key) != str(error):
                log.warning("An object of the data plane could not be kept up", object=key, error=error)
            self.problems[key] = str(error)


def contains(there: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there; what the server added does not matter. Lists are compared item by item."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(
            contains(there.get(name), value)
            for name, value in wanted.items()
            if name not in ("apiVersion", "kind") and value != {}
        )
    if isinstance(wanted, list):
        there = there or []
        return len(there) == len(wanted) and all(contains(one, other) for one, other in zip(there, wanted, strict=True))
    return bool(there == wanted)


def _is_planes(obj: Json) -> bool:
    tags = obj["metadata"].get("labels") or {}
    planes = tags.get(labels.COMPONENT) in ("receiver", "dispatcher") and not obj["metadata"].get("deletionTimestamp")
    return planes and tags.items() >= labels.MANAGED.items()


def _key(obj: Json) -> ObjectKey:
    metadata = obj["metadata"]
    return ObjectKey(obj["apiVersion"].rpartition("/")[0], obj["kind"], metadata["namespace"], metadata["name"])


def _owner(deployment: Json) -> Json:
    metadata = deployment["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": False,
        "blockOwnerDeletion": False,
    }
