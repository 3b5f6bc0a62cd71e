"""What the control plane does to objects, and what both sides may rely on; the store's topic is a list."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.base.clock import VirtualClock
from headrace.base.errors import Retriable
from headrace.control.model import ObjectKey
from headrace.core.resources.registry import CHANNEL, CONFIG_MAP, KAFKA_CHANNEL
from headrace.standalone.failures import Failure
from headrace.standalone.home import home_rules
from headrace.standalone.placing import Target
from headrace.standalone.registry import Registry
from headrace.standalone.store import Store

KEY = ObjectKey("", "ConfigMap", "default", "settings")
MAPS = Target(CONFIG_MAP, "v1", "default")
ONE = Target(CONFIG_MAP, "v1", "default", "settings")


class Log:
    """A topic of one partition that gives each record back at once."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.count = 0

    def put_all(self, records: Any) -> int:
        assert self.store is not None
        for key, value in records:
            self.store.apply(key, value, self.count)
            self.count += 1
        return self.count - 1


class Home:
    def __init__(self) -> None:
        self.log = Log()
        self.store = Store(self.log)
        self.log.store = self.store
        self.clock = VirtualClock()
        self.registry = Registry(self.store, home_rules(), self.clock)

    def make(self, name: str = "settings", **metadata: Any) -> dict[str, Any]:
        return self.registry.create(MAPS, {"metadata": {"name": name, **metadata}})


@pytest.fixture
def home() -> Home:
    return Home()


def test_statuses_are_written_in_one_go_and_only_where_they_differ(home: Home) -> None:
    channel = home.registry.create(Target(KAFKA_CHANNEL, "v1", "default"), {"metadata": {"name": "c"}})
    key = ObjectKey("messaging.knative.dev", "KafkaChannel", "default", "c")
    before = home.log.count
    status = {"observedGeneration": 1}
    home.registry.write_statuses({key: status, ObjectKey("", "ConfigMap", "default", "gone"): status})
    home.registry.write_statuses({key: status})
    assert home.log.count == before + 1
    stored = home.store.get(key)
    assert stored is not None
    assert stored["status"] == status
    assert stored["metadata"]["generation"] == channel["metadata"]["generation"]
    # A status does not count as a change of the spec, nor does a later update lose it.
    after = home.registry.replace(
        Target(KAFKA_CHANNEL, "v1", "default", "c"), {"metadata": {"name": "c", "labels": {"a": "b"}}}
    )
    assert after["status"] == status
    assert after["metadata"]["generation"] == 1


def test_an_object_is_stored_in_its_storage_version(home: Home) -> None:
    home.registry.create(Target(KAFKA_CHANNEL, "v1", "default"), {"metadata": {"name": "c"}})
    stored = home.store.get(ObjectKey("messaging.knative.dev", "KafkaChannel", "default", "c"))
    assert stored is not None
    assert stored["apiVersion"] == "messaging.knative.dev/v1beta1"


def test_a_finalizer_is_added_once_and_its_removal_lets_the_object_go(home: Home) -> None:
    uid = home.make()["metadata"]["uid"]
    home.registry.add_finalizer(KEY, uid, "x/f")
    home.registry.add_finalizer(KEY, uid, "x/f")
    assert home.registry.get(ONE)["metadata"]["finalizers"] == ["x/f"]
    assert home.registry.delete(ONE, {}) is not None
    assert home.registry.delete(ONE, {}) is not None
    home.registry.remove_finalizer(KEY, "another uid", "x/f")
    assert home.store.get(KEY) is not None
    home.registry.remove_finalizer(KEY, uid, "x/f")
    assert home.store.get(KEY) is None
    home.registry.remove_finalizer(KEY, uid, "x/f")


def test_a_finalizer_is_not_added_to_another_object_of_the_same_name(home: Home) -> None:
    uid = home.make()["metadata"]["uid"]
    home.registry.delete(ONE, {})
    home.make()
    with pytest.raises(Retriable):
        home.registry.add_finalizer(KEY, uid, "x/f")


def test_a_finalizer_is_not_added_to_what_is_being_deleted(home: Home) -> None:
    uid = home.make(finalizers=["x/first"])["metadata"]["uid"]
    home.registry.delete(ONE, {})
    home.registry.add_finalizer(KEY, uid, "x/late")
    assert home.registry.get(ONE)["metadata"]["finalizers"] == ["x/first"]


def test_creating_what_is_there_already_is_fine_for_the_control_plane(home: Home) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    home.registry.create_owned(manifest)
    uid = home.registry.get(ONE)["metadata"]["uid"]
    home.registry.create_owned(manifest)
    assert home.registry.get(ONE)["metadata"]["uid"] == uid


def test_the_control_plane_may_write_subscribers_and_users_may_not(home: Home) -> None:
    target = Target(KAFKA_CHANNEL, "v1", "default")
    made = home.registry.create(target, {"metadata": {"name": "c"}})
    key = ObjectKey("messaging.knative.dev", "KafkaChannel", "default", "c")
    patch = {"spec": {"subscribers": [{"uid": "1", "subscriberUri": "http://s.example"}]}}
    one = Target(KAFKA_CHANNEL, "v1", "default", "c")
    with pytest.raises(Failure, match="subscribers"):
        home.registry.patch(one, patch)
    metadata = made["metadata"]
    home.registry.patch_owned(key, metadata["uid"], patch)
    assert home.registry.get(one)["spec"]["subscribers"][0]["uid"] == "1"
    with pytest.raises(Retriable):
        home.registry.patch_owned(key, "another uid", patch)
    # A user's update that leaves them alone is fine.
    home.registry.patch(one, {"metadata": {"labels": {"a": "b"}}})


def test_garbage_goes_when_the_last_of_its_owners_is_gone(home: Home) -> None:
    owners = [home.make(name)["metadata"] for name in ("a", "b")]
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]} for owner in owners]
    home.make("owned", ownerReferences=references)
    chained = home.registry.get(Target(CONFIG_MAP, "v1", "default", "owned"))["metadata"]
    home.make("chained", ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "owned", "uid": chained["uid"]}])
    home.registry.delete(Target(CONFIG_MAP, "v1", "default", "a"), {})
    assert len(home.store.all()) == 3
    home.registry.delete(Target(CONFIG_MAP, "v1", "default", "b"), {})
    assert home.store.all() == {}


def test_deletion_counts_as_a_change_of_the_generation(home: Home) -> None:
    home.registry.create(Target(CHANNEL, "v1", "default"), {"metadata": {"name": "c", "finalizers": ["x/f"]}})
    marked = home.registry.delete(Target(CHANNEL, "v1", "default", "c"), {})
    assert marked is not None
    assert marked["metadata"]["generation"] == 2
    assert marked["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
