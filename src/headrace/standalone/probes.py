"""What a running part still lacks, asked from outside."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Callable

Missing = Callable[[], list[str]]
NO_ANSWER = "does not answer yet"
_SECONDS = 2.0


def by_operations(port: int, host: str = "127.0.0.1") -> Missing:
    """Asks `/readyz` of a part's operations endpoint."""

    def missing() -> list[str]:
        connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            body = response.read()
            if response.status == 200:
                return []
            return [str(reason) for reason in json.loads(body)["missing"]] or ["not ready"]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return [NO_ANSWER]
        finally:
            connection.close()

    return missing


def by_kafka(port: int, host: str = "127.0.0.1") -> Missing:
    """Asks the broker on a plain port which requests it knows (ApiVersions, version 0), as every Kafka client does first.

    By hand: a client library in this process could take it down, and all the parts with it.
    """

    def missing() -> list[str]:
        try:
            with socket.create_connection((host, port), timeout=_SECONDS) as connection:
                connection.sendall(_API_VERSIONS)
                answer = connection.makefile("rb").read(_HEADER.size)
            _, correlation, error = _HEADER.unpack(answer)
        except (OSError, struct.error):
            return [NO_ANSWER]
        return [] if (correlation, error) == (_CORRELATION, 0) else ["is not a Kafka broker"]

    return missing


def _request(api: int, version: int) -> bytes:
    body = struct.pack(">hhih", api, version, _CORRELATION, len(_CLIENT)) + _CLIENT
    return struct.pack(">i", len(body)) + body


_CLIENT = b"headrace"
_CORRELATION = 7
_HEADER = struct.Struct(">iih")
_API_VERSIONS = _request(18, 0)
