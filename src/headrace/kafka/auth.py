"""How to prove who we are to a Kafka: the value, and its reading from the data of a Secret.

The keys are those of the peer's auth Secret (knative-extensions/eventing-kafka-broker, `security/secret.go`), in the new format (with
`protocol`) and in the legacy one of KafkaChannel (without). Nothing secret appears in `repr` or in the text of an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from headrace.base.errors import Terminal
from headrace.kafka.pem import PemError, check_certificates, check_key_pair

E = TypeVar("E", bound=StrEnum)


class Protocol(StrEnum):
    """`security.protocol` of every Kafka client."""

    PLAINTEXT = "PLAINTEXT"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SSL = "SSL"
    SASL_SSL = "SASL_SSL"

    @property
    def sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)

    @property
    def tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)


class Mechanism(StrEnum):
    """`sasl.mechanism`."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class TokenProvider(StrEnum):
    """Where the tokens of OAUTHBEARER come from; the last one is ours: the client credentials grant of an OAuth 2 server."""

    MSK_ACCESS = "MSKAccessTokenProvider"
    MSK_ROLE = "MSKRoleAccessTokenProvider"
    CLIENT_CREDENTIALS = "ClientCredentialsTokenProvider"


@dataclass(frozen=True)
class Auth:
    """One way to authenticate. Certificates and keys are PEM texts; an empty text means not set (`ca_crt`: the system's CAs).

    With `TokenProvider.CLIENT_CREDENTIALS`, `user` and `password` are the client's id and secret.
    """

    protocol: Protocol = Protocol.PLAINTEXT
    mechanism: Mechanism | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    ca_crt: str = field(default="", repr=False)
    user_crt: str = field(default="", repr=False)
    user_key: str = field(default="", repr=False)
    token_provider: TokenProvider | None = None
    token_endpoint: str = ""
    token_scope: str = ""
    role_arn: str = ""
    aws_region: str = ""

    @classmethod
    def none(cls) -> Auth:
        """Plain connections, no identity."""
        return cls()

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes | str], subject: str = "secret") -> Auth:
        """Read the decoded `data` of a Secret (key -> value).

        Raises `Terminal` naming the key that is wrong. Unknown keys, and those that the protocol has no use for, are ignored.
        """
        keys = _Keys(data, subject)
        protocol = keys.choice("protocol", Protocol) if keys.has("protocol") else _legacy_protocol(keys)
        sasl = _sasl(keys) if protocol.sasl else {}
        tls = _tls(keys, protocol) if protocol.tls else {}
        return cls(protocol=protocol, **sasl, **tls)


class _Keys:
    """The keys of a Secret as text, with errors that name them."""

    def __init__(self, data: Mapping[str, bytes | str], subject: str) -> None:
        self._data = data
        self.subject = subject

    def has(self, key: str) -> bool:
        return bool(self._data.get(key))

    @property
    def is_legacy(self) -> bool:
        return not self.has("protocol")

    def text(self, *names: str) -> str:
        """The value of the first of `names` that is set, without line ends at its end; empty when none is."""
        for name in names:
            if self.has(name):
                value = self._data[name]
                try:
                    return (value.decode() if isinstance(value, bytes) else value).rstrip("\r\n")
                except UnicodeDecodeError:
                    raise self.wrong(name, "is not UTF-8 text") from None
        return ""

    def required(self, *names: str, why: str) -> str:
        value = self.text(*names)
        if not value:
            raise self.wrong(names[0], f"is missing or empty: {why}")
        return value

    def flag(self, key: str) -> bool:
        value = self.text(key)
        if value in ("", "0", "f", "F", "false", "False", "FALSE"):
            return False
        if value in ("1", "t", "T", "true", "True", "TRUE"):
            return True
        raise self.wrong(key, f"must be true or false, not {value!r}")

    def choice(self, key: str, kind: type[E]) -> E:
        value = self.text(key)
        try:
            return kind(value)
        except ValueError:
            raise self.wrong(key, f"must be one of {', '.join(kind)}, not {value!r}") from None

    def wrong(self, key: str, what: str) -> Terminal:
        return Terminal(f"key {key} {what}", subject=self.subject)


