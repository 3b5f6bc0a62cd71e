"""Which ingress a request is for: by its path, else by its host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.receiver.guard import Guard
from headrace.receiver.latencies import Labels, Latencies
from headrace.receiver.producer import KafkaProducer


@dataclass(eq=False, slots=True)
class Ingress:
    """One address that takes events. Either `closed` says why it does not, or there is a producer to give them to."""

    uid: str
    path: str = ""
    host: str = ""
    topic: str = ""
    producer: KafkaProducer | None = None
    structured: bool = False
    guard: Guard | None = None
    closed: str = ""
    plain: bool = False
    """Whether plain requests may take the hot path: the ingress is open, in binary mode and without a guard."""
    latencies: Latencies = field(default_factory=lambda: Latencies(Labels()))


class IngressTable:
    """All ingresses of one state of the contract. Never changed: a new state makes a new table."""

    def __init__(self, ingresses: Iterable[Ingress] = ()) -> None:
        """Of several with one address the first gets it; the others are closed."""
        self.ingresses = {ingress.uid: ingress for ingress in ingresses}
        self.by_path: dict[str, Ingress] = {}
        """Each path twice, without and with a slash at its end."""
        self._by_host: dict[str, Ingress] = {}
        for ingress in self.ingresses.values():
            self._add(ingress)

    def at_host(self, authority: str) -> Ingress | None:
        """The ingress of the host in a `Host` header or in `:authority`; its port and the case do not count."""
        return self._by_host.get(host_of(authority)) if self._by_host else None

    @property
    def serving(self) -> tuple[str, ...]:
        """The uids of those that take events."""
        return tuple(uid for uid, ingress in self.ingresses.items() if not ingress.closed)

    @property
    def closed(self) -> dict[str, str]:
        """The uids of the others, with the reason."""
        return {uid: ingress.closed for uid, ingress in self.ingresses.items() if ingress.closed}

    def _add(self, ingress: Ingress) -> None:
        path, host = ingress.path.removesuffix("/"), host_of(ingress.host)
        holder = (self.by_path.get(path) if ingress.path else None) or (self._by_host.get(host) if host else None)
        if holder is not None:
            ingress.closed, ingress.plain = f"its address belongs to {holder.uid}", False
            return
        if ingress.path:
            self.by_path[path] = self.by_path[path + "/"] = ingress
        if host:
            self._by_host[host] = ingress


def host_of(authority: str) -> str:
    """The host of `host`, `host:port`, `[address]:port`, in lower case and without a dot at its end."""
    host, colon, port = authority.rpartition(":")
    return (host if colon and port.isdigit() else authority).lower().removesuffix(".")
