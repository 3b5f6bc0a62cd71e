"""The questions that librdkafka can't ask a broker: how big partitions are, who coordinates a transactional id, and all that a group has
committed, set and deleted (its admin calls for these can crash the process when the coordinator moves or goes away).

Kafka's own protocol in old versions that Kafka 4 still speaks (`FindCoordinator` 1, `DescribeLogDirs` 1, `OffsetFetch` 2, `OffsetCommit` 2,
`DeleteGroups` 1), over plain connections or TLS, with every login that `Auth` knows. A connection serves one caller.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.kafka.auth import Auth, Mechanism, TokenProvider
from headrace.kafka.scram import ScramClient
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.tokens import msk_token

_CLIENT = "headrace"
_OFFSET_COMMIT, _OFFSET_FETCH, _FIND_COORDINATOR, _HANDSHAKE = 8, 9, 10, 17
_DESCRIBE_LOG_DIRS, _AUTHENTICATE, _DELETE_GROUPS = 35, 36, 42
_LARGEST = 64 << 20
_ERRORS = {
    14: "the coordinator is loading",
    15: "there is no coordinator yet",
    16: "another broker has become the coordinator",
    30: "this user may not see the group",
    31: "this user may not describe the cluster",
    33: "the mechanism is not enabled there",
    53: "this user may not see the transactional id",
    58: "authentication failed",
}
_PASSING = {14, 15, 16}


class KeyType(IntEnum):
    """What a coordinator is asked for: `key_type` of `FindCoordinator`."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class Node:
    """A broker."""

    id: int
    host: str
    port: int


