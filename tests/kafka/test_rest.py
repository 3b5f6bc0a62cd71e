"""The REST API of the controller as its clients see it, over a real store."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import httpx
import pytest

from headrace.kafka.settings import KafkaSettings
from tests.support.controllers import RunningController
from tests.support.waiting import eventually

EVENTING = "/apis/eventing.knative.dev/v1"
Json = dict[str, Any]


@pytest.fixture
def namespace() -> str:
    """A namespace of the test's own."""
    return f"ns-{uuid.uuid4().hex[:8]}"


def broker(name: str = "orders", **metadata: Any) -> Json:
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": name, **metadata}}


def config_map(name: str = "settings", **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def maps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def brokers(namespace: str, name: str = "") -> str:
    return f"{EVENTING}/namespaces/{namespace}/brokers" + (f"/{name}" if name else "")


def status_of(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert body["kind"] == "Status"
    assert body["apiVersion"] == "v1"
    assert body["status"] == "Failure"
    assert body["code"] == response.status_code
    return response.status_code, body["reason"]


def test_a_created_object_has_an_identity_and_defaults(http: httpx.Client, namespace: str) -> None:
    response = http.post(brokers(namespace), json=broker())
    assert response.status_code == 201
    metadata = response.json()["metadata"]
    assert metadata["namespace"] == namespace
    assert metadata["generation"] == 1
    assert metadata["annotations"] == {"eventing.knative.dev/broker.class": "Kafka"}
    assert uuid.UUID(metadata["uid"])
    assert int(metadata["resourceVersion"]) > 0
    assert http.get(brokers(namespace, "orders")).json()["metadata"]["uid"] == metadata["uid"]


def test_what_a_user_says_of_server_set_fields_is_not_taken(http: httpx.Client, namespace: str) -> None:
    sent = broker(uid="mine", generation=7, creationTimestamp="2020-01-01T00:00:00Z") | {"status": {"observedGeneration": 9}}
    made = http.post(brokers(namespace), json=sent).json()
    assert made["metadata"]["uid"] != "mine"
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["creationTimestamp"] > "2026"
    assert made.get("status", {}).get("observedGeneration") != 9


def test_a_name_is_made_up_from_its_prefix(http: httpx.Client, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    names = {http.post(maps(namespace), json=body).json()["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


def test_a_second_create_is_refused(http: httpx.Client, namespace: str) -> None:
    http.post(maps(namespace), json=config_map())
    assert status_of(http.post(maps(namespace), json=config_map())) == (409, "AlreadyExists")


def test_an_update_from_an_old_version_is_a_conflict(http: httpx.Client, namespace: str) -> None:
    first = http.post(maps(namespace), json=config_map(a="1")).json()
    second = http.put(maps(namespace, "settings"), json={**first, "data": {"a": "2"}})
    assert second.status_code == 200
    assert status_of(http.put(maps(namespace, "settings"), json={**first, "data": {"a": "3"}})) == (409, "Conflict")
    assert http.get(maps(namespace, "settings")).json()["data"] == {"a": "2"}


def test_of_many_updates_from_one_version_exactly_one_wins(
    http: httpx.Client, controller: RunningController, namespace: str
) -> None:
    first = http.post(maps(namespace), json=config_map()).json()
    answers: list[int] = []

    def update(number: int) -> None:
        with controller.http() as own:
            answers.append(own.put(maps(namespace, "settings"), json={**first, "data": {"a": str(number)}}).status_code)

    threads = [threading.Thread(target=update, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] + [409] * 7


def test_an_update_that_changes_nothing_writes_nothing(http: httpx.Client, namespace: str) -> None:
    first = http.post(maps(namespace), json=config_map(a="1")).json()
    again = http.put(maps(namespace, "settings"), json=first).json()
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_the_generation_counts_changes_of_the_spec_only(http: httpx.Client, namespace: str) -> None:
    http.post(brokers(namespace), json=broker())
    patch = {"content-type": "application/merge-patch+json"}

    def patched(body: Json) -> Json:
        response = http.patch(brokers(namespace, "orders"), content=json.dumps(body), headers=patch)
        assert response.status_code == 200, response.text
        return dict(response.json()["metadata"])

    assert patched({"metadata": {"labels": {"a": "b"}}})["generation"] == 1
    assert patched({"spec": {"delivery": {"retry": 3}}})["generation"] == 2
    assert patched({"spec": {"delivery": {"retry": 3}}})["generation"] == 2


def test_a_merge_patch_removes_what_is_null(http: httpx.Client, namespace: str) -> None:
    http.post(maps(namespace), json=config_map(a="1", b="2"))
    response = http.patch(
        maps(namespace, "settings"), content='{"data": {"a": null}}', headers={"content-type": "application/merge-patch+json"}
    )
    assert response.json()["data"] == {"b": "2"}


@pytest.mark.parametrize(
    "kind", ["application/json-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"]
)
def test_other_kinds_of_patch_are_refused(http: httpx.Client, namespace: str, kind: str) -> None:
    http.post(maps(namespace), json=config_map())
    response = http.patch(maps(namespace, "settings"), content="{}", headers={"content-type": kind})
    assert status_of(response) == (415, "UnsupportedMediaType")


def test_a_dry_run_checks_and_changes_nothing(http: httpx.Client, namespace: str) -> None:
    made = http.post(maps(namespace), json=config_map(), params={"dryRun": "All"})
    assert made.status_code == 201
    assert http.get(maps(namespace, "settings")).status_code == 404
    refused = http.post(brokers(namespace), json={**broker(), "spec": {"nonsense": 1}}, params={"dryRun": "All"})
    assert status_of(refused) == (422, "Invalid")


def test_every_fault_of_an_object_is_a_cause_with_its_path(http: httpx.Client, namespace: str) -> None:
    trigger = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "t"},
        "spec": {"broker": "b", "filter": {"attributes": {"Type": "x"}}, "delivery": {"retry": -1}},
    }
    response = http.post(f"{EVENTING}/namespaces/{namespace}/triggers", json=trigger)
    assert status_of(response) == (422, "Invalid")
    fields = {cause["field"] for cause in response.json()["details"]["causes"]}
    assert any(field.startswith("spec.filter.attributes") for field in fields)
    assert "spec.delivery.retry" in fields
    assert any(field.startswith("spec.subscriber") for field in fields)


def test_users_may_not_write_the_subscribers_of_a_channel(http: httpx.Client, namespace: str) -> None:
    channel = {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "KafkaChannel",
        "metadata": {"name": "c"},
        "spec": {"subscribers": [{"uid": "1", "subscriberUri": "http://x.example"}]},
    }
    response = http.post(f"/apis/messaging.knative.dev/v1/namespaces/{namespace}/kafkachannels", json=channel)
    assert status_of(response) == (422, "Invalid")
    assert "headrace:controller" in response.json()["message"]


def test_a_kind_with_two_versions_is_one_object_in_both(http: httpx.Client, namespace: str) -> None:
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "metadata": {"name": "c"}}
    v1, beta = (f"/apis/messaging.knative.dev/{version}/namespaces/{namespace}/kafkachannels" for version in ("v1", "v1beta1"))
    made = http.post(v1, json=channel).json()
    assert made["apiVersion"] == "messaging.knative.dev/v1"
    older = http.get(f"{beta}/c").json()
    assert older["apiVersion"] == "messaging.knative.dev/v1beta1"
    assert older["metadata"]["uid"] == made["metadata"]["uid"]
    assert older["spec"] == made["spec"]


def test_a_list_is_filtered_by_labels_and_namespace(http: httpx.Client, namespace: str) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        http.post(maps(namespace), json={**config_map(name), "metadata": {"name": name, "labels": {"tier": tier}}})
    listed = http.get(maps(namespace), params={"labelSelector": "tier=front"}).json()
    assert listed["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "c"]
    everywhere = http.get("/api/v1/configmaps", params={"labelSelector": "tier"}).json()
    assert len([item for item in everywhere["items"] if item["metadata"]["namespace"] == namespace]) == 3
    one = http.get(maps(namespace), params={"fieldSelector": "metadata.name=b"}).json()
    assert [item["metadata"]["name"] for item in one["items"]] == ["b"]


def test_a_list_can_be_had_as_a_table(http: httpx.Client, namespace: str) -> None:
    http.post(brokers(namespace), json=broker())
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    table = http.get(brokers(namespace), headers={"accept": accept}).json()
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]][:2] == ["Name", "URL"]
    assert table["rows"][0]["cells"][0] == "orders"
    assert table["rows"][0]["object"]["metadata"]["namespace"] == namespace


class Watcher:
    """Collects the events of a watch in a thread."""

    def __init__(self, controller: RunningController, path: str, **params: str) -> None:
        self.events: list[Json] = []
        self.ended = threading.Event()
        self._http = controller.http()
        self._path, self._params = path, {"watch": "true", **params}
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with self._http.stream("GET", self._path, params=self._params, timeout=None) as response:
                for line in response.iter_lines():
                    self.events.append(json.loads(line))
        except httpx.TransportError:
            pass
        finally:
            self._http.close()
            self.ended.set()

    def seen(self) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"]["name"]) for event in self.events]


def test_a_watch_from_a_list_sees_every_later_change_in_order(
    http: httpx.Client, controller: RunningController, namespace: str
) -> None:
    http.post(maps(namespace), json=config_map("before"))
    since = http.get(maps(namespace)).json()["metadata"]["resourceVersion"]
    watcher = Watcher(controller, maps(namespace), resourceVersion=since, timeoutSeconds="30")
    http.post(maps(namespace), json=config_map("a"))
    http.put(maps(namespace, "a"), json=config_map("a", x="1"))
    http.delete(maps(namespace, "a"))
    wanted = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    eventually(lambda: watcher.seen() == wanted, 10, f"{wanted}, saw {watcher.seen()}")
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in watcher.events]
    assert versions == sorted(set(versions))


def test_a_watch_without_a_version_begins_with_what_is_there(
    http: httpx.Client, controller: RunningController, namespace: str
) -> None:
    http.post(maps(namespace), json=config_map("a"))
    watcher = Watcher(controller, maps(namespace), timeoutSeconds="30")
    eventually(lambda: watcher.seen() == [("ADDED", "a")], 10)
    http.delete(maps(namespace, "a"))
    eventually(lambda: watcher.seen() == [("ADDED", "a"), ("DELETED", "a")], 10)


def test_an_object_that_leaves_a_selector_is_deleted_for_its_watch(
    http: httpx.Client, controller: RunningController, namespace: str
) -> None:
    watcher = Watcher(controller, maps(namespace), labelSelector="on=yes", timeoutSeconds="30")
    labelled = {**config_map("a"), "metadata": {"name": "a", "labels": {"on": "yes"}}}
    http.post(maps(namespace), json=labelled)
    http.put(maps(namespace, "a"), json=config_map("a"))
    http.put(maps(namespace, "a"), json=labelled)
    wanted = [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
    eventually(lambda: watcher.seen() == wanted, 10)


def test_a_watch_ends_at_its_timeout_with_a_bookmark_before(controller: RunningController, namespace: str) -> None:
    watcher = Watcher(controller, maps(namespace), timeoutSeconds="1", allowWatchBookmarks="true")
    assert watcher.ended.wait(10)
    assert [event["type"] for event in watcher.events] == ["BOOKMARK"]


def test_an_object_with_finalizers_is_marked_and_goes_with_the_last_of_them(http: httpx.Client, namespace: str) -> None:
    held = {**config_map(), "metadata": {"name": "settings", "finalizers": ["example.com/hold"]}}
    http.post(maps(namespace), json=held)
    answer = http.delete(maps(namespace, "settings")).json()
    assert answer["metadata"]["deletionTimestamp"]
    marked = http.get(maps(namespace, "settings")).json()
    assert marked["metadata"]["finalizers"] == ["example.com/hold"]
    more = {**marked, "metadata": {**marked["metadata"], "finalizers": ["example.com/hold", "example.com/more"]}}
    assert status_of(http.put(maps(namespace, "settings"), json=more)) == (422, "Invalid")
    released = {**marked, "metadata": {key: value for key, value in marked["metadata"].items() if key != "finalizers"}}
    assert http.put(maps(namespace, "settings"), json=released).status_code == 200
    assert status_of(http.get(maps(namespace, "settings"))) == (404, "NotFound")


def test_a_delete_holds_to_its_preconditions(http: httpx.Client, namespace: str) -> None:
    made = http.post(maps(namespace), json=config_map()).json()
    wrong = http.request("DELETE", maps(namespace, "settings"), json={"preconditions": {"uid": "another"}})
    assert status_of(wrong) == (409, "Conflict")
    right = http.request("DELETE", maps(namespace, "settings"), json={"preconditions": {"uid": made["metadata"]["uid"]}})
    assert right.json()["status"] == "Success"


def test_what_belongs_to_a_deleted_object_goes_with_it(http: httpx.Client, namespace: str) -> None:
    owner = http.post(maps(namespace), json=config_map("owner")).json()
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    http.post(maps(namespace), json={**config_map("owned"), "metadata": {"name": "owned", "ownerReferences": [reference]}})
    http.delete(maps(namespace, "owner"))
    assert status_of(http.get(maps(namespace, "owned"))) == (404, "NotFound")


def test_the_status_is_written_apart_from_the_rest(http: httpx.Client, namespace: str) -> None:
    subscriber = {"uri": "http://subscriber.example"}
    trigger = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "t"},
        "spec": {"broker": "none", "subscriber": subscriber},
    }
    path = f"{EVENTING}/namespaces/{namespace}/triggers"
    assert http.post(path, json=trigger).status_code == 201
    sent = {**trigger, "spec": {"broker": "other", "subscriber": subscriber}, "status": {"annotations": {"seen": "yes"}}}
    response = http.put(f"{path}/t/status", json=sent)
    assert response.status_code == 200, response.text
    assert response.json()["spec"]["broker"] == "none"
    assert response.json()["status"]["annotations"]["seen"] == "yes"
    assert status_of(http.put(f"{path}/t/status", json={**trigger, "status": {"nonsense": 1}})) == (422, "Invalid")
    assert status_of(http.get(f"{maps(namespace, 'x')}/status")) == (404, "NotFound")


