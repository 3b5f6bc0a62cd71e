"""What a report collects of a Kubernetes cluster, with what a kubelet would answer: logs, and commands in containers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.base.config import load
from headrace.base.errors import HeadraceError, Terminal
from headrace.core.masking import HIDDEN
from headrace.core.report import Report, Secrets
from headrace.kube.dataplane import Served, wanted_objects
from headrace.kube.kubectl import Kubectl
from headrace.kube.report import Strimzi, collect_kubernetes
from headrace.kube.settings import PlaneSettings

Json = dict[str, Any]
OF_CLUSTER = {"strimzi.io/cluster": "my-cluster"}
OURS = {"app.kubernetes.io/part-of": "headrace"}


class Cluster:
    """Answers kubectl: objects by type, logs by pod and container. `broken` fails a command by its words."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Json]] = {"namespaces": []}
        self.logs: dict[str, str] = {}
        self.commands: list[tuple[str, ...]] = []
        self.broken: Callable[[tuple[str, ...]], bool] = lambda words: False
        self.add("namespace", "test")
        self.add("kafkas.kafka.strimzi.io", "my-cluster", kind="Kafka")
        self.add(
            "customresourcedefinitions",
            "kafkas.kafka.strimzi.io",
            labels={"app": "strimzi"},
            spec={"names": {"plural": "kafkas"}},
        )

    def add(
        self, type_: str, name: str, *, namespace: str = "test", labels: Json | None = None, kind: str = "", **fields: Any
    ) -> None:
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
        self.objects.setdefault(type_, []).append({"kind": kind or type_, "metadata": metadata, **fields})

    def pod(
        self, name: str, *containers: str, namespace: str = "test", labels: Json, running: bool = True, restarts: int = 0
    ) -> None:
        states = [
            {"name": one, "restartCount": restarts, "state": {"running": {}} if running else {"waiting": {}}}
            for one in containers
        ]
        spec = {"containers": [{"name": one} for one in containers]}
        self.add("pods", name, namespace=namespace, labels=labels, spec=spec, status={"containerStatuses": states})
        for one in containers:
            self.logs[f"{name}/{one}"] = f"log of {name} {one}\n"

    def run(self, *words: str, **_: Any) -> str:
        self.commands.append(words)
        if self.broken(words):
            raise Terminal("forbidden", subject=f"kubectl {words[0]}")
        match words:
            case ("version", *_):
                return '{"serverVersion": {"gitVersion": "v1.99"}}'
            case ("get", "events", *_):
                return "LAST SEEN  TYPE\n"
            case ("get", type_, *rest):
                return self._get(type_, rest)
            case ("logs", pod, "-n", _, "-c", container, *rest):
                return ("before: " if "--previous" in rest else "") + self.logs[f"{pod}/{container}"]
            case ("exec", _, "-n", _, "-c", _, "--", "cat", "/tmp/strimzi.properties"):
                return "node.id=0\nssl.keystore.password=rowan-berry\n"
            case ("exec", pod, "-n", _, "-c", _, "--", "tail", "-c", _, file):
                return f"{file} of {pod}"
            case ("exec", *_):
                return ""
        raise AssertionError(words)

    def _get(self, type_: str, rest: list[str]) -> str:
        if type_ not in self.objects and type_ == "routes":
            raise Terminal('error: the server doesn\'t have a resource type "routes"', subject="kubectl get routes")
        found = self.objects.get(type_, [])
        if "-o" in rest and "name" in rest:
            return "".join(one["metadata"]["name"] for one in found if one["metadata"]["name"] == rest[0])
        if "-n" in rest:
            found = [one for one in found if one["metadata"]["namespace"] == rest[rest.index("-n") + 1]]
        if "-l" in rest:
            found = [one for one in found if _selected(one, rest[rest.index("-l") + 1])]
        names = [word.partition("metadata.name=")[2] for word in rest if word.startswith("--field-selector")]
        return json.dumps({"items": [one for one in found if not names or one["metadata"]["name"] in names]})

    def execs(self, *words: str) -> list[str]:
        """Pods in which this was run."""
        return [f"{one[1]}/{one[5]}" for one in self.commands if one[0] == "exec" and one[7:] == words]


def _selected(obj: Json, selector: str) -> bool:
    labels = obj["metadata"]["labels"]
    within = re.fullmatch(r"(\S+) in \((.*)\)", selector)
    if within:
        return labels.get(within[1]) in within[2].split(",")
    name, _, value = selector.partition("=")
    return bool(labels.get(name) == value)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(Kubectl, "run", lambda self, *words, **options: made.run(*words, **options))
    return made


