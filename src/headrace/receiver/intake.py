"""What becomes of a request at the door: its ingress is found, its sender known, its body fetched.

`serve` runs on the thread of a listener; each step hands the request to the next one, at once or when something has arrived. Nothing
here waits, and nothing raises: a thread of granian would swallow it, and the client would wait for ever.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore

from headrace.base.clock import Clock
from headrace.base.log import get_logger
from headrace.core.events.model import TRACING
from headrace.receiver import answers
from headrace.receiver.acceptance import take
from headrace.receiver.answers import Answer
from headrace.receiver.binary import to_record
from headrace.receiver.config import Limits
from headrace.receiver.guard import Guard
from headrace.receiver.latencies import Latencies
from headrace.receiver.plain import PlainRequest
from headrace.receiver.reading import BodyReader
from headrace.receiver.request import Pairs, Request
from headrace.receiver.rsgi import Headers, Protocol, Scope, Watcher
from headrace.receiver.table import Ingress, IngressTable

log = get_logger(__name__)

_VERIFIERS = 4
_VERIFICATIONS = 1000
"""Requests that may wait for the issuer's keys."""
_MEANT_FOR_US = frozenset({"content-type", "content-length", "transfer-encoding", "host", "authorization", *TRACING})
_TWO_HOSTS = "The header Host occurs twice"
_NO_HOST = "The header Host is missing"


class Intake:
    """Serves requests from `start` to `close`, by the table in force."""

    def __init__(self, limits: Limits, nobody: Latencies, clock: Clock) -> None:
        """`nobody` counts the requests for which there is no ingress."""
        self.table: IngressTable | None = None
        """The table in force; None before the first one."""
        self._limit = limits.body
        self._nobody = nobody
        self._bodies = BodyReader(limits, clock, take)
        self._verifiers = ThreadPoolExecutor(_VERIFIERS, thread_name_prefix="verify")
        self._room = BoundedSemaphore(_VERIFICATIONS)

    def start(self) -> None:
        """Be ready for requests."""
        self._bodies.start()

    def close(self) -> None:
        """End the threads of this object."""
        self._verifiers.shutdown(cancel_futures=True)
        self._bodies.close()

    def serve(self, watcher: Watcher) -> None:
        """Take a request; it is answered now or later."""
        protocol = watcher.proto
        try:
            self._begin(watcher.scope, protocol)
        except Exception:
            log.exception("A request could not be served")
            answers.FAILED.send(protocol)

    def expire(self, seconds: float) -> None:
        """Answer the requests whose body has not arrived within `seconds`; to be called now and then."""
        self._bodies.expire(seconds)

    def _begin(self, scope: Scope, protocol: Protocol) -> None:
        table = self.table
        if table is None:
            answers.STARTING.send(protocol)
            return
        headers = scope.headers
        items = headers.items()
        fields = dict(items)
        plain = len(items) == len(fields) == len(headers)
        ingress = table.by_path.get(scope.path)
        if ingress is None:
            ingress = table.at_host(fields.get("host") or scope.authority or "")
        elif plain and ingress.plain and scope.method == "POST" and self._take_plain(protocol, items, fields, ingress):
            return
        latencies = ingress.latencies if ingress is not None else self._nobody
        request = Request(protocol, items, fields, ingress, latencies, self._bodies.now)
        if scope.method != "POST":
            self._bodies.refuse(request, _without_event(scope.method, fields, ingress))
        elif ingress is None:
            self._bodies.refuse(request, answers.NOT_FOUND)
        elif ingress.closed:
            self._bodies.refuse(request, answers.closed(ingress.closed))
        elif ("host" not in fields or not plain) and (wrong := _wrong(request, headers, scope)):
            self._bodies.refuse(request, answers.bad_request(wrong))
        elif ingress.guard is None:
            self._bodies.read(request, scope)
        else:
            self._identify(request, scope, ingress.guard)

    def _take_plain(self, protocol: Protocol, items: Pairs, fields: dict[str, str], ingress: Ingress) -> bool:
        """Take the request by the hot path; False where it is not for that."""
        length, producer = fields.get("content-length", ""), ingress.producer
        if not length.isdecimal() or "transfer-encoding" in fields or "host" not in fields or producer is None:
            return False
        size = int(length)
        record = to_record(items) if size <= self._limit else None
        if record is None or producer.admit(size) is not None:
            return False
        PlainRequest(protocol, record, size, ingress, producer, self._bodies).start()
        return True

    def _identify(self, request: Request, scope: Scope, guard: Guard) -> None:
        shown = request.fields.get("authorization")
        claims = guard.known(shown)
        if isinstance(claims, Answer):
            self._bodies.refuse(request, claims)
        elif claims is not None:
            request.claims = claims
            self._bodies.read(request, scope)
        elif shown is None or not self._room.acquire(blocking=False):
            self._bodies.refuse(request, answers.ISSUER_BUSY)
        else:
            self._verifiers.submit(self._verify, request, scope, guard, shown)

    def _verify(self, request: Request, scope: Scope, guard: Guard, shown: str) -> None:
        """On a thread that may wait."""
        try:
            claims = guard.verify(shown)
        except Exception:
            log.exception("A token could not be verified")
            claims = answers.FAILED
        finally:
            self._room.release()
        if isinstance(claims, Answer):
            self._bodies.refuse(request, claims)
        else:
            request.claims = claims
            self._bodies.read(request, scope)


def _without_event(method: str, fields: dict[str, str], ingress: Ingress | None) -> Answer:
    """The answer to every method but POST. A control plane probes with GET whether an address is served."""
    probe = method == "GET" and fields.get("k-network-probe") == "probe"
    if not probe and method != "OPTIONS":
        return answers.NOT_ALLOWED
    if ingress is None:
        return answers.NOT_FOUND
    if method == "OPTIONS":
        return answers.OPTIONS
    return answers.closed(ingress.closed) if ingress.closed else answers.probed(fields.get("k-network-hash"))


def _wrong(request: Request, headers: Headers, scope: Scope) -> str:
    """What is wrong with header lines that are not all plain, or have no `Host`; empty where it does not matter."""
    fields = request.fields
    for name in set(headers.keys()).difference(fields):
        if name in _MEANT_FOR_US or name.startswith("ce-"):
            return f"The header {name} has characters outside ASCII: encode them with %"
    if "host" not in fields:
        return "" if scope.authority or scope.http_version == "1" else _NO_HOST
    return _TWO_HOSTS if sum(name == "host" for name, _ in request.items) > 1 else ""
