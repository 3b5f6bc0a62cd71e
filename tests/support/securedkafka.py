"""What a test's Kafka needs to ask its clients who they are: listeners with TLS, SCRAM passwords."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.kafka.auth import Mechanism, Protocol
from headrace.kafka.cluster.certificates import Authority
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.node import Listener
from headrace.kafka.ports import free_port
from headrace.kafka.runtime import QUICK_JVM
from headrace.kafka.settings import KafkaSettings

LOGIN = "org.apache.kafka.common.security"
SCRAM = {
    "scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
    "scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
}
"""Properties of a listener that enables these mechanisms."""
_MECHANISMS = {
    Mechanism.SCRAM_SHA_256: ScramMechanism.SCRAM_SHA_256,
    Mechanism.SCRAM_SHA_512: ScramMechanism.SCRAM_SHA_512,
}


def shows_certificate(authority: Authority) -> dict[str, str]:
    """Properties of a listener with TLS, which shows a certificate of `authority`."""
    server = authority.broker()
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key,
        "ssl.keystore.certificate.chain": server.certificate,
    }


def asks_for_certificate(authority: Authority) -> dict[str, str]:
    """Properties of a listener with TLS whose clients need a certificate of `authority`."""
    return {"ssl.client.auth": "required", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.certificate}


def set_password(
    kafka: KafkaSettings, user: str, password: str, mechanisms: Iterable[Mechanism] = (Mechanism.SCRAM_SHA_512,)
) -> None:
    """Let `user` in with this password from now on; connections that are open stay."""
    client = AdminClient(kafka.client())
    for mechanism in mechanisms:
        wanted = UserScramCredentialUpsertion(user, ScramCredentialInfo(_MECHANISMS[mechanism], 4096), password.encode())
        for future in client.alter_user_scram_credentials([wanted]).values():
            future.result(30)


@dataclass(frozen=True)
class SecuredKafka:
    """A running Kafka that lets nobody in but by password (`login`) or by certificate (`mutual`): addresses of its listeners."""

    broker: EmbeddedKafka
    login: str
    mutual: str
    authority: Authority

    def password(self, user: str, password: str) -> dict[str, str]:
        """The keys of a Secret for `login`; `set_password` lets the user in."""
        keys = {"protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "ca.crt": self.authority.certificate}
        return {**keys, "user": user, "password": password}

    def certificate(self, user: str) -> dict[str, str]:
        """The keys of a Secret for `mutual`."""
        pair = self.authority.user(user)
        keys = {"ca.crt": self.authority.certificate, "user.crt": pair.certificate, "user.key": pair.key}
        return {"protocol": "SSL", **keys}


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Such a Kafka with its data in `folder`, stopped at the end."""
    authority = Authority("authority of the secured Kafka")
    tls = shows_certificate(authority)
    login = Listener(
        "LOGIN", free_port(), Protocol.SASL_SSL, properties={**tls, **SCRAM, "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    )
    mutual = Listener("MUTUAL", free_port(), Protocol.SSL, properties={**tls, **asks_for_certificate(authority)})
    with EmbeddedKafka(folder, listeners=(login, mutual), jvm_options=QUICK_JVM) as broker:
        yield SecuredKafka(broker, login.address, mutual.address, authority)