def collected(secrets: Secrets = Secrets.HIDDEN, strimzi: Strimzi | None = Strimzi("test", "my-cluster")) -> Report:
    report = Report(secrets)
    collect_kubernetes(report, "", load(Path("/dev/null"), {}), strimzi, log_bytes=1000)
    return report


def files(report: Report) -> dict[str, str]:
    return {path: content.decode() for path, content in report.files("Report", {})}


def paths(report: Report, words: Iterable[str]) -> list[str]:
    return sorted(one.path for one in report.documents if one.path.startswith(tuple(words)))


def test_objects_of_the_strimzi_cluster_get_the_paths_of_its_own_script(cluster: Cluster) -> None:
    for kind in ("deployments", "secrets", "services", "pods"):
        cluster.add(kind, f"of-{kind}", labels=OF_CLUSTER, spec={"containers": []})
        cluster.add(kind, f"strange-{kind}", spec={"containers": []})
    cluster.add("deployments", "my-connect", labels={"strimzi.io/cluster": "connected"})
    cluster.add("clusterroles", "strimzi-view", labels={"app": "strimzi"})
    report = collected(strimzi=Strimzi("test", "my-cluster", connect="connected"))
    assert paths(report, ("deployments/", "secrets/", "services/", "pods/", "clusterroles/", "kafkas/", "customres")) == [
        "clusterroles/strimzi-view.yaml",
        "customresourcedefinitions/kafkas.kafka.strimzi.io.yaml",
        "deployments/my-connect.yaml",
        "deployments/of-deployments.yaml",
        "kafkas/my-cluster.yaml",
        "pods/of-pods.yaml",
        "secrets/of-secrets.yaml",
        "services/of-services.yaml",
    ]
    assert paths(report, ["events/"]) == ["events/events.txt"]
    # OpenShift's routes are not missed elsewhere.
    assert not report.missing


def test_logs_are_read_after_the_dumps_were_asked_for_and_of_the_run_before_too(cluster: Cluster) -> None:
    cluster.pod("my-cluster-broker-0", "kafka", labels=OF_CLUSTER, restarts=2)
    cluster.pod("my-cluster-entity-operator-x", "topic-operator", "tls-sidecar", labels=OF_CLUSTER)
    report = collected()
    assert paths(report, ("logs/", "configs/")) == [
        "configs/my-cluster-broker-0.cfg",
        "logs/my-cluster-broker-0.log",
        "logs/my-cluster-broker-0.log.0",
        "logs/my-cluster-entity-operator-x-tls-sidecar.log",
        "logs/my-cluster-entity-operator-x-topic-operator.log",
    ]
    assert cluster.execs("sh", "-c", "kill -QUIT 1") == [
        "my-cluster-broker-0/kafka",
        "my-cluster-entity-operator-x/topic-operator",
    ]
    firsts = [words[0] for words in cluster.commands]
    assert max(i for i, words in enumerate(cluster.commands) if "kill -QUIT 1" in words) < firsts.index("logs")
    found = files(report)
    assert found["configs/my-cluster-broker-0.cfg"] == f"node.id=0\nssl.keystore.password={HIDDEN}\n"
    assert found["logs/my-cluster-broker-0.log.0"].startswith("before: ")


def test_strimzis_operator_is_found_in_its_own_namespace(cluster: Cluster) -> None:
    cluster.add("deployments", "strimzi-cluster-operator", namespace="strimzi")
    cluster.pod(
        "strimzi-cluster-operator-y",
        "strimzi-cluster-operator",
        namespace="strimzi",
        labels={"strimzi.io/kind": "cluster-operator"},
    )
    report = collected()
    assert paths(report, ("deployments/", "pods/", "logs/")) == [
        "deployments/strimzi-cluster-operator.yaml",
        "logs/strimzi-cluster-operator-y.log",
        "pods/strimzi-cluster-operator-y.yaml",
    ]


