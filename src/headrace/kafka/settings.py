"""Where a Kafka is and how to talk to it, turned once into the settings of each client that we use.

`Auth` and `load_auth` are offered here too, so that callers need one module.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Any

from headrace.base.errors import UsageError
from headrace.kafka.auth import Auth, Mechanism, TokenProvider
from headrace.kafka.authfile import load_auth
from headrace.kafka.pem import pkcs8
from headrace.kafka.tokens import msk_token

__all__ = ["LIBRARY_LOG", "Auth", "KafkaSettings", "load_auth"]

LIBRARY_LOG = logging.getLogger("headrace.kafka.librdkafka")
"""Where clients that are polled send what librdkafka has to say (setting `logger`); else it goes to standard error."""

_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,/\[\]]+):(\d{1,5})")
_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class KafkaSettings:
    """One Kafka, seen by one identity. Picklable; `repr` shows no secret.

    `bootstrap_servers` is a comma-separated list of `host:port`; raises `UsageError` when it is not.
    """

    bootstrap_servers: str
    auth: Auth = field(default_factory=Auth.none)

    def __post_init__(self) -> None:
        for server in self.bootstrap_servers.split(","):
            match = _SERVER.fullmatch(server.strip())
            if not match or not 0 < int(match[2]) < 65536:
                raise UsageError(
                    f"{server.strip()!r} is not host:port",
                    subject=f"bootstrap servers {self.bootstrap_servers!r}",
                    hint="Give a comma-separated list such as kafka-0:9092,kafka-1:9092",
                )

    def client(self, **overrides: Any) -> dict[str, Any]:
        """Configuration for a librdkafka client.

        `overrides` are added; their names are the library's (`**{"group.id": ...}`) or written with `_` for each dot (`group_id`).
        """
        return self._librdkafka() | {_librdkafka_name(name): value for name, value in overrides.items()}

    def spark(self) -> dict[str, str]:
        """Options for Spark's Kafka source and sink, each with the prefix `kafka.`."""
        return {f"kafka.{name}": value for name, value in self.java().items()}

    def java(self) -> dict[str, str]:
        """Properties for Kafka's own (Java) clients and tools."""
        auth = self.auth
        properties = {"bootstrap.servers": self._servers, "security.protocol": auth.protocol.value}
        if auth.mechanism:
            properties |= {"sasl.mechanism": auth.mechanism.value, **_login(auth)}
        if auth.ca_crt:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": auth.ca_crt}
        if auth.user_key:
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": auth.user_crt,
                "ssl.keystore.key": pkcs8(auth.user_key),
            }
        return properties

    def java_options(self) -> list[str]:
        """Options that a Java with such clients must be started with: a token endpoint has to be allowed there."""
        endpoint = self.auth.token_endpoint
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint}"] if endpoint else []

    @property
    def _servers(self) -> str:
        return ",".join(server.strip() for server in self.bootstrap_servers.split(","))

    def _librdkafka(self) -> dict[str, Any]:
        auth = self.auth
        conf: dict[str, Any] = {
            "bootstrap.servers": self._servers,
            "security.protocol": auth.protocol.value,
            "socket.nagle.disable": True,
            "socket.keepalive.enable": True,
        }
        if auth.mechanism is Mechanism.OAUTHBEARER:
            conf |= {"sasl.mechanism": auth.mechanism.value, **_token_source(auth)}
        elif auth.mechanism:
            conf |= {"sasl.mechanism": auth.mechanism.value, "sasl.username": auth.user, "sasl.password": auth.password}
        if auth.ca_crt:
            conf["ssl.ca.pem"] = auth.ca_crt
        if auth.user_key:
            conf |= {"ssl.certificate.pem": auth.user_crt, "ssl.key.pem": auth.user_key}
        return conf


def _librdkafka_name(name: str) -> str:
    """Callbacks, and one setting, are spelt with underscores."""
    return name if name == "log_level" or name.endswith("_cb") else name.replace("_", ".")


def _token_source(auth: Auth) -> dict[str, Any]:
    if auth.token_provider is not TokenProvider.CLIENT_CREDENTIALS:
        return {"oauth_cb": msk_token(auth)}
    source = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": auth.token_endpoint,
        "sasl.oauthbearer.client.id": auth.user,
        "sasl.oauthbearer.client.secret": auth.password,
    }
    return source | ({"sasl.oauthbearer.scope": auth.token_scope} if auth.token_scope else {})


def _login(auth: Auth) -> dict[str, str]:
    """How a Java client logs in: the JAAS entry, and for tokens the class that gets them."""
    if auth.mechanism is not Mechanism.OAUTHBEARER:
        module = "plain.PlainLoginModule" if auth.mechanism is Mechanism.PLAIN else "scram.ScramLoginModule"
        return {"sasl.jaas.config": _jaas(f"{_LOGIN}.{module}", username=auth.user, password=auth.password)}
    module = f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule"
    if auth.token_provider is TokenProvider.CLIENT_CREDENTIALS:
        scope = {"scope": auth.token_scope} if auth.token_scope else {}
        return {
            "sasl.jaas.config": _jaas(module, clientId=auth.user, clientSecret=auth.password, **scope),
            "sasl.login.callback.handler.class": f"{_LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": auth.token_endpoint,
        }
    role = {"awsRoleArn": auth.role_arn, "awsStsRegion": auth.aws_region} if auth.role_arn else {}
    return {
        "sasl.jaas.config": _jaas(module, **role),
        "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
    }


_JAAS_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def _jaas(module: str, **options: str) -> str:
    """One JAAS entry; values are quoted as `java.io.StreamTokenizer` reads them."""
    words = [f'{name}="{value.translate(_JAAS_ESCAPES)}"' for name, value in options.items()]
    return " ".join([module, "required", *words]) + ";"
