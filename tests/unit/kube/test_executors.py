"""Executors in pods: what the operator writes, and what the dispatcher makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.base.config import load
from headrace.base.errors import UsageError
from headrace.cli.wiring import executor_pods
from headrace.kube.dataplane import Served, wanted_objects
from headrace.kube.home import operator_settings
from headrace.kube.settings import PlaneSettings, Size
from tests.kube.installation import CHART, rendered
from tests.unit.kube.test_chart import controller_env, needs_helm

Json = dict[str, Any]
SETTINGS = PlaneSettings(
    image="headrace:1",
    bootstrap="k:9092",
    pull_policy="Always",
    pull_secrets=("pull",),
    executors=3,
    executor=Size("500m", "3Gi", "2"),
    executor_slots=20,
)


def dispatcher(settings: PlaneSettings) -> Json:
    """The Deployment of the dispatcher of all Brokers."""
    objects = wanted_objects([Served("Broker", "n", "a", "1")], settings, "knative-eventing", [])
    return next(o for o in objects if o["kind"] == "Deployment" and o["metadata"]["name"] == "kafka-broker-dispatcher")


def told(deployment: Json, **fields: str) -> Json:
    """The environment of its container, in a pod with these fields."""
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return {
        one["name"]: one.get("value") or fields[one["valueFrom"]["fieldRef"]["fieldPath"].rpartition(".")[2]] for one in env
    }


def test_a_dispatcher_that_is_told_of_its_executors_asks_spark_for_them(tmp_path: Path) -> None:
    settings = load(None, told(dispatcher(SETTINGS), name="it-abc-12345", podIP="10.1.2.3")).settings
    pods = executor_pods(settings.dispatcher)
    assert pods is not None
    assert (pods.count, pods.slots, pods.pod, pods.host) == (3, 20, "it-abc-12345", "10.1.2.3")
    assert (pods.ca_file, pods.token_file) == tuple(
        f"/var/run/secrets/kubernetes.io/serviceaccount/{name}" for name in ("ca.crt", "token")
    )
    conf = pods.conf("512m", (), tmp_path)
    assert conf["spark.kubernetes.namespace"] == "knative-eventing"
    assert conf["spark.kubernetes.container.image"] == "headrace:1"
    assert conf["spark.executor.memoryOverhead"] == "2560m"
    assert conf["spark.kubernetes.executor.request.cores"] == "500m"
    assert conf["spark.kubernetes.executor.limit.cores"] == "2"


def test_executors_reach_the_dispatcher_at_ports_that_its_pod_names() -> None:
    pod = dispatcher(SETTINGS)["spec"]["template"]["spec"]
    env = told(dispatcher(SETTINGS), name="n", podIP="i")
    ports = {port["name"]: str(port["containerPort"]) for port in pod["containers"][0]["ports"]}
    assert (ports["driver"], ports["blocks"]) == (env["HEADRACE_DISPATCHER_DRIVER_PORT"], env["HEADRACE_DISPATCHER_BLOCK_PORT"])
    assert "--master=k8s://https://kubernetes.default.svc" in pod["containers"][0]["args"]


def test_executors_are_restricted_as_their_dispatcher_and_only_that_may_make_pods() -> None:
    pod = dispatcher(SETTINGS)["spec"]["template"]["spec"]
    executor = json.loads(told(dispatcher(SETTINGS), name="n", podIP="i")["HEADRACE_DISPATCHER_EXECUTOR_TEMPLATE"])
    for key in ("securityContext", "imagePullSecrets"):
        assert executor["spec"][key] == pod[key]
    for key in ("securityContext", "image", "imagePullPolicy"):
        assert executor["spec"]["containers"][0][key] == pod["containers"][0][key]
    assert (pod["serviceAccountName"], executor["spec"]["serviceAccountName"]) == ("headrace-dispatcher", "headrace-data-plane")
    assert executor["spec"]["restartPolicy"] == "Never"


def test_no_service_of_a_dispatcher_leads_to_its_executors() -> None:
    executor = json.loads(told(dispatcher(SETTINGS), name="n", podIP="i")["HEADRACE_DISPATCHER_EXECUTOR_TEMPLATE"])
    for obj in wanted_objects([Served("Broker", "n", "a", "1")], SETTINGS, "knative-eventing", []):
        if obj["kind"] == "Service":
            assert not obj["spec"]["selector"].items() <= executor["metadata"]["labels"].items(), obj["metadata"]["name"]


def test_without_executors_a_dispatcher_is_as_it_always_was() -> None:
    deployment = dispatcher(replace(SETTINGS, executors=0))
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "headrace-data-plane"
    assert not any("EXECUTOR" in one["name"] or "valueFrom" in one for one in pod["containers"][0]["env"])
    assert not any(word.startswith("--master") for word in pod["containers"][0]["args"])
    assert executor_pods(load(None, {}).settings.dispatcher) is None


@needs_helm
def test_the_chart_gives_dispatchers_pods_to_make_when_it_is_told_to() -> None:
    with_executors = rendered("k:9092", **{"executor.replicas": "2", "executor.memory": "4Gi", "executor.slots": "9"})
    given = {name: value for name, value in controller_env(with_executors).items() if name.startswith("HEADRACE_")}
    plane = operator_settings(load(None, given).settings).plane
    assert (plane.executors, plane.executor, plane.executor_slots) == (2, Size("1", "4Gi"), 9)
    named = [obj for obj in with_executors if obj["metadata"]["name"] == plane.dispatcher_account]
    assert {obj["kind"] for obj in named} == {"ServiceAccount", "Role", "RoleBinding"}
    [role] = [obj for obj in named if obj["kind"] == "Role"]
    verbs = ["get", "list", "watch", "create", "delete", "deletecollection"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    [shared] = [o for o in with_executors if o["kind"] == "ClusterRoleBinding" and o["metadata"]["name"] == plane.account]
    assert {one["name"] for one in shared["subjects"]} == {plane.account, plane.dispatcher_account}


@pytest.mark.parametrize("memory", ["512Mi", "1000M"])
def test_executors_without_room_for_a_heap_and_workers_are_refused_by_the_operator(memory: str) -> None:
    settings = load(
        None, {}, {"kubernetes.image": "i", "kubernetes.executors": 1, "kubernetes.executor_memory": memory}
    ).settings
    with pytest.raises(UsageError, match=f"{memory} is too little"):
        operator_settings(settings)


@needs_helm
def test_without_executors_nobody_of_the_data_plane_may_make_pods() -> None:
    objects = rendered("k:9092")
    assert not [obj for obj in objects if obj["metadata"]["name"] == "headrace-dispatcher"]
    makers = [
        obj["metadata"]["name"]
        for obj in objects
        if obj["kind"] in ("Role", "ClusterRole")
        for rule in obj.get("rules") or ()
        if "pods" in rule["resources"] and "create" in rule["verbs"]
    ]
    assert makers == []


@pytest.mark.parametrize("name", ["cpu", "memory", "slots"])
def test_the_charts_sizes_are_the_operators_defaults(name: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["executor"]
    assert str(values[name]) == str(getattr(load(None, {}).settings.kubernetes, f"executor_{name}"))
