"""Dispatchers whose executors are pods: made by Spark at a real API server, under the dispatcher's own ServiceAccount."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.core.events.model import Event
from headrace.kafka.settings import KafkaSettings
from tests.kube.cluster import Cluster
from tests.kube.conftest import have_binaries
from tests.kube.installation import NAMESPACE, Installation
from tests.kube.kubelet import Kubelet
from tests.kube.test_flow import broker, sent_ids, trigger

Json = dict[str, Any]
DISPATCHER = "kafka-broker-dispatcher"
WORKER = "headrace.dispatcher.daemon"


@pytest.fixture(scope="module")
def spread(kafka: KafkaSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Headrace with two executors for each dispatcher, in a cluster of its own: an operator and a receiver run."""
    have_binaries()
    cluster = Cluster(tmp_path_factory.mktemp("kube-spread"))
    values = {"executor.replicas": "2"}
    made = Installation(cluster, kafka, tmp_path_factory.mktemp("headrace-spread"), f"kube-{uuid.uuid4().hex[:8]}", values)
    try:
        cluster.start()
        cluster.kubectl("create", "namespace", NAMESPACE)
        made.begin(
            HEADRACE_KUBERNETES_EXECUTORS="2",
            HEADRACE_KUBERNETES_EXECUTOR_SLOTS="8",
            HEADRACE_KUBERNETES_EXECUTOR_CPU="250m",
            HEADRACE_CONTROLLER_PARTITIONS="4",
        )
        yield made
    finally:
        made.close()
        cluster.stop()


@pytest.fixture
def kubelet(spread: Installation) -> Iterator[Kubelet]:
    """Runs the executors' pods once it is started."""
    made = Kubelet(spread.cluster, NAMESPACE, "spark-role=executor", spread.folder / "kubelet")
    yield made
    made.close()


def executors(cluster: Cluster) -> list[Json]:
    pods = cluster.get("pods", NAMESPACE)["items"]
    return [pod for pod in pods if pod["metadata"]["labels"].get("app.kubernetes.io/component") == "executor"]


def readiness(port: int) -> str:
    """What `/readyz` says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_executors_in_pods_deliver_and_one_that_dies_is_made_again_with_nothing_lost(
    spread: Installation, kubelet: Kubelet, sink: tuple[str, list[Event]]
) -> None:
    cluster, (url, got) = spread.cluster, sink
    cluster.apply(broker("orders"), trigger("reader", "orders", url))
    spread.wait(lambda: cluster.exists(f"deployment/{DISPATCHER}", NAMESPACE), 180, "the dispatcher is deployed")
    dispatcher = spread.run_pod(DISPATCHER)
    spread.wait(lambda: len(executors(cluster)) == 2, 300, "Spark asked for two pods")

    # What was asked for: pods with the restrictions of the dispatcher's, which owns them.
    owner, template = spread.pod(DISPATCHER), spread.deployment(DISPATCHER)["spec"]["template"]["spec"]
    for pod in executors(cluster):
        container = pod["spec"]["containers"][0]
        assert [one["uid"] for one in pod["metadata"]["ownerReferences"]] == [owner["metadata"]["uid"]]
        assert pod["spec"]["serviceAccountName"] == "headrace-data-plane"
        assert pod["spec"]["securityContext"] == template["securityContext"]
        assert pod["spec"]["restartPolicy"] == "Never"
        assert container["securityContext"] == template["containers"][0]["securityContext"]
        assert (container["image"], container["args"]) == ("headrace:test", ["executor"])
        assert container["resources"] == {"requests": {"cpu": "250m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}

    # Nothing runs them yet: the dispatcher waits, and says for what.
    spread.wait(lambda: "0 of 2 executors have come" in readiness(dispatcher.ops_port), 180, "the dispatcher says it waits")
    kubelet.start()
    try:
        spread.wait_ready("trigger/reader", "default", 500)
        first = dict(kubelet.running)
        assert len(first) == 2
        address = cluster.get("broker/orders", "default")["status"]["address"]["url"]
        sent = [f"before-{number}" for number in range(40)]
        assert {spread.send(address, one) for one in sent} == {202}
        spread.wait(lambda: set(sent) <= set(sent_ids(got)), 180, "every event has come")
        assert all(kubelet.processes(name, WORKER) for name in first), "partitions are spread over both"

        victim, pid = next(iter(first.items()))
        during = [f"during-{number}" for number in range(60)]
        for number, one in enumerate(during):
            if number == 20:
                os.kill(pid, signal.SIGKILL)
            assert spread.send(address, one) == 202
        spread.wait(lambda: set(during) <= set(sent_ids(got)), 300, "no event is lost")
        spread.wait(lambda: len(kubelet.running) == 2 and victim not in kubelet.running, 180, "another pod is there")
        new = (kubelet.running.keys() - first.keys()).pop()
        spread.wait(lambda: kubelet.processes(new, WORKER), 300, "it serves partitions, too")
        after = [f"after-{number}" for number in range(20)]
        assert {spread.send(address, one) for one in after} == {202}
        spread.wait(lambda: set(after) <= set(sent_ids(got)), 180, "the last events have come")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{kubelet.logs()}") from None

    spread.plane.pop(DISPATCHER).stop()
    spread.wait(lambda: not executors(cluster), 120, "a dispatcher that stops takes its executors with it")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dispatchers_may_make_pods_in_their_namespace_and_nobody_else_may(spread: Installation) -> None:
    def may(account: str, verb: str, what: str, *more: str, namespace: str = NAMESPACE) -> bool:
        who = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
        asked = spread.cluster.kubectl("auth", "can-i", verb, what, "-n", namespace, who, *more, check=False)
        return asked.stdout.strip() == "yes"

    for verb in ("get", "list", "watch", "create", "delete", "deletecollection"):
        assert may("headrace-dispatcher", verb, "pods")
        assert not may("headrace-dispatcher", verb, "pods", namespace="default")
        assert not may("headrace-data-plane", verb, "pods")
    for what in ("configmaps", "services", "persistentvolumeclaims", "deployments"):
        assert not may("headrace-dispatcher", "create", what)
    assert not may("headrace-dispatcher", "create", "pods", "--subresource=exec")
    assert not may("headrace-dispatcher", "patch", "pods")
