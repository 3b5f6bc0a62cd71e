"""Copies of what the API server has: one list and watch per kind, in a thread each.

An object that was written here is put into its copy at once (`note`), so that a decision never rests on what was before one's own write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.control.model import Json, ObjectKey
from headrace.kube.api import Api, Refused
from headrace.kube.places import Place, Places

log = get_logger(__name__)
_WATCH_SECONDS = 240
_PAGE = "500"
_RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
_GONE = 410
_REMEMBERED = 10_000


class Mirror:
    """The objects of one kind. `query` narrows them (`fieldSelector`, `labelSelector`); `namespace` as well."""

    def __init__(
        self,
        api: Api,
        place: Place,
        on_change: Callable[[], None],
        query: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> None:
        self._api = api
        self.place = place
        self._path = place.collection(namespace)
        self._on_change = on_change
        self._query = dict(query or {})
        self._lock = threading.Lock()
        self._objects: dict[ObjectKey, Json] = {}
        self._removed: dict[str, None] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mirror {place.plural}", daemon=True)
        self.synced = threading.Event()
        self.problem = ""

    def start(self) -> Mirror:
        self._thread.start()
        return self

    def close(self) -> None:
        """Follow no more; a watch that is open ends by itself."""
        self._closing.set()

    def objects(self) -> dict[ObjectKey, Json]:
        """All of them; the values are not changed afterwards."""
        with self._lock:
            return dict(self._objects)

    def get(self, key: ObjectKey) -> Json | None:
        with self._lock:
            return self._objects.get(key)

    def note(self, obj: Json) -> None:
        """An answer to a write of our own."""
        self._take(obj, removed=_is_gone(obj))

    def forget(self, key: ObjectKey) -> None:
        """An object that a request has found to be gone."""
        with self._lock:
            known = self._objects.pop(key, None)
        if known is not None:
            self._on_change()

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                version = self._list()
                failures, self.problem = 0, ""
                self.synced.set()
                self._follow(version)
            except HeadraceError as error:
                if str(error) != self.problem:
                    log.warning("A watch failed, it begins again", resources=self.place.plural, error=error)
                self.problem = str(error)
                self._closing.wait(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    def _list(self) -> str:
        found: dict[ObjectKey, Json] = {}
        query = {**self._query, "limit": _PAGE}
        while True:
            page = self._api.get(self._path, query)
            for item in page.get("items", ()):
                obj = {"apiVersion": self.place.api_version, "kind": self.place.kind, **item}
                found[self._key(obj)] = obj
            more = page["metadata"].get("continue")
            if not more:
                break
            query["continue"] = more
        with self._lock:
            for key, obj in found.items():
                known = self._objects.get(key)
                if known is not None and _version(known) >= _version(obj):
                    found[key] = known
            changed = found != self._objects
            self._objects = found
        if changed:
            self._on_change()
        return str(page["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        while not self._closing.is_set():
            for event in self._api.watch(self._path, {**self._query, "resourceVersion": version}, _WATCH_SECONDS):
                obj = event["object"]
                if event["type"] == "ERROR":
                    if obj.get("code") == _GONE:
                        return
                    raise Refused(int(obj.get("code", 0)), "", str(obj.get("message")), subject=self._path)
                version = str(obj["metadata"]["resourceVersion"])
                if event["type"] != "BOOKMARK":
                    self._take(obj, removed=event["type"] == "DELETED")
                if self._closing.is_set():
                    return

    def _take(self, obj: Json, *, removed: bool) -> None:
        key = self._key(obj)
        uid = str(obj["metadata"].get("uid", ""))
        with self._lock:
            known = self._objects.get(key)
            if removed:
                self._removed[uid] = None
                if len(self._removed) > _REMEMBERED:
                    self._removed.pop(next(iter(self._removed)))
                if known is None or known["metadata"].get("uid") != uid:
                    return
                del self._objects[key]
            else:
                if uid in self._removed or (known is not None and _version(known) >= _version(obj)):
                    return
                self._objects[key] = obj
        self._on_change()

    def _key(self, obj: Json) -> ObjectKey:
        metadata = obj["metadata"]
        return ObjectKey(self.place.group, self.place.kind, metadata.get("namespace", ""), metadata["name"])


class Mirrors:
    """The mirrors of the kinds that are always followed, and of those that objects refer to, begun when they first do."""

    def __init__(self, api: Api, places: Places, on_change: Callable[[], None], fixed: Iterable[Mirror]) -> None:
        self._api = api
        self._places = places
        self._on_change = on_change
        self._lock = threading.Lock()
        self._by_kind = {(mirror.place.group, mirror.place.kind): mirror for mirror in fixed}
        self._absent: set[tuple[str, str]] = set()

    def start(self) -> None:
        for mirror in self._all():
            mirror.start()

    def close(self) -> None:
        for mirror in self._all():
            mirror.close()

    def unsynced(self) -> list[str]:
        """The kinds of which not everything is known yet."""
        return [m.place.plural + (f" ({m.problem})" if m.problem else "") for m in self._all() if not m.synced.is_set()]

    def of(self, key: ObjectKey) -> Mirror | None:
        with self._lock:
            return self._by_kind.get((key.group, key.kind))

    def get(self, key: ObjectKey) -> Json | None:
        mirror = self.of(key)
        return None if mirror is None else mirror.get(key)

    def note(self, obj: Json) -> None:
        """An answer to a write of our own."""
        group = obj["apiVersion"].rpartition("/")[0]
        mirror = self.of(ObjectKey(group, obj["kind"], "", ""))
        if mirror is not None and obj["apiVersion"] == mirror.place.api_version:
            mirror.note(obj)

    def forget(self, key: ObjectKey) -> None:
        mirror = self.of(key)
        if mirror is not None:
            mirror.forget(key)

    def objects(self) -> dict[ObjectKey, Json]:
        """Everything that is known."""
        return {key: obj for mirror in self._all() for key, obj in mirror.objects().items()}

    def follow(self, references: Iterable[ObjectKey]) -> None:
        """Begin to watch the kinds of these objects."""
        for group, kind in {(key.group, key.kind) for key in references}:
            with self._lock:
                known = (group, kind) in self._by_kind
            if known:
                continue
            place = self._places.find(group, kind)
            with self._lock:
                if place is None:
                    self._absent.add((group, kind))
                    continue
                self._absent.discard((group, kind))
                mirror = self._by_kind[group, kind] = Mirror(self._api, place, self._on_change)
            mirror.start()
            log.info("Following a kind that objects refer to", group=group, kind=kind)

    def looked_up(self, references: Iterable[ObjectKey]) -> frozenset[ObjectKey]:
        """Those of the references that are known not to be there."""
        absent = set()
        for key in references:
            mirror = self.of(key)
            if mirror is None:
                if (key.group, key.kind) in self._absent:
                    absent.add(key)
            elif (mirror.synced.is_set() and mirror.get(key) is None) or _forbidden(mirror):
                absent.add(key)
        return frozenset(absent)

    def _all(self) -> list[Mirror]:
        with self._lock:
            return list(self._by_kind.values())


def _forbidden(mirror: Mirror) -> bool:
    return not mirror.synced.is_set() and "forbidden" in mirror.problem


def _version(obj: Json) -> int:
    try:
        return int(obj["metadata"]["resourceVersion"])
    except (KeyError, ValueError):
        return -1


def _is_gone(obj: Json) -> bool:
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("finalizers")
