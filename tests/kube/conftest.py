"""One Kubernetes API per run, with Headrace's CRDs. Without its binaries and Go to build them, these tests are skipped."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.events.model import Event
from headrace.http.sink import Answer, EventSink
from headrace.kafka.settings import KafkaSettings
from headrace.kube.crds import crds
from tests.kube.cluster import Cluster, missing_binaries, tool
from tests.kube.installation import Installation
from tests.support.securedkafka import SecuredKafka, secured_kafka

_BUILD = Path(__file__).parents[2] / "scripts" / "kube-binaries"


@pytest.fixture(scope="session")
def bare_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Kubernetes API with nothing in it."""
    have_binaries()
    cluster = Cluster(tmp_path_factory.mktemp("kube"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def cluster(bare_cluster: Cluster) -> Cluster:
    """A Kubernetes API that knows Headrace's kinds."""
    bare_cluster.kubectl("create", "namespace", "knative-eventing")
    bare_cluster.apply(*crds())
    bare_cluster.kubectl(
        "wait", "--for=condition=Established", "--timeout=240s", "crd", "-l", "app.kubernetes.io/part-of=headrace"
    )
    return bare_cluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A Kafka that asks its clients who they are; each test has users of its own."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def system(cluster: Cluster, kafka: KafkaSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Headrace, installed by its chart: an operator and a receiver run."""
    installation = Installation(cluster, kafka, tmp_path_factory.mktemp("headrace"), f"kube-{uuid.uuid4().hex[:8]}")
    try:
        installation.begin()
        yield installation
    finally:
        installation.close()


@pytest.fixture
def sink() -> Iterator[tuple[str, list[Event]]]:
    """A subscriber's address and what it was sent."""
    got: list[Event] = []

    def take(path: str, event: Event) -> Answer:
        got.append(event)
        return Answer(202)

    server = EventSink(take)
    server.start()
    yield server.url, got
    server.close()


def have_binaries() -> None:
    """Build what is missing; skip the test where that can't be done."""
    if missing_binaries() or tool("kubectl") is None:
        if shutil.which("go") is None:
            pytest.skip("no Go to build kube-apiserver, etcd and kubectl with: scripts/kube-binaries builds them once")
        subprocess.run([str(_BUILD)], check=True)
