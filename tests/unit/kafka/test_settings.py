"""One connection, in the words of each client: librdkafka, Spark, Java."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType

import pytest
from confluent_kafka import Producer
from cryptography.hazmat.primitives import serialization

from headrace.base.errors import Terminal, UsageError
from headrace.kafka.cluster.certificates import Authority
from headrace.kafka.settings import Auth, KafkaSettings

AUTHORITY = Authority("unit")
PAIR = AUTHORITY.user("ann")


def settings(**keys: str) -> KafkaSettings:
    return KafkaSettings("k1:9092, k2:9093", Auth.from_secret({key.replace("_", "."): value for key, value in keys.items()}))


@pytest.mark.parametrize("servers", ["k:9092", "k1:9092,k2:9092", "10.0.0.1:1", "[::1]:9092", " k:9092 , j:9092 "])
def test_lists_of_servers_are_taken(servers: str) -> None:
    assert KafkaSettings(servers).bootstrap_servers == servers


@pytest.mark.parametrize(
    "servers", ["", "k", "k:", ":9092", "k:0", "k:65536", "k:9092,", "PLAINTEXT://k:9092", "k:9092 j:9092"]
)
def test_what_is_no_list_of_servers_is_refused(servers: str) -> None:
    with pytest.raises(UsageError, match="is not host:port"):
        KafkaSettings(servers)


def test_a_plain_connection_has_no_credentials() -> None:
    plain = KafkaSettings("k:9092")
    assert plain.java() == {"bootstrap.servers": "k:9092", "security.protocol": "PLAINTEXT"}
    assert plain.spark() == {"kafka.bootstrap.servers": "k:9092", "kafka.security.protocol": "PLAINTEXT"}
    assert plain.client()["security.protocol"] == "PLAINTEXT"
    assert plain.java_options() == []


def test_overrides_may_be_named_either_way() -> None:
    conf = KafkaSettings("k:9092").client(group_id="g", log_level=3, error_cb=print, **{"linger.ms": 1})
    assert (conf["group.id"], conf["log_level"], conf["error_cb"], conf["linger.ms"]) == ("g", 3, print, 1)


def test_scram_over_tls() -> None:
    one = settings(
        protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", user="ann", password='a"b\\c', ca_crt=AUTHORITY.certificate
    )
    conf, java = one.client(), one.java()
    assert (conf["sasl.mechanism"], conf["sasl.username"], conf["sasl.password"]) == ("SCRAM-SHA-256", "ann", 'a"b\\c')
    assert conf["ssl.ca.pem"] == AUTHORITY.certificate.strip()
    assert java["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a\\"b\\\\c";'
    )
    assert (java["ssl.truststore.type"], java["ssl.truststore.certificates"]) == ("PEM", AUTHORITY.certificate.strip())
    assert one.spark() == {f"kafka.{name}": value for name, value in java.items()}


def test_java_gets_a_pkcs8_key_whatever_form_was_given() -> None:
    key = serialization.load_pem_private_key(PAIR.key.encode(), None)
    old = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()
    assert "EC PRIVATE KEY" in old
    one = settings(protocol="SSL", user_crt=PAIR.certificate, user_key=old)
    assert one.java()["ssl.keystore.key"] == PAIR.key
    assert one.client()["ssl.key.pem"] == old.strip()


def test_client_credentials() -> None:
    one = KafkaSettings(
        "k:9092",
        Auth.from_secret(
            {
                "protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "tokenProvider": "ClientCredentialsTokenProvider",
                "tokenEndpoint": "https://id.example/token",
                "tokenScope": "events",
                "user": "ann",
                "password": "hidden",
            }
        ),
    )
    conf, java = one.client(), one.java()
    assert conf["sasl.oauthbearer.method"] == "oidc"
    assert conf["sasl.oauthbearer.client.secret"] == "hidden"
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://id.example/token"
    assert 'clientId="ann" clientSecret="hidden" scope="events"' in java["sasl.jaas.config"]
    assert one.java_options() == ["-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://id.example/token"]
    Producer(conf).flush(0)


MSK = {
    "protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "tokenProvider": "MSKRoleAccessTokenProvider",
    "roleARN": "arn:aws:iam::1:role/x",
    "awsRegion": "eu-west-1",
}


def test_msk_tokens_come_from_amazons_package(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def of_role(region: str, role: str) -> tuple[str, int]:
        asked.append((region, role))
        return "token", 1_700_000_000_000

    module = ModuleType("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    module.generate_auth_token_from_role_arn = of_role  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", ModuleType("aws_msk_iam_sasl_signer"))
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", module)
    one = KafkaSettings("k:9092", Auth.from_secret(MSK))
    assert one.client()["oauth_cb"]("") == ("token", 1_700_000_000.0)
    assert asked == [("eu-west-1", "arn:aws:iam::1:role/x")]
    assert 'awsRoleArn="arn:aws:iam::1:role/x" awsStsRegion="eu-west-1"' in one.java()["sasl.jaas.config"]


def test_without_that_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(Terminal, match="pip install aws-msk-iam-sasl-signer-python"):
        KafkaSettings("k:9092", Auth.from_secret(MSK)).client()


def test_settings_travel_and_show_no_secret() -> None:
    one = settings(protocol="SASL_PLAINTEXT", user="ann", password="hidden")
    assert pickle.loads(pickle.dumps(one)) == one
    assert "hidden" not in repr(one)
    assert len({one, settings(protocol="SASL_PLAINTEXT", user="ann", password="hidden")}) == 1
