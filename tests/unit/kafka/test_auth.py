"""Auth Secrets: the keys of the peer's format, new and legacy, and what is said about each that is wrong."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from headrace.base.errors import HeadraceError, Terminal, UsageError
from headrace.kafka.auth import Auth, Mechanism, Protocol, TokenProvider
from headrace.kafka.authfile import load_auth
from headrace.kafka.cluster.certificates import Authority

AUTHORITY = Authority("unit")
PAIR = AUTHORITY.user("ann")
OTHER = AUTHORITY.user("bob")
CA = AUTHORITY.certificate
LOGIN = {"user": "ann", "password": "hidden"}
MTLS = {"user.crt": PAIR.certificate, "user.key": PAIR.key}
OAUTH = {"protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
TOKENS = {"tokenProvider": "ClientCredentialsTokenProvider", "tokenEndpoint": "https://id.example/token", **LOGIN}
ENCRYPTED = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"hidden")
    )
    .decode()
)


def secret(**keys: str) -> Auth:
    return Auth.from_secret(dict(keys), "secret ns/name")


GOOD: dict[str, tuple[dict[str, str], Auth]] = {
    "plaintext": ({"protocol": "PLAINTEXT"}, Auth.none()),
    "plain is the default mechanism": (
        {"protocol": "SASL_PLAINTEXT", **LOGIN},
        Auth(Protocol.SASL_PLAINTEXT, Mechanism.PLAIN, "ann", "hidden"),
    ),
    "scram": (
        {"protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **LOGIN, "ca.crt": CA},
        Auth(Protocol.SASL_SSL, Mechanism.SCRAM_SHA_512, "ann", "hidden", ca_crt=CA.strip()),
    ),
    "line ends after a password are not part of it": (
        {"protocol": "SASL_PLAINTEXT", "user": "ann\n", "password": "hidden\r\n"},
        Auth(Protocol.SASL_PLAINTEXT, Mechanism.PLAIN, "ann", "hidden"),
    ),
    "mutual TLS": (
        {"protocol": "SSL", "ca.crt": CA, **MTLS},
        Auth(Protocol.SSL, ca_crt=CA.strip(), user_crt=PAIR.certificate.strip(), user_key=PAIR.key.strip()),
    ),
    "TLS without a client certificate, the system's CAs": ({"protocol": "SSL", "user.skip": "true"}, Auth(Protocol.SSL)),
    "user.skip leaves a client certificate out": ({"protocol": "SSL", "user.skip": "1", **MTLS}, Auth(Protocol.SSL)),
    "keys that the protocol has no use for are ignored": ({"protocol": "PLAINTEXT", **LOGIN, "x": "y"}, Auth.none()),
    "client credentials": (
        {**OAUTH, **TOKENS, "tokenScope": "events"},
        Auth(
            Protocol.SASL_SSL,
            Mechanism.OAUTHBEARER,
            "ann",
            "hidden",
            token_provider=TokenProvider.CLIENT_CREDENTIALS,
            token_endpoint="https://id.example/token",
            token_scope="events",
        ),
    ),
    "MSK": (
        {**OAUTH, "tokenProvider": "MSKRoleAccessTokenProvider", "roleARN": "arn:x", "awsRegion": "eu-west-1"},
        Auth(
            Protocol.SASL_SSL,
            Mechanism.OAUTHBEARER,
            token_provider=TokenProvider.MSK_ROLE,
            role_arn="arn:x",
            aws_region="eu-west-1",
        ),
    ),
    "legacy SASL over TLS": (
        {"username": "ann", "password": "hidden", "saslType": "SCRAM-SHA-256", "tls.enabled": "true"},
        Auth(Protocol.SASL_SSL, Mechanism.SCRAM_SHA_256, "ann", "hidden"),
    ),
    "legacy SASL, older spelling": (
        {"user": "ann", "password": "hidden", "sasltype": "PLAIN"},
        Auth(Protocol.SASL_PLAINTEXT, Mechanism.PLAIN, "ann", "hidden"),
    ),
    "legacy TLS by its CA": ({"ca.crt": CA}, Auth(Protocol.SSL, ca_crt=CA.strip())),
    "legacy, an empty ca.crt means nothing": (
        {"ca.crt": "", "username": "ann", "password": "hidden"},
        Auth(Protocol.SASL_PLAINTEXT, Mechanism.PLAIN, "ann", "hidden"),
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_good_secret_is_read(case: str) -> None:
    data, wanted = GOOD[case]
    assert Auth.from_secret(data) == wanted
    assert Auth.from_secret({key: value.encode() for key, value in data.items()}) == wanted


BAD: dict[str, tuple[dict[str, str], str]] = {
    "nothing at all": ({}, "key protocol is missing"),
    "unknown protocol": (
        {"protocol": "TLS"},
        "key protocol must be one of PLAINTEXT, SASL_PLAINTEXT, SSL, SASL_SSL, not 'TLS'",
    ),
    "lower case": ({"protocol": "ssl"}, "key protocol must be one of"),
    "unknown mechanism": (
        {"protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", **LOGIN},
        "key sasl.mechanism must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, not 'GSSAPI'",
    ),
    "unknown legacy mechanism": ({"saslType": "X", **LOGIN}, "key saslType must be one of"),
    "no user": ({"protocol": "SASL_SSL", "password": "hidden"}, "key user is missing or empty: PLAIN needs a user"),
    "no password": ({"protocol": "SASL_SSL", "user": "ann"}, "key password is missing or empty"),
    "a CA that is none": ({"protocol": "SSL", "ca.crt": "hidden", **MTLS}, "key ca.crt holds no readable PEM certificate"),
    "no key": ({"protocol": "SSL", "user.crt": PAIR.certificate}, "key user.key is missing or empty"),
    "no certificate": ({"protocol": "SSL", "user.key": PAIR.key}, "key user.crt is missing or empty"),
    "neither": ({"protocol": "SSL"}, 'set user.skip to "true"'),
    "half a pair over SASL": ({"protocol": "SASL_SSL", **LOGIN, "user.crt": PAIR.certificate}, "key user.key is missing"),
    "a key that is none": (
        {"protocol": "SSL", "user.crt": PAIR.certificate, "user.key": "hidden"},
        "key user.key is not a readable",
    ),
    "an encrypted key": ({"protocol": "SSL", "user.crt": PAIR.certificate, "user.key": ENCRYPTED}, "key user.key is encrypted"),
    "another's key": (
        {"protocol": "SSL", "user.crt": PAIR.certificate, "user.key": OTHER.key},
        "key user.key does not belong to the certificate in user.crt",
    ),
    "a broken certificate": ({"protocol": "SSL", **MTLS, "user.crt": "hidden"}, "key user.crt holds no readable PEM"),
    "user.skip is no flag": ({"protocol": "SSL", "user.skip": "yes"}, "key user.skip must be true or false, not 'yes'"),
    "tls.enabled is no flag": ({"tls.enabled": "perhaps"}, "key tls.enabled must be true or false"),
    "no token provider": (OAUTH, "key tokenProvider is missing or empty"),
    "unknown token provider": ({**OAUTH, "tokenProvider": "X"}, "key tokenProvider must be one of MSKAccessTokenProvider"),
    "Java classes": ({**OAUTH, "sasl.jaas.config": "hidden"}, "key sasl.jaas.config names Java classes"),
    "no endpoint": ({**OAUTH, **TOKENS, "tokenEndpoint": ""}, "key tokenEndpoint is missing or empty"),
    "an endpoint that is no URL": (
        {**OAUTH, **TOKENS, "tokenEndpoint": "id"},
        "key tokenEndpoint must be an http or https URL",
    ),
    "no client secret": ({**OAUTH, **TOKENS, "password": ""}, "key password is missing or empty"),
    "no role": (
        {**OAUTH, "tokenProvider": "MSKRoleAccessTokenProvider", "awsRegion": "x"},
        "key roleARN is missing or empty",
    ),
    "no region": ({**OAUTH, "tokenProvider": "MSKAccessTokenProvider"}, "key awsRegion is missing or empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_secret_is_refused_naming_the_key_and_nothing_secret(case: str) -> None:
    data, complaint = BAD[case]
    with pytest.raises(Terminal) as told:
        Auth.from_secret(data, "secret ns/name")
    assert complaint in str(told.value)
    assert str(told.value).startswith("secret ns/name: ")
    assert "hidden" not in str(told.value)


def test_a_value_that_is_no_text_is_refused() -> None:
    with pytest.raises(Terminal, match="key password is not UTF-8 text"):
        Auth.from_secret({"protocol": "SASL_SSL", "user": b"ann", "password": b"\xff\xfe"})


def test_nothing_secret_is_shown() -> None:
    auth = secret(protocol="SASL_SSL", **LOGIN, **MTLS)
    assert "hidden" not in repr(auth)
    assert "PRIVATE KEY" not in repr(auth)
    assert "ann" in repr(auth)


def test_it_travels_to_other_processes() -> None:
    auth = secret(protocol="SASL_SSL", **LOGIN, **MTLS)
    assert pickle.loads(pickle.dumps(auth)) == auth


# Files


def write(folder: Path, manifest: object) -> Path:
    path = folder / "secret.yaml"
    path.write_text(manifest if isinstance(manifest, str) else yaml.safe_dump(manifest))
    return path


def manifest(**fields: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kafka"}, **fields}


def test_string_data_is_read_as_it_is_and_wins_over_data(tmp_path: Path) -> None:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in {"user": "ann", "password": "old"}.items()}
    path = write(tmp_path, manifest(data=encoded, stringData={"protocol": "SASL_PLAINTEXT", "password": "new"}))
    assert load_auth(path) == Auth(Protocol.SASL_PLAINTEXT, Mechanism.PLAIN, "ann", "new")


def test_base64_may_be_folded_over_lines(tmp_path: Path) -> None:
    text = base64.encodebytes(CA.encode()).decode()
    assert load_auth(write(tmp_path, manifest(data={"ca.crt": text}))).ca_crt == CA.strip()


FILES: dict[str, tuple[object, str]] = {
    "not YAML": ("a: [1", "is not YAML at line"),
    "empty": ("", "must hold exactly one object"),
    "two objects": ("a: 1\n---\nb: 2\n", "must hold exactly one object"),
    "a list": ([1], "must hold exactly one object"),
    "another kind": ({"apiVersion": "v1", "kind": "ConfigMap"}, "is not a v1 Secret"),
    "not base64": (
        manifest(data={"password": "hidden!"}),
        "key password of data is not base64. Plain text goes under stringData",
    ),
    "a number": (manifest(stringData={"password": 5}), "key password of stringData is not a text. Put its value in quotes"),
    "data is no map": (manifest(data=["a"]), "data is not a map"),
    "a bad key in it": (manifest(stringData={"protocol": "X"}), "key protocol must be one of"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused_naming_the_file(case: str, tmp_path: Path) -> None:
    content, complaint = FILES[case]
    path = write(tmp_path, content)
    with pytest.raises(HeadraceError) as told:
        load_auth(path)
    assert complaint in str(told.value)
    assert str(path) in str(told.value)
    assert "hidden" not in str(told.value)


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"auth file .*nowhere: can't be read: No such file"):
        load_auth(tmp_path / "nowhere")


def test_a_mounted_secret_is_a_folder_with_a_file_for_each_key(tmp_path: Path) -> None:
    for key, value in {"protocol": "SASL_PLAINTEXT", **LOGIN}.items():
        (tmp_path / key).write_text(value)
    assert load_auth(tmp_path) == Auth(Protocol.SASL_PLAINTEXT, Mechanism.PLAIN, "ann", "hidden")
