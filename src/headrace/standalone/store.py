"""The objects, as the compacted topic `<instance>.resources` holds them: the topic is the truth, this is its picture in memory.

A write is produced, then waited for until it comes back from the topic; so memory holds nothing that Kafka has not. The
`resourceVersion` of an object is the offset of its record. Keys with a leading `@` are the store's own: `@controller` names the
controller in force, and one that reads another's record there knows that it has been replaced.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from headrace.base.clock import Deadline
from headrace.base.errors import Retriable
from headrace.base.log import get_logger
from headrace.control.model import ObjectKey
from headrace.standalone.failures import expired

log = get_logger(__name__)
Json = dict[str, Any]
CONTROLLER_KEY = "@controller"
_REMEMBERED = 4096
_APPLY_SECONDS = 10.0


class Writer(Protocol):
    """Writes records durably, all or none, and returns the offset of the last (`kafka.table.TableWriter`)."""

    def put_all(self, records: Iterable[tuple[str, bytes | None]]) -> int: ...


def record_key(key: ObjectKey) -> str:
    """The key of the object's record: `group/kind/namespace/name`."""
    return f"{key.group}/{key.kind}/{key.namespace}/{key.name}"


def parse_record_key(text: str) -> ObjectKey:
    """The inverse of `record_key`; raises `ValueError`."""
    group, kind, namespace, name = text.split("/")
    return ObjectKey(group, kind, namespace, name)


class Change(StrEnum):
    """What happened to an object, in the words of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `object` is the new object, or for DELETED the last one with the deletion's version; `previous` what it was before."""

    version: int
    change: Change
    key: ObjectKey
    object: Json
    previous: Json | None


Listener = Callable[[Event], None]
"""Called in the reader's thread for each change, in order; must return at once."""


class Store:
    """Objects handed out are shared: never change them. `on_replaced` is called once another controller took over."""

    def __init__(self, writer: Writer, on_replaced: Callable[[str], None] = lambda by: None) -> None:
        self.identity = str(uuid.uuid4())
        self._writer = writer
        self._on_replaced = on_replaced
        self._writing = threading.RLock()
        self._changed = threading.Condition()
        self._objects: dict[ObjectKey, Json] = {}
        self._version = -1
        self._floor = -1
        self._history: deque[Event] = deque(maxlen=_REMEMBERED)
        self._listeners: list[Listener] = []
        self._claimed = False

    @property
    def version(self) -> int:
        """Offset of the last record applied."""
        with self._changed:
            return self._version

    def claim(self, address: str) -> None:
        """Say in the topic that this controller is in force, and wait until the whole topic up to there is applied."""
        self._floor = self._put({CONTROLLER_KEY: {"identity": self.identity, "address": address}})

    def apply(self, key: str, value: bytes | None, offset: int) -> None:
        """Take a record of the topic in (the reader calls this). A record that can't be read is logged and skipped."""
        try:
            event = self._event(key, value, offset)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.error("Skipped a record of the store that cannot be read", key=key, offset=offset, error=error)
            event = None
        with self._changed:
            self._version = offset
            if event is not None:
                self._remember(event)
            self._changed.notify_all()
            listeners = tuple(self._listeners)
        if event is not None:
            for listener in listeners:
                listener(event)

    def get(self, key: ObjectKey) -> Json | None:
        """The object, or None."""
        with self._changed:
            return self._objects.get(key)

    def select(self, group: str, kind: str, namespace: str | None = None) -> tuple[list[Json], int]:
        """The objects of a kind, sorted by namespace and name, and the version at which that was so."""
        with self._changed:
            found = [
                (key, obj)
                for key, obj in self._objects.items()
                if key.group == group and key.kind == kind and namespace in (None, key.namespace)
            ]
            return [obj for _, obj in sorted(found, key=lambda item: (item[0].namespace, item[0].name))], self._version

    def all(self) -> dict[ObjectKey, Json]:
        """Every object."""
        with self._changed:
            return dict(self._objects)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Held from reading an object to writing it back, so that nothing comes between."""
        with self._writing:
            yield

    def put(self, key: ObjectKey, obj: Json) -> Json:
        """Write an object (its resourceVersion is dropped) and return it as it is now in force."""
        return _versioned(obj, self.put_all({key: obj}))

    def put_all(self, objects: Mapping[ObjectKey, Json]) -> int:
        """Write several objects in one go; the offset of the last."""
        return self._put({record_key(key): _unversioned(obj) for key, obj in objects.items()})

    def remove(self, key: ObjectKey) -> None:
        """Write the object's tombstone."""
        self._put({record_key(key): None})

    def subscribe(self, listener: Listener, since: int | None = None) -> tuple[list[Event], Callable[[], None]]:
        """The changes after version `since` (None: none of them), all later ones to `listener`, and how to end that.

        Raises `Failure` 410 when `since` is older than what is remembered.
        """
        with self._changed:
            if since is not None and since < self._floor:
                raise expired(since)
            past = [] if since is None else [event for event in self._history if event.version > since]
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._changed:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return past, unsubscribe

    def _put(self, values: Mapping[str, Json | None]) -> int:
        with self._writing:
            offset = self._writer.put_all([(key, None if value is None else _encode(value)) for key, value in values.items()])
            deadline = Deadline(_APPLY_SECONDS)
            with self._changed:
                while self._version < offset:
                    if not self._changed.wait(deadline.remaining()) and deadline.expired:
                        raise Retriable("written to Kafka, but not read back in time", subject="store")
            return offset

    def _event(self, key: str, value: bytes | None, offset: int) -> Event | None:
        if key.startswith("@"):
            self._own_record(key, value)
            return None
        name = parse_record_key(key)
        previous = self._objects.get(name)
        if value is None:
            return None if previous is None else Event(offset, Change.DELETED, name, _versioned(previous, offset), previous)
        obj = _versioned(json.loads(value), offset)
        return Event(offset, Change.ADDED if previous is None else Change.MODIFIED, name, obj, previous)

    def _own_record(self, key: str, value: bytes | None) -> None:
        if key != CONTROLLER_KEY or value is None:
            return
        found = json.loads(value)
        if found["identity"] == self.identity:
            self._claimed = True
        elif self._claimed:
            self._on_replaced(str(found.get("address", "")))

    def _remember(self, event: Event) -> None:
        if event.change is Change.DELETED:
            self._objects.pop(event.key, None)
        else:
            self._objects[event.key] = event.object
        if len(self._history) == self._history.maxlen:
            self._floor = max(self._floor, self._history[0].version)
        self._history.append(event)


def _versioned(obj: Json, offset: int) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(offset)}}


def _unversioned(obj: Json) -> Json:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}}


def _encode(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
