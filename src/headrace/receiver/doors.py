"""The ports of a receiver: one, plain or with TLS, or one of each."""

from __future__ import annotations

from headrace.base.clock import Deadline
from headrace.receiver.config import ReceiverConfig
from headrace.receiver.listener import Listener, Serve
from headrace.receiver.reaper import close_idle
from headrace.receiver.tls import CertificateWatch

_LOOKS = 8
"""How often a connection is looked at while it may be silent."""


class Doors:
    """All listeners, from `open` to `close`."""

    def __init__(self, config: ReceiverConfig, serve: Serve) -> None:
        """Binds. Raises `Terminal` when a port is taken or a certificate can't be used."""
        tls = config.tls
        self._watch = CertificateWatch(tls) if tls is not None else None
        self._listeners: list[Listener] = []
        self._turn = 0
        ports = [(config.port, False)] if tls is None else [(config.port, True)]
        if tls is not None and tls.port is not None:
            ports = [(config.port, False), (tls.port, True)]
        try:
            for port, secure in ports:
                certificate = self._watch.certificate if secure and self._watch else None
                listener = Listener(
                    config.host, port, serve, config.limits, certificate=certificate, share_port=config.share_port
                )
                self._listeners.append(listener)
        except Exception:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The address of the main port."""
        return self._listeners[0].url

    @property
    def tls_url(self) -> str:
        """The address of the additional TLS port; empty without one."""
        return self._listeners[1].url if len(self._listeners) > 1 else ""

    def open(self) -> None:
        """Accept connections."""
        for listener in self._listeners:
            listener.start()

    def keep(self, idle_seconds: float) -> None:
        """Take up a new certificate, close silent connections; to be called about once a second."""
        if self._watch is not None:
            self._watch.renew(self._listeners[-1])
            self._listeners[-1].tidy()
        self._turn += 1
        if self._turn % max(1, int(idle_seconds / _LOOKS)) == 0:
            close_idle({listener.port for listener in self._listeners}, idle_seconds)

    def close(self) -> None:
        """Accept no more; what has arrived is answered."""
        for listener in self._listeners:
            listener.stop()

    def wait(self, seconds: float) -> bool:
        """Whether everything has been answered, within `seconds`."""
        deadline = Deadline(seconds)
        return all(listener.wait(deadline) for listener in self._listeners)