class Connection:
    """One connection to one broker, logged in. Use `connect`."""

    def __init__(self, stream: socket.socket, subject: str) -> None:
        self._stream = stream
        self._subject = subject
        self._number = 0

    def find_coordinator(self, key: str, kind: KeyType) -> Node:
        """Who coordinates the group or transactional id `key`. Kafka makes the internal topic if there is none yet."""
        answer = self._ask(_FIND_COORDINATOR, 1, _string(key) + struct.pack(">b", kind))
        answer.int32()
        self._check(answer.int16(), answer.string())
        return Node(answer.int32(), answer.string() or "", answer.int32())

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Everything that `group` has committed, (topic, partition) -> offset; this broker must be its coordinator."""
        answer = self._ask(_OFFSET_FETCH, 2, _string(group) + struct.pack(">i", -1))
        offsets: dict[tuple[str, int], int] = {}
        for _ in range(answer.int32()):
            topic = answer.string() or ""
            for _ in range(answer.int32()):
                partition, offset, _, error = answer.int32(), answer.int64(), answer.string(), answer.int16()
                if offset >= 0 and not error:
                    offsets[topic, partition] = offset
        self._check(answer.int16(), None)
        return offsets

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Set offsets of a group without members, (topic, partition) -> offset; returns Kafka's error code (0: set) of each.

        This broker must be the group's coordinator.
        """
        by_topic: dict[str, list[tuple[int, int]]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append((partition, offset))
        body = _string(group) + struct.pack(">i", -1) + _string("") + struct.pack(">qi", -1, len(by_topic))
        for topic, partitions in by_topic.items():
            body += _string(topic) + struct.pack(">i", len(partitions))
            body += b"".join(struct.pack(">iq", partition, offset) + _string("") for partition, offset in partitions)
        answer = self._ask(_OFFSET_COMMIT, 2, body)
        codes: dict[tuple[str, int], int] = {}
        for _ in range(answer.int32()):
            topic = answer.string() or ""
            for _ in range(answer.int32()):
                partition = answer.int32()
                codes[topic, partition] = answer.int16()
        return codes

    def delete_group(self, group: str) -> int:
        """Delete a group; returns Kafka's error code (0: deleted). This broker must be its coordinator."""
        answer = self._ask(_DELETE_GROUPS, 1, struct.pack(">i", 1) + _string(group))
        answer.int32()
        code = 0
        for _ in range(answer.int32()):
            answer.string()
            code = answer.int16()
        return code

    def partition_sizes(self, topics: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], int]:
        """Bytes that this broker's log folders hold of the given partitions; those that it has not are absent."""
        body = struct.pack(">i", len(topics))
        for topic, partitions in topics.items():
            body += _string(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        answer = self._ask(_DESCRIBE_LOG_DIRS, 1, body)
        sizes: dict[tuple[str, int], int] = {}
        answer.int32()
        folders = answer.int32()
        if not folders:
            # Kafka answers a user without rights with an empty list.
            raise Terminal(_ERRORS[31], subject=self._subject, hint="Grant this user DESCRIBE on the cluster")
        for _ in range(folders):
            self._check(answer.int16(), None)
            answer.string()
            for _ in range(answer.int32()):
                topic = answer.string() or ""
                for _ in range(answer.int32()):
                    partition, size, _, moving = answer.int32(), answer.int64(), answer.int64(), answer.int8()
                    if not moving:
                        sizes[topic, partition] = size
        return sizes

    def login(self, auth: Auth) -> None:
        """SASL, for the protocols that have it."""
        if auth.mechanism is None:
            return
        answer = self._ask(_HANDSHAKE, 1, _string(auth.mechanism.value))
        self._check(answer.int16(), f"it offers {', '.join(answer.string() or '' for _ in range(answer.int32()))}")
        if auth.mechanism is Mechanism.PLAIN:
            self._authenticate(f"\0{auth.user}\0{auth.password}".encode())
        elif auth.mechanism is Mechanism.OAUTHBEARER:
            self._authenticate(f"n,,\x01auth=Bearer {_bearer(auth)}\x01\x01".encode())
        else:
            scram = ScramClient(auth.mechanism.value.replace("SCRAM-SHA-", "sha"), auth.user, auth.password)
            challenge = self._authenticate(scram.first())
            scram.check(self._authenticate(scram.final(challenge)))

    def _authenticate(self, message: bytes) -> bytes:
        answer = self._ask(_AUTHENTICATE, 0, struct.pack(">i", len(message)) + message)
        self._check(answer.int16(), answer.string())
        return answer.data()

    def _check(self, code: int, text: str | None) -> None:
        if code:
            kind = Retriable if code in _PASSING else Terminal
            raise kind(": ".join(filter(None, (_ERRORS.get(code, f"error {code}"), text))), subject=self._subject)

    def _ask(self, api: int, version: int, body: bytes) -> _Answer:
        self._number += 1
        request = struct.pack(">hhi", api, version, self._number) + _string(_CLIENT) + body
        self._stream.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= _LARGEST:
            raise Terminal("answers, but not as a Kafka of this security protocol does", subject=self._subject)
        answer = _Answer(self._receive(size))
        if answer.int32() != self._number:
            raise Terminal("answered something that was not asked", subject=self._subject)
        return answer

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._stream.recv(size - len(data))
            if not piece:
                raise Retriable("closed the connection", subject=self._subject, hint="Check security protocol and credentials")
            data += piece
        return bytes(data)


class _Answer:
    """Reads a response field by field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, form: str) -> Any:
        try:
            (value,) = struct.unpack_from(form, self._data, self._at)
        except struct.error:
            raise Terminal("cut its answer short", subject="Kafka") from None
        self._at += struct.calcsize(form)
        return value

    def int8(self) -> int:
        return int(self._take(">b"))

    def int16(self) -> int:
        return int(self._take(">h"))

    def int32(self) -> int:
        return int(self._take(">i"))

    def int64(self) -> int:
        return int(self._take(">q"))

    def string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else bytes(self._take(f">{size}s")).decode("utf-8", "replace")

    def data(self) -> bytes:
        size = self.int32()
        return b"" if size < 0 else bytes(self._take(f">{size}s"))


@contextmanager
def connect(settings: KafkaSettings, host: str, port: int, timeout: float = 10.0) -> Iterator[Connection]:
    """A connection to the broker at `host:port`. Raises `Retriable` when it can't be reached, `Terminal` when it refuses."""
    subject = f"Kafka at {host}:{port}"
    try:
        with socket.create_connection((host, port), timeout) as plain:
            context = _tls(settings.auth)
            with context.wrap_socket(plain, server_hostname=host) if context else plain as stream:
                connection = Connection(stream, subject)
                connection.login(settings.auth)
                yield connection
    except ssl.SSLError as error:
        raise Terminal(
            f"TLS failed: {error.reason or error}", subject=subject, hint="Check ca.crt and the user's certificate"
        ) from error
    except OSError as error:
        raise Retriable(f"can't be reached: {error.strerror or error}", subject=subject, hint="Check that it runs") from error


@contextmanager
def connect_any(settings: KafkaSettings, timeout: float = 10.0) -> Iterator[Connection]:
    """A connection to the first of the bootstrap servers that answers."""
    failures: list[HeadraceError] = []
    with ExitStack() as stack:
        for server in settings.bootstrap_servers.split(","):
            host, _, port = server.strip().rpartition(":")
            try:
                connection = stack.enter_context(connect(settings, host.strip("[]"), int(port), timeout))
            except HeadraceError as error:
                failures.append(error)
                continue
            yield connection
            return
    raise failures[0]


def _tls(auth: Auth) -> ssl.SSLContext | None:
    if not auth.protocol.tls:
        return None
    context = ssl.create_default_context(cadata=auth.ca_crt or None)
    if auth.user_key:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
            # The interface takes files only; this one is readable by its owner alone and gone at once.
            pair.write(f"{auth.user_crt}\n{auth.user_key}\n")
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _bearer(auth: Auth) -> str:
    """A token, from where the auth file says."""
    if auth.token_provider is not TokenProvider.CLIENT_CREDENTIALS:
        return msk_token(auth)("")[0]
    form = {"grant_type": "client_credentials", "client_id": auth.user, "client_secret": auth.password}
    form |= {"scope": auth.token_scope} if auth.token_scope else {}
    try:
        with urllib.request.urlopen(auth.token_endpoint, urllib.parse.urlencode(form).encode(), timeout=10) as answer:
            return str(json.load(answer)["access_token"])
    except (urllib.error.URLError, ValueError, KeyError) as error:
        raise Terminal(f"gave no token ({error})", subject=f"token endpoint {auth.token_endpoint}") from error


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
