"""Ports to listen on: checked before anything starts, chosen where any free one will do."""

from __future__ import annotations

import socket

from headrace.base.errors import Terminal


def choose(port: int, *, what: str, flag: str = "", host: str = "127.0.0.1") -> int:
    """`port` if it is free, a free one if it is 0; `what` and `flag` go into the text of the error.

    Raises `Terminal` when it is in use. The socket is bound without SO_REUSEPORT, so that a server which shares its port is seen too.
    """
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a port number"
            raise Terminal(
                f"cannot listen on {host}:{port}: {reason}",
                subject=what,
                hint=f"Choose another port{f' with {flag}' if flag else ''}, or 0 for any free one",
            ) from None
        return int(probe.getsockname()[1])


def hold(port: int, *, what: str, flag: str = "", host: str = "127.0.0.1") -> socket.socket:
    """A socket that keeps `port` (0: a free one) for a server which shares its port (granian does), until it is closed.

    It never listens, so that no connection is lost in it. Raises as `choose`.
    """
    free = choose(port, what=what, flag=flag, host=host)
    keeper = socket.socket(_family(host), socket.SOCK_STREAM)
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeper.bind((host, free))
    return keeper


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