def _legacy_protocol(keys: _Keys) -> Protocol:
    """The protocol of a Secret that does not name it, inferred as the peer does for its older KafkaChannel Secrets."""
    tls = keys.flag("tls.enabled") or keys.has("ca.crt")
    sasl = keys.has("password") and (keys.has("user") or keys.has("username"))
    if not (tls or sasl):
        raise keys.wrong("protocol", f"is missing: give one of {', '.join(Protocol)}")
    return {
        (True, True): Protocol.SASL_SSL,
        (True, False): Protocol.SSL,
        (False, True): Protocol.SASL_PLAINTEXT,
    }[tls, sasl]


def _sasl(keys: _Keys) -> dict[str, Any]:
    named = next((key for key in ("sasl.mechanism", "saslType", "sasltype") if keys.has(key)), None)
    mechanism = keys.choice(named, Mechanism) if named else Mechanism.PLAIN
    if mechanism is Mechanism.OAUTHBEARER:
        return {"mechanism": mechanism} | _tokens(keys)
    return {
        "mechanism": mechanism,
        "user": keys.required("user", "username", why=f"{mechanism} needs a user"),
        "password": keys.required("password", why=f"{mechanism} needs a password"),
    }


def _tokens(keys: _Keys) -> dict[str, Any]:
    if keys.has("sasl.jaas.config") and not keys.has("tokenProvider"):
        raise keys.wrong(
            "sasl.jaas.config",
            f"names Java classes, which only a Java client can load: use tokenProvider ({', '.join(TokenProvider)}) instead",
        )
    keys.required("tokenProvider", why=f"OAUTHBEARER needs one of {', '.join(TokenProvider)}")
    provider = keys.choice("tokenProvider", TokenProvider)
    if provider is TokenProvider.CLIENT_CREDENTIALS:
        endpoint = keys.required("tokenEndpoint", why="the URL that gives tokens")
        if not endpoint.startswith(("https://", "http://")):
            raise keys.wrong("tokenEndpoint", f"must be an http or https URL, not {endpoint!r}")
        return {
            "token_provider": provider,
            "token_endpoint": endpoint,
            "token_scope": keys.text("tokenScope"),
            "user": keys.required("user", why="the id of the client"),
            "password": keys.required("password", why="the secret of the client"),
        }
    role = keys.required("roleARN", why=f"{provider} needs a role") if provider is TokenProvider.MSK_ROLE else ""
    return {
        "token_provider": provider,
        "role_arn": role,
        "aws_region": keys.required("awsRegion", why=f"{provider} needs a region"),
    }


def _tls(keys: _Keys, protocol: Protocol) -> dict[str, Any]:
    ca, crt, key = keys.text("ca.crt"), keys.text("user.crt"), keys.text("user.key")
    try:
        if ca:
            check_certificates(ca)
    except PemError as error:
        raise keys.wrong("ca.crt", str(error)) from None
    if keys.flag("user.skip"):
        return {"ca_crt": ca}
    needs_identity = protocol is Protocol.SSL and not keys.is_legacy
    if (needs_identity and not key) or (crt and not key):
        raise keys.wrong(
            "user.key", 'is missing or empty: add it, or set user.skip to "true" for TLS without a client certificate'
        )
    if (needs_identity and not crt) or (key and not crt):
        raise keys.wrong(
            "user.crt", 'is missing or empty: add it, or set user.skip to "true" for TLS without a client certificate'
        )
    if key:
        try:
            check_certificates(crt)
        except PemError as error:
            raise keys.wrong("user.crt", str(error)) from None
        try:
            check_key_pair(key, crt)
        except PemError as error:
            raise keys.wrong("user.key", str(error)) from None
    return {"ca_crt": ca, "user_crt": crt, "user_key": key}
