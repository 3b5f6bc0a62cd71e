"""What is secret is hidden wherever it stands; what is not stays readable."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.masking import HIDDEN, Masker, is_secret_name, looks_random

JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nAoIBAQC7\n-----END PRIVATE KEY-----"

HIDES = {
    "a property": ("sasl.password=Tr0ub4dor", "Tr0ub4dor"),
    "a property with spaces": ("ssl.key.password = p4ss w0rd", "p4ss"),
    "a YAML key": ("  password: hunter2hunter2\n", "hunter2hunter2"),
    "a quoted YAML key": ("password: 'it has spaces'", "it has spaces"),
    "a JSON key": ('{"clientSecret": "abc\\"def", "x": 1}', 'abc\\"def'),
    "JSON within JSON": ('{"log": "{\\"password\\": \\"inner-one\\"}"}', "inner-one"),
    "an environment variable": ("DB_PASSWORD=correct-horse", "correct-horse"),
    "an API key": ("X_API_KEY=0a1b2c3d", "0a1b2c3d"),
    "a flag": ("run --sasl-password s3cr3tw0rd --port 1", "s3cr3tw0rd"),
    "a flag with an equals sign": ("run --token=s3cr3tw0rd", "s3cr3tw0rd"),
    "a JAAS entry": (
        'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="adm pw";',
        "adm pw",
    ),
    "a JAAS entry in a log": ('Login: PlainLoginModule required username="u" password="pw-in-log" ;', "pw-in-log"),
    "an OAuth JAAS entry": ('OAuthBearerLoginModule required clientId="me" clientSecret="cs-1234" scope="a";', "cs-1234"),
    "a URL's password": ("http://user:pa55w@host:8080/path", "pa55w"),
    "a URL's token": ("https://0123456789abcdef01@git.example/x", "0123456789abcdef01"),
    "a query parameter": ("GET /x?access_token=tok3n&y=1", "tok3n"),
    "a signed URL": ("https://a.blob/x?sv=1&sig=Ab%2Bcd%3D&se=2", "Ab%2Bcd%3D"),
    "a bearer header": ("Authorization: Bearer abc.def-123", "abc.def-123"),
    "a basic header": ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "a header as JSON": ('{"Authorization": "Bearer zzzz1111"}', "zzzz1111"),
    "a bearer token in a sentence": ("sent Bearer 9f8e7d6c5b", "9f8e7d6c5b"),
    "a cookie": ("Cookie: session=abcdef; other=1", "abcdef"),
    "a header of one's own": ("X-Auth-Token: 77aa88bb", "77aa88bb"),
    "a private key": (f"key:\n{PEM}\nend", "AoIBAQC7"),
    "a private key on one line": (json.dumps({"x": PEM}), "AoIBAQC7"),
    "a private key cut short": (PEM[:70], "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"),
    "a JSON Web Token": (f"got {JWT} from", JWT.split(".")[2]),
    "an Amazon key": ("using AKIAIOSFODNN7EXAMPLE now", "AKIAIOSFODNN7EXAMPLE"),
    "a GitHub token": ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    "a random word": ("value wJalrXUtnFEMI7K7MDENGbPxRfiCYEXAMPLEKEY0 here", "wJalrXUtnFEMI7K7MDENGbPxRfiCYEXAMPLEKEY0"),
    "an XML element": ("<password>xml-pw</password>", "xml-pw"),
    "a connection string": ("AccountKey=Zm9vYmFyYmF6;EndpointSuffix=x", "Zm9vYmFyYmF6"),
}

KEEPS = [
    "secretName: kafka-auth",
    "authSecret: {name: kafka, namespace: x}",
    "sasl.oauthbearer.token.endpoint.url=https://auth.example/token",
    "tokenProvider: MSKAccessTokenProvider",
    "automountServiceAccountToken: false",
    "kind: Secret",
    "baseOffset: 0 lastOffset: 2 key: my-key payload: hello",
    "2026-11-28T04:10:59,574 INFO [QuorumController id=1] Created topic t with topic ID zht3cmBDRamEjPTM10K0VQ. (ReplicationControlManager)",
    "image: registry.example/headrace@sha256:8f3a1bb1a2d3c4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d",
    "uid: 8c6f9a0e-6f0a-4c8e-9a55-0a2f7c0f4b1d",
    "at org.apache.kafka.common.security.authenticator.SaslClientAuthenticator.authenticate(SaslClientAuthenticator.java:301)",
    "path: /var/lib/kafka/data-0/kafka-log10/my-topic-0/00000000000000000000.log",
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "http://user@host/x and http://host:8080/default/orders",
    "Basic auth is not supported; Bearer token expected",
    "password=",
    'password: ""',
    "Ready=True, reason: SecretNotFound",
    "partitionkey: order-7",
    "HEADRACE_KAFKA_AUTH=/etc/headrace/auth.yaml",
    "at java.util.concurrent.locks.AQS.await(java.base@17.0.19/AbstractQueuedSynchronizer.java:1630)",
    "data-plane-kafka-network-thread-1-CONTROLLER-PLAINTEXT-2",
    "PWD=/home/me",
    "password: SASL_SSL",
]


@pytest.mark.parametrize("case", HIDES)
def test_a_secret_is_hidden_where_secrets_stand(case: str) -> None:
    text, secret = HIDES[case]
    masked = Masker().text(text)
    assert secret not in masked, masked
    assert HIDDEN in masked


@pytest.mark.parametrize("text", KEEPS)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    masker = Masker()
    assert masker.text(text) == text
    assert masker.text(json.dumps({"log": text})) == json.dumps({"log": text})


def test_around_a_secret_everything_stays() -> None:
    text = 'user=me password="x y" host=h url=http://u:p@h/p?token=t&n=1 end'
    assert Masker().text(text) == f'user=me password="{HIDDEN}" host=h url=http://u:{HIDDEN}@h/p?token={HIDDEN}&n=1 end'


@pytest.mark.parametrize(
    "shown",
    [
        "it is {} here",
        '{{"a": "{}"}}',
        "x={}&y",
    ],
)
def test_what_is_known_to_be_secret_is_hidden_anywhere_in_all_its_forms(shown: str) -> None:
    secret = "o'ne \"t/wo' & ü"
    masker = Masker()
    masker.learn(secret)
    forms = [
        secret,
        json.dumps(secret)[1:-1],
        base64.b64encode(secret.encode()).decode(),
        "o%27ne%20%22t%2Fwo%27%20%26%20%C3%BC",
    ]
    for form in forms:
        assert masker.text(shown.format(form)) == shown.format(HIDDEN)


def test_short_words_are_not_hidden_everywhere() -> None:
    masker = Masker()
    masker.learn("ab")
    assert masker.text("about password=ab") == f"about password={HIDDEN}"


SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "kafka",
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"stringData":{"word":"planted-one"}}',
            "kept": "yes",
        },
    },
    "data": {"user.key": base64.b64encode(b"planted-two").decode(), "ca.p12": "AAAA"},
    "stringData": {"word": "planted-three"},
}


def test_a_secret_object_keeps_its_keys_and_nothing_else() -> None:
    shown = Masker().data({"items": [SECRET]})["items"][0]
    assert shown["data"] == {"user.key": HIDDEN, "ca.p12": HIDDEN}
    assert shown["stringData"] == {"word": HIDDEN}
    assert shown["metadata"]["annotations"] == {"kubectl.kubernetes.io/last-applied-configuration": HIDDEN, "kept": "yes"}
    assert "planted" not in json.dumps(shown)


def test_a_secret_object_is_shown_on_request() -> None:
    assert Masker().data({"items": [SECRET]}, show_secrets=True) == {"items": [SECRET]}


def test_the_content_of_secret_objects_is_learnt() -> None:
    masker = Masker()
    masker.learn_from([SECRET])
    assert masker.text("planted-two planted-three cGxhbnRlZC10d28= AAAA") == f"{HIDDEN} {HIDDEN} {HIDDEN} AAAA"


def test_values_are_hidden_by_the_name_beside_them() -> None:
    data = {
        "env": [{"name": "DB_PASSWORD", "value": "pw1"}, {"name": "PORT", "value": "80"}],
        "spec": {"tokens": {"apiKey": "k1"}},
    }
    assert Masker().data(data) == {
        "env": [{"name": "DB_PASSWORD", "value": HIDDEN}, {"name": "PORT", "value": "80"}],
        "spec": {"tokens": {"apiKey": HIDDEN}},
    }
    masker = Masker()
    masker.learn_from({"env": [{"name": "DB_PASSWORD", "value": "learnt-pw"}], "clientSecret": "learnt-cs"})
    assert masker.text("learnt-pw, learnt-cs") == f"{HIDDEN}, {HIDDEN}"


def test_the_password_of_a_url_is_hidden_without_the_url_too() -> None:
    masker = Masker()
    masker.learn_from({"DATABASE": "postgres://me:p%40ss-of-url@host/db"})
    assert masker.text("login me with p@ss-of-url failed") == f"login me with {HIDDEN} failed"


@pytest.mark.parametrize(
    "file",
    [
        "linger.ms=5\nssl.key.password=sloe-and-fig\n",
        "login:\n  password: sloe-and-fig\n",
        '{"a": [{"clientSecret": "sloe-and-fig"}]}',
        'sasl.jaas.config=ScramLoginModule required username="u" password="sloe-and-fig";',
        'a=b\nsasl.jaas.config=ScramLoginModule required username="u" password="sloe-and-fig";\n',
        json.dumps({"kind": "Secret", "stringData": {"word": "sloe-and-fig"}}),
    ],
)
def test_what_a_configuration_says_is_secret_is_hidden_elsewhere_too(file: str) -> None:
    masker = Masker()
    masker.learn_from({"kind": "ConfigMap", "data": {"file": file}})
    assert masker.text("no login of u with sloe-and-fig") == f"no login of u with {HIDDEN}"


def test_text_within_data_is_read_too() -> None:
    config = {"kind": "ConfigMap", "data": {"app.properties": "user=u\npassword=inside\n", "plain": "x"}}
    assert Masker().data(config)["data"] == {"app.properties": f"user=u\npassword={HIDDEN}\n", "plain": "x"}


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "ssl.keystore.key",
        "ca.key",
        "MY_TOKEN",
        "sasl.jaas.config",
        "aws_secret_access_key",
        "client-secret",
        "_SPARK_AUTH_SECRET",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "secretName",
        "secret.ref.name",
        "key",
        "monkey",
        "tokenEndpoint",
        "partitionkey",
        "partition_key",
        "keyType",
        "password.file",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


@given(st.text(max_size=200))
def test_masking_again_changes_nothing(text: str) -> None:
    masker = Masker()
    once = masker.text(text)
    assert masker.text(once) == once


@given(st.binary(min_size=24, max_size=48))
def test_random_words_are_hidden_whatever_their_bytes(raw: bytes) -> None:
    word = base64.b64encode(raw).decode()
    if looks_random(word.rstrip("=")):
        assert word.rstrip("=") not in Masker().text(f"value {word} here")


def test_a_masked_document_is_still_yaml() -> None:
    text = yaml.safe_dump({"password": "x y", "list": [{"token": "a: b"}], "url": "http://u:p@h"})
    assert yaml.safe_load(Masker().text(text)) == {
        "password": HIDDEN,
        "list": [{"token": HIDDEN}],
        "url": f"http://u:{HIDDEN}@h",
    }
