"""The store's picture of its topic; the topic here is a list that gives each record back at once."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from headrace.control.model import ObjectKey
from headrace.standalone.failures import Failure
from headrace.standalone.store import Change, Event, Store, parse_record_key, record_key

KEY = ObjectKey("eventing.knative.dev", "Broker", "default", "orders")


class Log:
    """A topic of one partition with a reader that keeps up."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes | None]] = []
        self.readers: list[Store] = []

    def put(self, key: str, value: bytes | None) -> int:
        self.records.append((key, value))
        for store in self.readers:
            store.apply(key, value, len(self.records) - 1)
        return len(self.records) - 1

    def put_all(self, records: Any) -> int:
        return [self.put(key, value) for key, value in records][-1]


def started(log: Log, **kwargs: Any) -> Store:
    store = Store(log, **kwargs)
    for offset, (key, value) in enumerate(log.records):
        store.apply(key, value, offset)
    log.readers.append(store)
    store.claim("http://127.0.0.1:1")
    return store


def broker(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": spec,
    }


def test_the_key_of_a_record_names_the_object() -> None:
    assert record_key(KEY) == "eventing.knative.dev/Broker/default/orders"
    assert parse_record_key(record_key(KEY)) == KEY
    assert parse_record_key("/Secret/ns/s") == ObjectKey("", "Secret", "ns", "s")


def test_the_version_of_an_object_is_the_offset_of_its_record() -> None:
    log = Log()
    store = started(log)
    written = store.put(KEY, broker())
    assert written["metadata"]["resourceVersion"] == "1"
    assert store.get(KEY) == written
    assert "resourceVersion" not in json.loads(log.records[1][1] or b"")["metadata"]


def test_objects_survive_a_restart() -> None:
    log = Log()
    first = started(log)
    first.put(KEY, broker())
    other = ObjectKey("", "Secret", "default", "gone")
    first.put(other, broker())
    first.remove(other)
    log.readers.clear()
    second = started(log)
    assert second.all() == first.all()
    assert list(second.all()) == [KEY]


def test_an_older_controller_learns_that_it_has_been_replaced() -> None:
    log = Log()
    replaced: list[str] = []
    started(log, on_replaced=replaced.append)
    assert replaced == []
    started(log)
    assert replaced == ["http://127.0.0.1:1"]


def test_a_new_controller_does_not_mistake_its_predecessor_for_a_successor() -> None:
    log = Log()
    started(log)
    log.readers.clear()
    replaced: list[str] = []
    started(log, on_replaced=replaced.append)
    assert replaced == []


def test_a_watch_sees_every_change_once_and_in_order() -> None:
    store = started(Log())
    first = store.put(KEY, broker())
    seen: list[Event] = []
    past, unsubscribe = store.subscribe(seen.append, since=int(first["metadata"]["resourceVersion"]) - 1)
    store.put(KEY, broker(delivery={}))
    store.remove(KEY)
    unsubscribe()
    store.put(KEY, broker())
    assert [event.change for event in past] == [Change.ADDED]
    assert [event.change for event in seen] == [Change.MODIFIED, Change.DELETED]
    assert seen[1].object["spec"] == {"delivery": {}}
    assert int(seen[1].object["metadata"]["resourceVersion"]) == seen[1].version


def test_a_watch_from_before_this_controller_is_told_to_list_again() -> None:
    log = Log()
    before = started(log).put(KEY, broker())
    log.readers.clear()
    store = started(log)
    with pytest.raises(Failure) as refused:
        store.subscribe(lambda event: None, since=int(before["metadata"]["resourceVersion"]))
    assert refused.value.code == 410


def test_a_watch_from_a_forgotten_version_is_told_to_list_again() -> None:
    store = started(Log())
    version = int(store.put(KEY, broker())["metadata"]["resourceVersion"])
    for count in range(5000):
        store.put(KEY, broker(count=count))
    with pytest.raises(Failure):
        store.subscribe(lambda event: None, since=version)
    past, _ = store.subscribe(lambda event: None, since=store.version - 4000)
    assert len(past) == 4000


def test_a_record_that_cannot_be_read_is_skipped() -> None:
    log = Log()
    store = started(log)
    store.put(KEY, broker())
    for value in (b"{", b"[]", b"null"):
        log.put(record_key(KEY), value)
    log.put("nonsense", b"{}")
    assert store.get(KEY) is not None
    assert store.get(KEY)["spec"] == {}  # type: ignore[index]
    assert store.version == len(log.records) - 1


def test_a_write_returns_only_after_it_was_read_back() -> None:
    class Slow(Log):
        def put_all(self, records: Any) -> int:
            offset = len(self.records)
            batch = list(records)
            self.records += batch
            for index, (key, value) in enumerate(batch):
                threading.Timer(0.05, self.readers[0].apply, (key, value, offset + index)).start()
            return offset + len(batch) - 1

        def put(self, key: str, value: bytes | None) -> int:
            return self.put_all([(key, value)])

    store = started(Slow())
    store.put(KEY, broker())
    assert store.get(KEY) is not None
