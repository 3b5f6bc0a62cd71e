"""What a report tells of a Kubernetes cluster: what is ours, and of a Strimzi cluster all that Strimzi's own `report.sh` collects.

The paths are those of `report.sh`; ours are under `headrace/`. Thread dumps are asked for first and logs are read last, so that the
dumps are in the logs. With the rights of the user, through kubectl: what they do not allow is listed as missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base.config import Loaded
from headrace.base.errors import HeadraceError, Terminal
from headrace.core.report import Report
from headrace.home.report.host import collect_versions
from headrace.kube.kubectl import Kubectl
from headrace.kube.places import OURS

Json = dict[str, Any]
_CLUSTER = "strimzi.io/cluster"
_STRIMZI_OPERATOR = "strimzi-cluster-operator"
_OPERATOR_PODS = "strimzi.io/kind=cluster-operator"
_DRAIN_CLEANER = "app=strimzi-drain-cleaner"
_PART_OF = "app.kubernetes.io/part-of=headrace"
_STRIMZI_TYPES = (
    "deployments",
    "statefulsets",
    "replicasets",
    "configmaps",
    "secrets",
    "services",
    "poddisruptionbudgets",
    "roles",
    "rolebindings",
    "networkpolicies",
    "pods",
    "persistentvolumeclaims",
    "ingresses",
    "routes",
)
_OWN_TYPES = (
    "deployments",
    "replicasets",
    "pods",
    "services",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "roles",
    "rolebindings",
    "networkpolicies",
    "leases",
)
_OWN_GLOBAL = ("clusterroles", "clusterrolebindings", "mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_NO_SUCH_TYPE = "the server doesn't have a resource type"
_JAVA = re.compile(
    r"kafka|topic-operator|user-operator|cruise-control|strimzi-cluster-operator|.*-(?:connect|mirrormaker2|bridge)"
)
"""Containers in which Java runs. What is none would be ended by the signal that asks for a dump."""
_BYTES_PER_LINE = 100
_ASK, _EXEC, _LOGS = 60.0, 20.0, 120.0


@dataclass(frozen=True, slots=True)
class Strimzi:
    """A Strimzi cluster, with the names of what belongs to it under another name."""

    namespace: str
    cluster: str
    bridge: str = ""
    connect: str = ""
    mm2: str = ""

    @property
    def selector(self) -> str:
        names = [name for name in (self.cluster, self.bridge, self.connect, self.mm2) if name]
        return f"{_CLUSTER} in ({','.join(names)})"


@dataclass(frozen=True, slots=True)
class Container:
    """A container whose log counts; `ours`: one of Headrace, else one of Strimzi.

    `spark_log`: in a dispatcher, the file that Spark's JVM and the workers write to; elsewhere empty.
    """

    namespace: str
    pod: str
    name: str
    alone: bool
    running: bool
    restarts: int
    ours: bool
    kafka: bool
    spark_log: str

    @property
    def title(self) -> str:
        return self.pod if self.alone else f"{self.pod}-{self.name}"


def collect_kubernetes(report: Report, context: str, loaded: Loaded, strimzi: Strimzi | None, *, log_bytes: int) -> None:
    """Everything, as far as the user may see it. Raises `Terminal` when there is no Kubernetes, or no such Strimzi cluster."""
    kubectl = Kubectl(context)
    versions = kubectl.run("version", "-o", "json", "--request-timeout=10s", subject="Kubernetes", seconds=_ASK)
    if strimzi is not None:
        _check(kubectl, strimzi)
    _Collector(report, kubectl, loaded, strimzi, log_bytes).run(json.loads(versions))


def _check(kubectl: Kubectl, strimzi: Strimzi) -> None:
    if not kubectl.run("get", "namespace", strimzi.namespace, "--ignore-not-found", "-o", "name", seconds=_ASK).strip():
        raise Terminal(f"Namespace {strimzi.namespace} not found", subject="Kubernetes", hint="Give another with -n")
    where = ("kafkas.kafka.strimzi.io", strimzi.cluster, "-n", strimzi.namespace)
    if not kubectl.run("get", *where, "--ignore-not-found", "-o", "name", subject="Strimzi", seconds=_ASK).strip():
        raise Terminal(
            f"Kafka cluster {strimzi.cluster} in namespace {strimzi.namespace} not found",
            subject="Kubernetes",
            hint="`kubectl get kafkas -A` lists those that there are",
        )


class _Collector:
    def __init__(self, report: Report, kubectl: Kubectl, loaded: Loaded, strimzi: Strimzi | None, log_bytes: int) -> None:
        self._report = report
        self._kubectl = kubectl
        self._loaded = loaded
        self._strimzi = strimzi
        self._log_bytes = log_bytes
        self._own = loaded.settings.kubernetes.namespace

    def run(self, versions: Json) -> None:
        report, strimzi = self._report, self._strimzi
        containers: list[Container] = []
        with report.section("threads"):
            containers = self._containers()
            self._ask_for_dumps(containers)
        with report.section("versions"):
            collect_versions(report)
            report.add("kubernetes.yaml", versions)
        with report.section("nodes"):
            self._objects("nodes", "nodes")
        if strimzi is not None:
            self._strimzi_objects(strimzi)
        self._own_objects()
        with report.section("events"):
            for namespace, path in ((strimzi.namespace if strimzi else "", "events/"), (self._own, "headrace/events/")):
                if namespace:
                    with report.trying(f"events of namespace {namespace}"):
                        report.add(
                            f"{path}events.txt", self._get("events", "-n", namespace, "-o", "wide"), f"events/{namespace}"
                        )
        with report.section("logs"):
            for container in containers:
                self._logs(container)

    def _strimzi_objects(self, strimzi: Strimzi) -> None:
        report, place = self._report, ("-n", strimzi.namespace)
        for kind in _STRIMZI_TYPES:
            with report.section(kind):
                self._objects(kind, kind, *place, "-l", strimzi.selector)
        for kind in ("clusterroles", "clusterrolebindings"):
            with report.section(kind):
                self._objects(kind, kind, "-l", "app=strimzi")
        with report.section("clusteroperator"):
            for kind in ("deployments", "configmaps"):
                self._anywhere(kind, f"--field-selector=metadata.name={_STRIMZI_OPERATOR}")
            for kind in ("replicasets", "pods"):
                self._anywhere(kind, "-l", _OPERATOR_PODS)
        with report.section("draincleaner"):
            for kind in ("deployments", "pods"):
                self._anywhere(kind, "-l", _DRAIN_CLEANER)
        with report.section("customresources"):
            self._custom_resources(strimzi)

    def _custom_resources(self, strimzi: Strimzi) -> None:
        definitions = json.loads(self._get("customresourcedefinitions", "-l", "app=strimzi", "-o", "json"))["items"]
        for definition in definitions:
            name, plural = definition["metadata"]["name"], definition["spec"]["names"]["plural"]
            with self._report.trying(name):
                items = self._items(name, "-n", strimzi.namespace)
                if items:
                    self._report.add(f"customresourcedefinitions/{name}.yaml", definition, name)
                for item in items:
                    self._report.add(
                        f"{plural}/{item['metadata']['name']}.yaml", item, f"    {plural}/{item['metadata']['name']}"
                    )

    def _own_objects(self) -> None:
        report = self._report
        with report.section("headrace"):
            for place in OURS:
                self._objects(f"{place.plural}.{place.group}", f"headrace/{place.plural}", "-A")
        with report.section(f"namespace {self._own}"):
            for kind in _OWN_TYPES:
                self._objects(kind, f"headrace/{kind}", "-n", self._own)
        with report.section("headrace in the cluster"):
            for kind in ("customresourcedefinitions", *_OWN_GLOBAL):
                self._objects(kind, f"headrace/{kind}", "-l", _PART_OF)

    def _objects(self, kind: str, path: str, *where: str) -> None:
        """All objects of a type that `where` selects; that the cluster has no such type is nothing to report, unless it is ours."""
        report = self._report
        try:
            items = self._items(kind, *where)
        except HeadraceError as error:
            if _NO_SUCH_TYPE not in str(error) or path.startswith("headrace/"):
                report.miss(kind, str(error))
            return
        for item in items:
            names = [item["metadata"]["name"]]
            if "-A" in where:
                names.insert(0, item["metadata"].get("namespace", ""))
            report.add_object(f"{path}/{'/'.join(names)}.yaml", item, f"{kind}/{'/'.join(names)}")

    def _anywhere(self, kind: str, *selection: str) -> None:
        """Objects of Strimzi's own, which may run in another namespace than the cluster."""
        with self._report.trying(kind):
            for item in self._found(kind, *selection):
                self._report.add_object(f"{kind}/{item['metadata']['name']}.yaml", item, f"{kind}/{item['metadata']['name']}")

    def _found(self, kind: str, *selection: str) -> list[Json]:
        """In all namespaces, or, for a user who may not look there, in the cluster's."""
        try:
            return self._items(kind, "-A", *selection)
        except HeadraceError:
            return self._items(kind, "-n", self._strimzi.namespace if self._strimzi else "", *selection)

    def _items(self, kind: str, *where: str) -> list[Json]:
        return list(json.loads(self._get(kind, *where, "-o", "json"))["items"])

    def _get(self, *words: str) -> str:
        return self._kubectl.run("get", *words, subject=f"kubectl get {words[0]}", seconds=_ASK)

    def _containers(self) -> list[Container]:
        found: list[Container] = []
        report, strimzi = self._report, self._strimzi
        with report.trying("pods of Headrace"):
            found += _containers(self._items("pods", "-n", self._own, "-l", _PART_OF), ours=True)
        if strimzi is not None:
            with report.trying(f"pods of {strimzi.cluster}"):
                found += _containers(self._items("pods", "-n", strimzi.namespace, "-l", strimzi.selector), ours=False)
            for selector in (_OPERATOR_PODS, _DRAIN_CLEANER):
                with report.trying(f"pods with {selector}"):
                    found += _containers(self._found("pods", "-l", selector), ours=False)
        return list(dict.fromkeys(found))

    def _ask_for_dumps(self, containers: Sequence[Container]) -> None:
        for container in containers:
            if container.running and (container.ours or _JAVA.fullmatch(container.name)):
                words = ("python", "-m", "headrace.base.threaddumps") if container.ours else ("sh", "-c", "kill -QUIT 1")
                with self._report.trying(f"thread dump of {container.title}"):
                    self._exec(container, *words)
                    self._report.tell(f"    {container.title}, in its log")

    def _logs(self, container: Container) -> None:
        report = self._report
        folder = "headrace/" if container.ours else ""
        with report.trying(f"log of {container.title}"):
            report.add(f"{folder}logs/{container.title}.log", self._log(container))
        if container.restarts:
            with report.trying(f"log of the run before of {container.title}"):
                report.add(f"{folder}logs/{container.title}.log.0", self._log(container, "--previous"))
        if container.spark_log and container.running:
            with report.trying(f"log of Spark in {container.title}"):
                text = self._exec(container, "tail", "-c", str(self._log_bytes), container.spark_log)
                report.add(f"{folder}logs/{container.title}-spark.log", text)
        if container.kafka and container.running:
            with report.trying(f"configuration of {container.title}"):
                report.add_config(f"configs/{container.pod}.cfg", self._exec(container, "cat", "/tmp/strimzi.properties"))

    def _log(self, container: Container, *options: str) -> str:
        lines = max(1, self._log_bytes // _BYTES_PER_LINE)
        words = (container.pod, "-n", container.namespace, "-c", container.name, f"--tail={lines}", *options)
        return self._kubectl.run("logs", *words, subject=f"kubectl logs {container.title}", seconds=_LOGS)[-self._log_bytes :]

    def _exec(self, container: Container, *words: str) -> str:
        where = (container.pod, "-n", container.namespace, "-c", container.name)
        return self._kubectl.run("exec", *where, "--", *words, subject=f"kubectl exec {container.title}", seconds=_EXEC)


def _containers(pods: Sequence[Json], *, ours: bool) -> Iterator[Container]:
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        states = {one["name"]: one for one in status.get("containerStatuses") or ()}
        specs = pod["spec"]["containers"]
        for spec in specs:
            state = states.get(spec["name"], {})
            yield Container(
                namespace=metadata["namespace"],
                pod=metadata["name"],
                name=spec["name"],
                alone=len(specs) == 1,
                running="running" in (state.get("state") or {}),
                restarts=int(state.get("restartCount") or 0),
                ours=ours,
                kafka=not ours and spec["name"] == "kafka",
                spark_log=_spark_log(spec.get("args") or ()) if ours else "",
            )


def _spark_log(arguments: Sequence[str]) -> str:
    folder = next((word.partition("=")[2] for word in arguments if word.startswith("--data-dir=")), "")
    return f"{folder}/logs/spark.log" if folder else ""
