"""Ports of the parts: checked before anything starts, chosen where any free one will do."""

from __future__ import annotations

import socket

from headrace.base.errors import Terminal


def choose(port: int, *, what: str, flag: str, host: str = "127.0.0.1") -> int:
    """`port` if it is free, a free one if it is 0.

    Raises `Terminal` when it is in use. The socket is bound without SO_REUSEPORT, so that a server which shares its port is seen too.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Terminal(
                f"cannot listen on {host}:{port}: {error.strerror}",
                subject=what,
                hint=f"Choose another port with {flag}, or 0 for any free one",
            ) from None
        return int(probe.getsockname()[1])
