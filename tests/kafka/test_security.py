"""Every way to log in that an auth file can name, against one real Kafka (on the bundled Java) that asks for all of them."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Terminal
from headrace.kafka.admin import Admin
from headrace.kafka.auth import Mechanism, Protocol
from headrace.kafka.cluster.certificates import Authority, Pair
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.java import java_home
from headrace.kafka.node import Listener, render_properties
from headrace.kafka.ports import free_port
from headrace.kafka.runtime import QUICK_JVM, KafkaRuntime
from headrace.kafka.settings import Auth, KafkaSettings, load_auth
from headrace.kafka.table import TableReader, TableWriter
from tests.support.securedkafka import LOGIN, SCRAM, asks_for_certificate, set_password, shows_certificate
from tests.support.tokenserver import AUDIENCE, CLIENT, SCOPE, SECRET, TokenServer

USER, PASSWORD = "ann", 'pa"ss\\word; with=all, sorts'
_PASSWORD_IN_JAAS = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(frozen=True)
class Secured:
    """A running Kafka, its listeners by name, and the certificates."""

    broker: EmbeddedKafka
    ports: Mapping[str, int]
    authority: Authority
    identity: Pair
    tokens: TokenServer

    def secrets(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Case -> (listener, the keys of the Secret)."""
        login = {"user": USER, "password": PASSWORD}
        ca = {"ca.crt": self.authority.certificate}
        pair = {"user.crt": self.identity.certificate, "user.key": self.identity.key}
        token = {
            "tokenProvider": "ClientCredentialsTokenProvider",
            "tokenEndpoint": self.tokens.endpoint,
            "tokenScope": SCOPE,
            "user": CLIENT,
            "password": SECRET,
        }
        return {
            "scram-512-tls": ("SECURE", {"protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **login, **ca}),
            "scram-256-tls": ("SECURE", {"protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", **login, **ca}),
            "plain-tls": ("SECURE", {"protocol": "SASL_SSL", **login, **ca}),
            "plain": ("LOGIN", {"protocol": "SASL_PLAINTEXT", **login}),
            "scram": ("LOGIN", {"protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", **login}),
            "mutual-tls": ("MUTUAL", {"protocol": "SSL", **ca, **pair}),
            "tls": ("TLS", {"protocol": "SSL", "user.skip": "true", **ca}),
            "oauth-tls": ("SECURE", {"protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **token, **ca}),
            "legacy-tls": ("SECURE", {"username": USER, "password": PASSWORD, "saslType": "SCRAM-SHA-512", **ca}),
        }

    def settings(self, case: str, **changes: str) -> KafkaSettings:
        listener, data = self.secrets()[case]
        auth = Auth.from_secret({**data, **{key.replace("_", "."): value for key, value in changes.items()}})
        return KafkaSettings(f"127.0.0.1:{self.ports[listener]}", auth)


CASES = ("scram-512-tls", "scram-256-tls", "plain-tls", "plain", "scram", "mutual-tls", "tls", "oauth-tls", "legacy-tls")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority("test authority")
    tls, tokens = shows_certificate(authority), TokenServer()
    login = {
        **SCRAM,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "plain.sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{_PASSWORD_IN_JAAS}";',
    }
    bearer = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": f"{LOGIN}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": tokens.keys,
        "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    ports = {name: free_port() for name in ("SECURE", "LOGIN", "MUTUAL", "TLS")}
    listeners = (
        Listener("SECURE", ports["SECURE"], Protocol.SASL_SSL, properties={**tls, **login, **bearer}),
        Listener("LOGIN", ports["LOGIN"], Protocol.SASL_PLAINTEXT, properties=login),
        Listener("MUTUAL", ports["MUTUAL"], Protocol.SSL, properties={**tls, **asks_for_certificate(authority)}),
        Listener("TLS", ports["TLS"], Protocol.SSL, properties=tls),
    )
    broker = EmbeddedKafka(
        tmp_path_factory.mktemp("secured"),
        java=java_home("bundled"),
        listeners=listeners,
        jvm_options=(*QUICK_JVM, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.keys}"),
    )
    with tokens.running(), broker:
        set_password(broker.settings, USER, PASSWORD, (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512))
        yield Secured(broker, ports, authority, authority.user(USER), tokens)


@pytest.mark.parametrize("case", CASES)
def test_admin_tables_producers_and_groups_work_with(case: str, secured: Secured) -> None:
    settings, topic = secured.settings(case), f"t-{uuid.uuid4().hex}"
    admin = Admin(settings)
    admin.create_topic(topic, 1)
    producer = Producer(settings.client(acks="all"))
    producer.produce(topic, key="plain", value=b"0", partition=0)
    assert producer.flush(20) == 0
    writer = TableWriter(settings, topic, transactional_id=topic)
    writer.init()
    last = writer.put_all([("a", b"1"), ("b", b"2")])
    seen: list[str] = []
    reader = TableReader(settings, topic, lambda key, value, offset: seen.append(key))
    reader.start()
    reader.wait_applied(last, Deadline(20))
    reader.close()
    writer.close()
    assert seen == ["plain", "a", "b"]
    assert admin.commit_group_offsets(topic, topic, {0: 2}) == {}
    assert admin.group_offsets(topic, topic) == {0: 2}
    admin.delete_group(topic)


@pytest.mark.parametrize("case", ["scram-512-tls", "mutual-tls", "oauth-tls"])
def test_kafkas_own_java_tools_work_with(case: str, secured: Secured, tmp_path: Path) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    Admin(secured.broker.settings).create_topic(topic, 1)
    settings = secured.settings(case)
    properties = tmp_path / "client.properties"
    properties.write_text(render_properties(settings.java()))
    arguments = ["--bootstrap-server", settings.bootstrap_servers, "--command-config", str(properties), "--list"]
    runtime = KafkaRuntime.ready(java_home("bundled"))
    command = runtime.command("org.apache.kafka.tools.TopicCommand", arguments, options=[*QUICK_JVM, *settings.java_options()])
    done = subprocess.run(command.argv, env=dict(command.env), capture_output=True, text=True, timeout=120, check=False)
    assert topic in done.stdout.split(), done.stdout + done.stderr


@pytest.mark.parametrize("case", ["scram-512-tls", "plain", "oauth-tls"])
def test_a_wrong_password_is_told_at_once(case: str, secured: Secured) -> None:
    settings = secured.settings(case, password="wrong")
    with pytest.raises(Terminal, match="auth file") as told:
        Admin(settings, timeout=60).topics()
    assert "wrong" not in str(told.value)
    reader = TableReader(settings, "any", lambda key, value, offset: None)
    reader.start()
    with pytest.raises(Terminal, match="auth file"):
        reader.wait_ready(Deadline(60))
    reader.close()


def test_a_kafka_whose_certificate_nobody_we_trust_has_signed_is_refused(secured: Secured) -> None:
    stranger = secured.settings("tls", **{"ca.crt": Authority("a stranger").certificate})
    with pytest.raises(Terminal, match=r"ca\.crt"):
        Admin(stranger, timeout=60).cluster_info()


def test_a_client_without_certificate_is_not_let_in(secured: Secured) -> None:
    listener = KafkaSettings(f"127.0.0.1:{secured.ports['MUTUAL']}", secured.settings("tls").auth)
    with pytest.raises(HeadraceError, match="Kafka at"):
        Admin(listener, timeout=3).cluster_info()


def test_an_auth_file_is_all_that_is_needed(secured: Secured, tmp_path: Path) -> None:
    listener, data = secured.secrets()["scram-512-tls"]
    path = tmp_path / "secret.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"}, "stringData": data}))
    settings = KafkaSettings(f"127.0.0.1:{secured.ports[listener]}", load_auth(path))
    assert Admin(settings).cluster_info().brokers