def test_a_secret_keeps_text_as_base64(http: httpx.Client, namespace: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"user": "me"}}
    made = http.post(f"/api/v1/namespaces/{namespace}/secrets", json=secret).json()
    assert made["data"] == {"user": "bWU="}
    assert "stringData" not in made


@pytest.mark.parametrize(
    ("method", "path", "content", "wanted"),
    [
        ("GET", "/apis/nothing.example/v1", None, (404, "NotFound")),
        ("GET", "/apis/eventing.knative.dev/v1/namespaces/default/pods", None, (404, "NotFound")),
        ("GET", "/somewhere", None, (404, "NotFound")),
        ("GET", "/api/v1/namespaces/default/configmaps/none", None, (404, "NotFound")),
        ("DELETE", "/api/v1/namespaces/default/configmaps/none", None, (404, "NotFound")),
        ("PUT", "/api/v1/namespaces/default/configmaps/none", '{"metadata": {"name": "none"}}', (404, "NotFound")),
        ("PUT", "/api/v1/namespaces/default/configmaps/none", '{"metadata": {"name": "other"}}', (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/default/configmaps", "{", (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/default/configmaps", "[]", (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/default/configmaps", "[" * 100_000, (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/default/configmaps", '{"metadata": {"name": "\\ud800"}}', (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/default/configmaps", '{"kind": "Secret"}', (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/default/configmaps", '{"metadata": 1}', (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/default/configmaps", '{"metadata": {"name": 1}}', (422, "Invalid")),
        ("POST", "/api/v1/namespaces/default/configmaps", '{"metadata": {"name": "UPPER"}}', (422, "Invalid")),
        ("POST", "/api/v1/namespaces/default/configmaps", '{"metadata": {"namespace": "other"}}', (400, "BadRequest")),
        ("POST", "/api/v1/namespaces/Not_Legal/configmaps", '{"metadata": {"name": "x"}}', (422, "Invalid")),
        ("POST", "/api/v1/namespaces/default/configmaps", " " * (4 << 20), (413, "RequestEntityTooLarge")),
        ("GET", "/api/v1/configmaps?labelSelector=a%20b", None, (400, "BadRequest")),
        ("GET", "/api/v1/configmaps?watch=perhaps", None, (400, "BadRequest")),
        ("GET", "/api/v1/configmaps?watch=1&resourceVersion=x", None, (400, "BadRequest")),
        ("POST", "/api/v1/configmaps", "{}", (405, "MethodNotAllowed")),
        ("PATCH", "/apis", "{}", (405, "MethodNotAllowed")),
    ],
)
def test_a_request_that_cannot_be_done_gets_a_status(
    http: httpx.Client, method: str, path: str, content: str | None, wanted: tuple[int, str]
) -> None:
    assert status_of(http.request(method, path, content=content)) == wanted


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"host": "evil.example:8090"},
        {"origin": "http://localhost.evil.example"},
    ],
)
def test_a_web_page_gets_nothing(http: httpx.Client, headers: dict[str, str]) -> None:
    assert status_of(http.get("/api/v1/configmaps", headers=headers)) == (403, "Forbidden")
    assert status_of(http.post("/api/v1/namespaces/default/configmaps", json=config_map("evil"), headers=headers)) == (
        403,
        "Forbidden",
    )


@pytest.mark.parametrize("headers", [{"host": "localhost:8090"}, {"host": "[::1]:8090"}, {"origin": "http://127.0.0.1:8090"}])
def test_the_machines_own_names_are_taken(http: httpx.Client, headers: dict[str, str]) -> None:
    assert http.get("/api/v1/configmaps", headers=headers).status_code == 200


def test_discovery_names_every_kind_with_its_short_names(http: httpx.Client) -> None:
    groups = {
        group["name"]: [version["version"] for version in group["versions"]] for group in http.get("/apis").json()["groups"]
    }
    assert groups == {"eventing.knative.dev": ["v1", "v1alpha1"], "messaging.knative.dev": ["v1", "v1beta1"]}
    resources = {one["name"]: one for one in http.get("/apis/messaging.knative.dev/v1").json()["resources"]}
    assert {"kafkachannels", "kafkachannels/status", "channels", "subscriptions"} <= resources.keys()
    assert resources["kafkachannels"]["shortNames"] == ["kc"]
    assert {one["name"] for one in http.get("/api/v1").json()["resources"]} == {"configmaps", "secrets"}
    assert http.get("/version").json()["gitVersion"].startswith("v")


def test_a_taken_port_is_told_with_its_flag(kafka: KafkaSettings, controller: RunningController) -> None:
    from dataclasses import replace

    from headrace.base.errors import Terminal
    from headrace.standalone.controller import Controller

    wanted = replace(controller.controller._config, port=controller.controller.api.port)
    with pytest.raises(Terminal, match=r"cannot listen on .*Address already in use.*--port"):
        Controller(wanted)
