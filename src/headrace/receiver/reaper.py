"""Closes connections on which nothing has arrived for long.

granian's own timeout begins when it knows that a client speaks HTTP/1.1. One that says nothing at all, or `PR` (which may become
HTTP/2), or nothing more on a finished HTTP/2 connection, would hold its place for ever, and places are limited. The kernel knows
for each socket when it last received something (Linux: `TCP_INFO`). What is shut down here looks to granian like a client that left.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Iterator

from headrace.base.log import get_logger

log = get_logger(__name__)

_TCP_INFO_LENGTH = 60
_LAST_DATA_RECEIVED = struct.Struct("=52xI")
"""`tcpi_last_data_recv` in `struct tcp_info` (linux/tcp.h): milliseconds; counts from the start of a connection without data."""


def close_idle(ports: Collection[int], seconds: float) -> int:
    """Shut down the connections to our `ports` that have been silent for `seconds`; how many there were."""
    closed = 0
    for connection in _connections(ports):
        with connection:
            try:
                if _silent_ms(connection) >= seconds * 1000:
                    connection.shutdown(socket.SHUT_RDWR)
                    closed += 1
            except OSError:
                continue
    if closed:
        log.info("Silent connections closed", connections=closed)
    return closed


def _connections(ports: Collection[int]) -> Iterator[socket.socket]:
    """Duplicates of the sockets of this process that are connections to `ports`."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        if _is_ours(connection, ports):
            yield connection
        else:
            connection.close()


def _is_ours(connection: socket.socket, ports: Collection[int]) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return False
    try:
        connection.getpeername()
        return connection.getsockname()[1] in ports
    except OSError:
        return False


def _silent_ms(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_LENGTH)
    silent: int = _LAST_DATA_RECEIVED.unpack_from(info.ljust(_TCP_INFO_LENGTH, b"\0"))[0]
    return silent
