"""Authentication switched on in a cluster: its ServiceAccounts send and are shown to subscribers, with tokens of its API server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headrace.base.clock import SystemClock
from headrace.kafka.settings import KafkaSettings
from headrace.receiver.answers import Answer as Refusal
from headrace.receiver.config import Issuer
from headrace.receiver.identity import OidcGatekeeper
from tests.kube.cluster import Cluster
from tests.kube.conftest import have_binaries
from tests.kube.installation import NAMESPACE, Installation
from tests.kube.test_flow import broker, trigger
from tests.support.securedkafka import SecuredKafka, set_password
from tests.support.subscriber import Request, subscriber
from tests.support.waiting import eventually

AUDIENCE = "https://them.example"
PASSWORD = "medlar-installation"
ACCOUNT = "serviceaccount/asks-oidc-eventing.knative.dev-trigger"


@pytest.fixture
def guarded(secured: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Headrace with authentication, its own Kafka with a password, in a cluster of its own: an operator and a receiver run."""
    have_binaries()
    set_password(secured.broker.settings, "installation", PASSWORD)
    metadata = {"name": "kafka-auth", "namespace": NAMESPACE}
    keys = secured.password("installation", PASSWORD)
    cluster = Cluster(tmp_path_factory.mktemp("kube-guarded"))
    made = Installation(
        cluster,
        KafkaSettings(secured.login),
        tmp_path_factory.mktemp("headrace-guarded"),
        f"kube-{uuid.uuid4().hex[:8]}",
        {"authentication.enabled": "true"},
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys},
    )
    try:
        cluster.start()
        cluster.kubectl("create", "namespace", NAMESPACE)
        made.begin(HEADRACE_IDENTITY_AUTHENTICATION="true")
        yield made
    finally:
        made.close()
        cluster.stop()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_tokens_of_the_cluster_open_an_ingress_and_a_subscriber(guarded: Installation) -> None:
    cluster = guarded.cluster
    issuer = Issuer(cluster.url, cluster.authority, guarded.account("headrace-data-plane") / "token")
    guard = OidcGatekeeper(issuer, SystemClock()).guard(AUDIENCE, ())
    got: list[tuple[str, object]] = []
    shown: list[str] = []

    def take(request: Request) -> int:
        header = request.headers.get("authorization", "")
        shown.append(header.removeprefix("Bearer "))
        claims = guard.verify(header)
        got.append((request.id, claims.status if isinstance(claims, Refusal) else claims["sub"]))
        return 202

    def token(audience: str, namespace: str = "default") -> str:
        made = cluster.kubectl("create", "token", "default", "-n", namespace, f"--audience={audience}")
        shown.append(made.stdout.strip())
        return shown[-1]

    with subscriber(take) as sink:
        asks = trigger("asks", "guarded", sink.url())
        asks["spec"]["subscriber"]["audience"] = AUDIENCE
        cluster.apply(broker("guarded"), asks)
        guarded.wait(lambda: cluster.exists("deployment/kafka-broker-dispatcher", NAMESPACE), 180, "the dispatcher is deployed")
        guarded.run_pod("kafka-broker-dispatcher")
        guarded.wait_ready("broker/guarded", "default")
        guarded.wait_ready("trigger/asks", "default", 500)
        owner = cluster.get(ACCOUNT, "default")["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Trigger", "asks", True)
        assert "finalizers" not in cluster.get(ACCOUNT, "default")["metadata"]

        address = cluster.get("broker/guarded", "default")["status"]["address"]
        url, audience = address["url"], address["audience"]
        assert guarded.send(url, "nobody") == 401
        assert guarded.send(url, "another", token=token("another")) == 401
        assert guarded.send(url, "stranger", token=token(audience, NAMESPACE)) == 403
        assert guarded.send(url, "let-in", token=token(audience)) == 202
        guarded.wait(lambda: got, 180, "the event has come")
        assert got == [("let-in", "system:serviceaccount:default:asks-oidc-eventing.knative.dev-trigger")]

        cluster.kubectl("delete", "trigger/asks", "--timeout=240s")
        eventually(lambda: not cluster.exists(ACCOUNT, "default"), 120, "its account goes with the Trigger")
    logs = "".join(part.log for part in (*guarded.operators, *guarded.plane.values()))
    assert len(logs) > 1000
    assert not [one for one in shown if one and one.rpartition(".")[2] in logs]
    assert PASSWORD not in logs
