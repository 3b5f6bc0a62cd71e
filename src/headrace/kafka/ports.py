"""Ports on the loopback address for servers that are told their port before they start."""

from __future__ import annotations

import random
import socket

from headrace.base.errors import Terminal

# Below the range from which systems take ports for outgoing connections, so that nobody gets one by chance before it is used.
_RANGE = range(20000, 30000)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    for port in random.sample(_RANGE, 200):
        if is_free(port, host):
            return port
    raise Terminal("no free port found", subject=f"ports {_RANGE.start} to {_RANGE.stop - 1} of {host}")


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
