"""A report of a Strimzi cluster and of Headrace's objects, from a real API server that no kubelet serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.core.masking import HIDDEN
from tests.kube.cluster import Cluster, tool

Json = dict[str, Any]
NAMESPACE = "strimzi-test"
PASSWORD = "medlar-orchard-7"
OF_CLUSTER = {"strimzi.io/cluster": "my-cluster"}


def _named(api: str, kind: str, name: str, namespace: str = NAMESPACE, labels: Json | None = None, **fields: Any) -> Json:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        **fields,
    }


def _definition() -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kafkas.kafka.strimzi.io", "labels": {"app": "strimzi"}},
        "spec": {
            "group": "kafka.strimzi.io",
            "names": {"kind": "Kafka", "plural": "kafkas", "singular": "kafka", "listKind": "KafkaList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.fixture(scope="module")
def strimzi(cluster: Cluster) -> Iterator[Cluster]:
    """A Kafka cluster as Strimzi's operator would leave it, as far as objects go, and a Broker."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.apply(_definition())
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=240s", "crd/kafkas.kafka.strimzi.io")
    # A node whose kubelet does not answer: so that logs can't be had.
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "down"}, "status": {"addresses": addresses}})
    variables = [{"name": "SSL_KEY_PASSWORD", "value": PASSWORD}]
    pod = {"nodeName": "down", "containers": [{"name": "kafka", "image": "kafka", "env": variables}]}
    jaas = f'ScramLoginModule required username="u" password="{PASSWORD}";'
    cluster.apply(
        _named("kafka.strimzi.io/v1", "Kafka", "my-cluster", spec={"kafka": {"config": {"sasl.jaas.config": jaas}}}),
        _named("v1", "Secret", "my-cluster-clients-ca", labels=OF_CLUSTER, stringData={"ca.key": PASSWORD}),
        _named("v1", "ConfigMap", "my-cluster-broker-0", labels=OF_CLUSTER, data={"server.config": f"a=b\n{jaas}\n"}),
        _named("v1", "Pod", "my-cluster-broker-0", labels=OF_CLUSTER, spec=pod),
        _named("v1", "ConfigMap", "of-others", data={"a": "b"}),
        _named("eventing.knative.dev/v1", "Broker", "reported", "default", spec={}),
    )
    yield cluster
    cluster.kubectl("delete", "broker/reported", "-n", "default")
    cluster.kubectl("delete", "crd/kafkas.kafka.strimzi.io")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    cluster.kubectl("delete", "node/down")


def report(cluster: Cluster, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    kubectl = Path(str(tool("kubectl"))).parent
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": f"{kubectl}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "headrace", "report", "--kubernetes", "--file", str(path), *options]
    return subprocess.run(command, env=env, cwd=path.parent, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.slow
def test_a_report_of_a_strimzi_cluster_has_its_objects_and_says_which_logs_it_lacks(strimzi: Cluster, tmp_path: Path) -> None:
    done = report(strimzi, tmp_path / "r.zip", "-n", NAMESPACE, "--cluster", "my-cluster", "-o", "json")
    assert done.returncode == 0, done.stderr
    archive = zipfile.ZipFile(tmp_path / "r.zip")
    files = {name.removeprefix("reports/"): archive.read(name).decode() for name in archive.namelist()}
    assert {
        "kafkas/my-cluster.yaml",
        "customresourcedefinitions/kafkas.kafka.strimzi.io.yaml",
        "secrets/my-cluster-clients-ca.yaml",
        "configmaps/my-cluster-broker-0.yaml",
        "pods/my-cluster-broker-0.yaml",
        "events/events.txt",
        "headrace/brokers/default/reported.yaml",
        "headrace/customresourcedefinitions/brokers.eventing.knative.dev.yaml",
        "kubernetes.yaml",
        "nodes/down.yaml",
    } <= set(files)
    assert "configmaps/of-others.yaml" not in files
    assert yaml.safe_load(files["secrets/my-cluster-clients-ca.yaml"])["data"] == {"ca.key": HIDDEN}
    assert not [name for name, text in files.items() if PASSWORD in text]
    assert PASSWORD not in done.stdout + done.stderr
    missing = json.loads(done.stdout)["missing"]
    assert "log of my-cluster-broker-0" in [one["what"] for one in missing]
    assert not [one for one in missing if "resource type" in one["reason"]]


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_named_and_no_file_is_made(strimzi: Cluster, tmp_path: Path) -> None:
    for namespace, name, text in (
        ("nowhere", "x", "Namespace nowhere not found"),
        (NAMESPACE, "x", "Kafka cluster x in namespace"),
    ):
        done = report(strimzi, tmp_path / "r.zip", "-n", namespace, "--cluster", name)
        assert done.returncode == 1
        assert text in " ".join(done.stderr.split())
    assert list(tmp_path.glob("*.zip")) == []
