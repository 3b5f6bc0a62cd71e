"""The store on a real Kafka: what survives a restart, and what happens to the older of two controllers."""

from __future__ import annotations

from typing import Any

import httpx

from headrace.core.names import Internal
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableWriter
from tests.support.controllers import RunningController, new_instance

MAPS = "/api/v1/namespaces/default/configmaps"
Json = dict[str, Any]


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def names(http: httpx.Client) -> list[str]:
    return [item["metadata"]["name"] for item in http.get(MAPS).json()["items"]]


def test_objects_survive_a_restart_with_their_versions(kafka: KafkaSettings) -> None:
    first = RunningController(kafka)
    with first.http() as http:
        kept = http.post(MAPS, json=config_map("kept", a="1")).json()
        http.post(MAPS, json=config_map("gone"))
        http.delete(f"{MAPS}/gone")
    first.stop()
    second = RunningController(kafka, first.instance)
    with second.http() as http:
        assert http.get(f"{MAPS}/kept").json() == kept
        assert names(http) == ["kept"]
        # From before this controller: nothing is remembered of what happened since.
        old = http.get(MAPS, params={"watch": "true", "resourceVersion": kept["metadata"]["resourceVersion"]})
        assert old.status_code == 410
        assert http.put(f"{MAPS}/kept", json={**kept, "data": {"a": "2"}}).status_code == 200
    second.stop()
    assert (first.failure, second.failure) == (None, None)


def test_the_older_of_two_controllers_ends_and_says_why(kafka: KafkaSettings) -> None:
    older = RunningController(kafka)
    with older.http() as http:
        http.post(MAPS, json=config_map("a"))
    newer = RunningController(kafka, older.instance)
    assert older.join(15)
    assert older.failure is not None
    assert "another controller has taken over" in str(older.failure)
    assert newer.url in str(older.failure)
    with newer.http() as http:
        assert http.post(MAPS, json=config_map("b")).status_code == 201
        assert names(http) == ["a", "b"]
    newer.stop()
    assert newer.failure is None


def test_a_fenced_controller_writes_nothing_any_more(kafka: KafkaSettings) -> None:
    """Even one that has not noticed yet: its transactional id is taken from it."""
    running = RunningController(kafka)
    internal = Internal(running.instance)
    intruder = TableWriter(kafka, internal.resources, internal.transactional("resources"))
    intruder.init()
    with running.http() as http:
        response = http.post(MAPS, json=config_map("late"))
        assert response.status_code == 500
        assert response.json()["kind"] == "Status"
    intruder.close()
    running.stop()
    again = RunningController(kafka, running.instance)
    with again.http() as http:
        assert names(http) == []
    again.stop()


def test_the_internal_topics_have_one_partition_and_the_right_policy(kafka: KafkaSettings, admin: Admin) -> None:
    running = RunningController(kafka, new_instance())
    running.stop()
    internal = Internal(running.instance)
    for topic in (internal.resources, internal.contract, internal.progress, internal.dataplane):
        facts = admin.describe(topic)
        assert facts is not None
        assert facts.partitions == 1


def test_two_instances_on_one_kafka_do_not_see_each_other(kafka: KafkaSettings) -> None:
    one, two = RunningController(kafka), RunningController(kafka)
    with one.http() as first, two.http() as second:
        first.post(MAPS, json=config_map("a"))
        assert names(second) == []
    one.stop()
    two.stop()
    assert (one.failure, two.failure) == (None, None)
