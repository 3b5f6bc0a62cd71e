"""Where Kafka keeps what it knows of a group, and how it is told who we are."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import Terminal
from headrace.kafka.coordination import java_hash, partition_for
from headrace.kafka.scram import ScramClient
from tests.support.kafkacli import KafkaCommands


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),
        ("\N{GRINNING FACE}", 1772899),
        ("ä", 228),
    ],
)
def test_the_hash_is_java_s(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.parametrize(
    ("key", "partitions", "partition"), [("my-group", 50, 12), ("kafka-txn-0", 50, 30), ("polygenelubricants", 50, 0)]
)
def test_a_key_belongs_to_the_partition_that_kafka_says(key: str, partitions: int, partition: int) -> None:
    assert partition_for(key, partitions) == partition


@given(st.text(), st.integers(1, 1000))
def test_every_key_has_a_partition_that_exists(key: str, partitions: int) -> None:
    assert 0 <= partition_for(key, partitions) < partitions


def test_without_a_cluster_the_partition_is_computed() -> None:
    kafka = KafkaCommands()
    assert kafka("coordinator", "my-group", "--partitions", 50).out == "12\n"
    assert kafka("coordinator", "my-group", "--partitions", 10, "-o", "json").data == {
        "key": "my-group",
        "topic": "__consumer_offsets",
        "partition": 2,
        "partitions": 10,
    }


def exchange() -> tuple[ScramClient, bytes]:
    """The example of RFC 7677, section 3, as far as the server's challenge."""
    client = ScramClient("sha256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    return client, b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_a_scram_login_is_that_of_the_rfc() -> None:
    client, challenge = exchange()
    assert client.final(challenge).decode() == (
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("answer", [b"v=" + base64.b64encode(bytes(32)), b"v=", b"", b"e=other-error"])
def test_a_server_that_does_not_know_the_password_is_refused(answer: bytes) -> None:
    client, challenge = exchange()
    client.final(challenge)
    with pytest.raises(Terminal, match="could not prove"):
        client.check(answer)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=another,s=AAAA,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=AAAA,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=100",
        b"",
        b"junk",
    ],
)
def test_a_challenge_that_answers_nothing_or_is_weak_is_refused(challenge: bytes) -> None:
    client, _ = exchange()
    with pytest.raises(Terminal, match="not an answer to ours"):
        client.final(challenge)
