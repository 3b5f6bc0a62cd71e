"""Bodies of requests: read within bounds of size and time, or dropped when the request is refused."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from functools import partial

from headrace.base.clock import Clock
from headrace.receiver.answers import CUT_OFF, TIMEOUT, Answer, bad_request, too_large
from headrace.receiver.body import Discarder, PieceReader
from headrace.receiver.config import Limits
from headrace.receiver.later import Later
from headrace.receiver.request import GONE, Reading, Request
from headrace.receiver.rsgi import Pending, Scope

Take = Callable[[Request, bytes], None]

_DISCARD_MOST = 8 * 1024 * 1024
"""A refused body up to this size is read and dropped, so that the connection can go on; many clients look for an answer only then."""
_DOUBT_SECONDS = 0.01
_LENGTH = bad_request("The Content-Length is no number")


class BodyReader:
    """Gives each body that arrives whole to `take`, and finishes the requests of all others."""

    def __init__(self, limits: Limits, clock: Clock, take: Take) -> None:
        self._limit = limits.body
        self.now = clock.monotonic
        self._take = take
        self._too_large = too_large(limits.body)
        self._later = Later(_DOUBT_SECONDS, clock)
        self.reading: Reading = {}

    def start(self) -> None:
        """Be ready for bodies."""
        self._later.start()

    def close(self) -> None:
        """End what runs here."""
        self._later.close()

    def read(self, request: Request, scope: Scope) -> None:
        """Reserve room for the event of `request`, and read its body."""
        declared = request.fields.get("content-length")
        if "transfer-encoding" in request.fields or (declared is None and scope.http_version == "2"):
            self._read_pieces(request, http2=scope.http_version == "2")
            return
        try:
            length = int(declared or 0)
        except ValueError:
            self.refuse(request, _LENGTH)
            return
        refusal = self._too_large if length > self._limit else request.reserve(length, 1)
        if refusal is not None:
            self.refuse(request, refusal)
        elif length:
            self.reading[request] = None
            request.pending = pending = request.protocol()
            pending.add_done_callback(partial(self._arrived, request, length))
        else:
            self._take(request, b"")

    def refuse(self, request: Request, answer: Answer) -> None:
        """Answer a request whose body has not been read: after the body, unless that is huge or the client waits for a go-ahead."""
        fields = request.fields
        declared = fields.get("content-length", "0")
        size = int(declared) if declared.isdecimal() and len(declared) < 20 else 0
        if "expect" not in fields and (0 < size <= _DISCARD_MOST or "transfer-encoding" in fields):
            self._discard(request, answer)
        else:
            request.finish(answer)

    def expire(self, seconds: float) -> None:
        """Answer the requests whose body has not arrived within `seconds`; to be called now and then."""
        before = self.now() - seconds
        for request in list(self.reading):
            if request.started >= before:
                continue
            certain = self.reading.pop(request, GONE)
            if certain is GONE:
                continue
            request.finish(certain or TIMEOUT)
            pending = request.pending
            if pending is not None:
                pending.cancel()

    def _arrived(self, request: Request, length: int, pending: Pending) -> None:
        request.pending = None
        if self.reading.pop(request, GONE) is GONE:
            return
        try:
            body = pending.result()
        except (Exception, CancelledError):
            request.finish(CUT_OFF)
            return
        if len(body) == length:
            self._take(request, body)
        else:
            request.finish(CUT_OFF)

    def _read_pieces(self, request: Request, *, http2: bool) -> None:
        refusal = request.reserve(0, 1)
        if refusal is not None:
            self.refuse(request, refusal)
            return

        def admit(size: int) -> Answer | None:
            return self._too_large if request.size + size > self._limit else request.reserve(size, 0)

        reader = PieceReader(request.protocol, admit, self._later, partial(self._read_whole, request), http2=http2)
        self.reading[request] = None
        request.pending = reader
        reader.start()

    def _read_whole(self, request: Request, body: bytes | Answer) -> None:
        request.pending = None
        if self.reading.pop(request, GONE) is GONE:
            return
        if isinstance(body, bytes):
            self._take(request, body)
        elif body is CUT_OFF:
            request.finish(body)
        else:
            self._discard(request, body, begun=True)

    def _discard(self, request: Request, answer: Answer, *, begun: bool = False) -> None:
        discarder = Discarder(request.protocol, _DISCARD_MOST, partial(self._discarded, request), begun=begun)
        self.reading[request] = answer
        request.pending = discarder
        discarder.start()

    def _discarded(self, request: Request) -> None:
        request.pending = None
        certain = self.reading.pop(request, GONE)
        if certain is not GONE:
            request.finish(certain)
