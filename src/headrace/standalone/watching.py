"""A watch as a stream of JSON lines: the changes of a kind from a version on, seen through a selector."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from headrace.core.resources.admission import convert
from headrace.standalone.failures import Failure
from headrace.standalone.placing import Target
from headrace.standalone.selectors import Matcher
from headrace.standalone.store import Change, Event, Store

Json = dict[str, Any]
_QUEUED = 10_000
_BOOKMARK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched: `target` without a name; namespace empty for all. `since`: None begins with all that is there.

    `shape` makes the object of an event what the client asked for (itself, or a Table). `seconds`: how long.
    """

    target: Target
    since: int | None
    selected: Matcher
    shape: Callable[[Json], Json]
    seconds: float
    bookmarks: bool


class Watches:
    """All open watches of a server; `close` ends them, so that the server can stop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: set[asyncio.Queue[Event | None]] = set()

    def close(self) -> None:
        """End every stream. Call it in the loop that serves them."""
        for queue in tuple(self._queues):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    def open(self, watch: Watch) -> AsyncIterator[bytes]:
        """The lines of the stream. Raises `Failure` 410 at once when the version is forgotten."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=_QUEUED)

        def put(event: Event | None) -> None:
            if queue.full():
                # Too slow to follow: it has to list again.
                queue.get_nowait()
                event = None
            queue.put_nowait(event)

        def listener(event: Event) -> None:
            try:
                loop.call_soon_threadsafe(put, event)
            except RuntimeError:
                pass

        # Subscribed before the list is taken: what falls between comes twice, and is dropped by its version.
        past, unsubscribe = self._store.subscribe(listener, watch.since)
        self._queues.add(queue)

        def leave() -> None:
            unsubscribe()
            self._queues.discard(queue)

        return self._stream(watch, past, queue, leave)

    async def _stream(
        self, watch: Watch, past: list[Event], queue: asyncio.Queue[Event | None], leave: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        try:
            seen = -1 if watch.since is None else watch.since
            if watch.since is None:
                info = watch.target.info
                objects, seen = self._store.select(info.group, info.kind, watch.target.namespace or None)
                for obj in objects:
                    if watch.selected(obj):
                        yield self._line(watch, "ADDED", obj)
            for event in past:
                seen = event.version
                if (line := self._seen(watch, event)) is not None:
                    yield line
            async for line in self._live(watch, queue, seen):
                yield line
        finally:
            leave()

    async def _live(self, watch: Watch, queue: asyncio.Queue[Event | None], seen: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + watch.seconds
        while (left := end - loop.time()) > 0:
            try:
                event = await asyncio.wait_for(queue.get(), min(left, _BOOKMARK_SECONDS))
            except TimeoutError:
                if watch.bookmarks:
                    yield self._bookmark(watch, seen)
                continue
            if event is None:
                return
            if event.version > seen:
                seen = event.version
                if (line := self._seen(watch, event)) is not None:
                    yield line

    def _seen(self, watch: Watch, event: Event) -> bytes | None:
        """The line of an event as this watch sees it: an object may come into or leave what is selected."""
        target, key = watch.target, event.key
        if (key.group, key.kind) != (target.info.group, target.info.kind) or target.namespace not in ("", key.namespace):
            return None
        before = event.previous is not None and watch.selected(event.previous)
        after = event.change is not Change.DELETED and watch.selected(event.object)
        if not before and not after:
            return None
        change = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
        return self._line(watch, change, event.object)

    def _line(self, watch: Watch, change: str, obj: Json) -> bytes:
        return _encode({"type": change, "object": watch.shape(convert(obj, watch.target.version))})

    def _bookmark(self, watch: Watch, version: int) -> bytes:
        info, target = watch.target.info, watch.target
        marker = {
            "kind": info.kind,
            "apiVersion": info.api_version(target.version),
            "metadata": {"resourceVersion": str(version)},
        }
        return _encode({"type": "BOOKMARK", "object": marker})


def error_line(failure: Failure) -> bytes:
    """The line that tells a watcher why its stream ends."""
    return _encode({"type": "ERROR", "object": failure.status()})


def _encode(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