def test_what_is_ours_is_collected_with_and_without_a_strimzi_cluster(cluster: Cluster) -> None:
    cluster.add("brokers.eventing.knative.dev", "shop", namespace="default", kind="Broker", status={"conditions": []})
    cluster.add("configmaps", "kafka-broker-brokers-triggers", namespace="knative-eventing")
    cluster.add("customresourcedefinitions", "brokers.eventing.knative.dev", labels=OURS, spec={"names": {"plural": "brokers"}})
    cluster.pod("headrace-receiver-z", "headrace-receiver", namespace="knative-eventing", labels=OURS)
    for strimzi in (None, Strimzi("test", "my-cluster")):
        report = collected(strimzi=strimzi)
        assert paths(report, ["headrace/"]) == [
            "headrace/brokers/default/shop.yaml",
            "headrace/configmaps/kafka-broker-brokers-triggers.yaml",
            "headrace/customresourcedefinitions/brokers.eventing.knative.dev.yaml",
            "headrace/events/events.txt",
            "headrace/logs/headrace-receiver-z.log",
            "headrace/pods/headrace-receiver-z.yaml",
        ]
    assert cluster.execs("python", "-m", "headrace.base.threaddumps") == ["headrace-receiver-z/headrace-receiver"] * 2


def test_a_dispatcher_has_the_log_of_spark_too(cluster: Cluster) -> None:
    served = [Served("Broker", "default", "shop", "uid-1")]
    deployment = wanted_objects(served, PlaneSettings(image="x", bootstrap="kafka:9092"), "knative-eventing", [])
    made = next(one for one in deployment if one["kind"] == "Deployment" and "dispatcher" in one["metadata"]["name"])
    container = made["spec"]["template"]["spec"]["containers"][0]
    cluster.pod("dispatcher-z", container["name"], namespace="knative-eventing", labels=OURS)
    cluster.objects["pods"][-1]["spec"]["containers"] = [container]
    report = collected(strimzi=None)
    assert paths(report, ["headrace/logs/"]) == ["headrace/logs/dispatcher-z-spark.log", "headrace/logs/dispatcher-z.log"]
    assert files(report)["headrace/logs/dispatcher-z-spark.log"] == "/tmp/headrace/logs/spark.log of dispatcher-z"


def test_secrets_are_hidden_wherever_they_stand(cluster: Cluster) -> None:
    word = "rowan-berry"
    cluster.add(
        "secrets", "users", labels=OF_CLUSTER, kind="Secret", data={"user.password": base64.b64encode(word.encode()).decode()}
    )
    cluster.pod("my-cluster-broker-0", "kafka", labels=OF_CLUSTER)
    cluster.logs["my-cluster-broker-0/kafka"] = f"no login with {word}\n"
    for secrets, shown in ((Secrets.HIDDEN, True), (Secrets.OFF, False)):
        found = files(collected(secrets))
        assert not [path for path, text in found.items() if word in text]
        assert ("secrets/users.yaml" in found) == shown
        assert found["logs/my-cluster-broker-0.log"] == f"no login with {HIDDEN}\n"
    found = files(collected(Secrets.ALL))
    assert base64.b64encode(word.encode()).decode() in found["secrets/users.yaml"]
    assert found["logs/my-cluster-broker-0.log"] == f"no login with {HIDDEN}\n"


def test_what_may_not_be_read_is_listed_and_the_rest_is_collected(cluster: Cluster) -> None:
    cluster.add("services", "bootstrap", labels=OF_CLUSTER)
    cluster.pod("my-cluster-broker-0", "kafka", labels=OF_CLUSTER)
    cluster.broken = lambda words: words[0] in ("logs", "exec") or words[:2] in (("get", "secrets"), ("get", "events"))
    report = collected()
    assert paths(report, ("services/", "pods/")) == ["pods/my-cluster-broker-0.yaml", "services/bootstrap.yaml"]
    missed = {one.what: one.reason for one in report.missing}
    assert {
        "secrets",
        "events of namespace test",
        "log of my-cluster-broker-0",
        "thread dump of my-cluster-broker-0",
        "configuration of my-cluster-broker-0",
    } <= set(missed)
    assert all("forbidden" in reason for reason in missed.values())


def test_pods_that_do_not_run_are_not_entered(cluster: Cluster) -> None:
    cluster.pod("my-cluster-broker-0", "kafka", labels=OF_CLUSTER, running=False)
    collected()
    assert not [words for words in cluster.commands if words[0] == "exec"]


@pytest.mark.parametrize(
    ("strimzi", "text"),
    [
        (Strimzi("nowhere", "my-cluster"), "Namespace nowhere not found"),
        (Strimzi("test", "other"), "Kafka cluster other in namespace test"),
    ],
)
def test_a_cluster_that_is_not_there_is_named(cluster: Cluster, strimzi: Strimzi, text: str) -> None:
    with pytest.raises(HeadraceError, match=text):
        collected(strimzi=strimzi)
