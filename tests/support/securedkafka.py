"""What a test's Kafka needs to ask its clients who they are: listeners with TLS, SCRAM passwords."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.kafka.auth import Mechanism
from headrace.kafka.cluster.certificates import Authority
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
