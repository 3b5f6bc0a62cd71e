"""Bodies of unknown length, read piece by piece and never without bound, and the rest of bodies that are refused.

granian says of a body that was cut off what it says of a whole one: an empty piece. What tells the two apart (each case has a test):

- HTTP/1.1, chunked: after a whole body the attempt to read on raises `StopAsyncIteration` at once. Else it was cut off, or it has
  trailers, which nobody sends: both are refused.
- HTTP/2: a whole body may have one empty piece before that (an empty last frame, trailers); one that was cut off has empty pieces
  without end. A stream that the client resets without an error looks whole: so the client is watched for a moment, and one that has
  gone by then has cut off its body.

What is being waited for holds its callback, and granian's objects are invisible to the garbage collector: whoever is called back lets
go of it, or the two would keep each other for ever.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable

from headrace.receiver.answers import CUT_OFF, Answer
from headrace.receiver.later import Later
from headrace.receiver.rsgi import Pending, Protocol

OnBody = Callable[[bytes | Answer], None]
Admit = Callable[[int], Answer | None]


class PieceReader:
    """Collects one body and gives it, or the answer to what is wrong with it, to `done` once."""

    __slots__ = ("_admit", "_done", "_empty", "_http2", "_later", "_pending", "_pieces", "_protocol")

    def __init__(self, protocol: Protocol, admit: Admit, later: Later, done: OnBody, *, http2: bool) -> None:
        """`admit` is asked for each piece, with its size."""
        self._protocol = protocol
        self._admit = admit
        self._later = later
        self._done = done
        self._http2 = http2
        self._empty = 0
        self._pieces: list[bytes] = []
        self._pending: Pending | None = None

    def start(self) -> None:
        """Read to the end."""
        self._protocol.__aiter__()
        self._next()

    def cancel(self) -> None:
        """Stop reading."""
        if self._pending is not None:
            self._pending.cancel()

    def _next(self) -> None:
        self._pending = pending = self._protocol.__anext__()
        pending.add_done_callback(self._arrived)

    def _arrived(self, pending: Pending) -> None:
        self._pending = None
        try:
            piece = pending.result()
        except (Exception, CancelledError):
            self._done(CUT_OFF)
            return
        if not piece:
            self._ended()
            return
        refusal = self._admit(len(piece))
        if refusal is not None:
            self._done(refusal)
            return
        self._empty = 0
        self._pieces.append(piece)
        self._next()

    def _ended(self) -> None:
        self._empty += 1
        try:
            self._next()
        except StopAsyncIteration:
            if self._http2:
                self._ask_client()
            else:
                self._done(b"".join(self._pieces))
            return
        if self._empty > self._http2:
            self._give_up()

    def _give_up(self) -> None:
        pending, self._pending = self._pending, None
        self._done(CUT_OFF)
        if pending is not None:
            pending.cancel()

    def _ask_client(self) -> None:
        gone = self._protocol.client_disconnect()
        has_gone: list[bool] = []
        gone.add_done_callback(lambda _: has_gone.append(True))

        def decide() -> None:
            whole = not has_gone
            gone.cancel()
            self._done(b"".join(self._pieces) if whole else CUT_OFF)

        self._later.call(decide)


class Discarder:
    """Reads what a client goes on sending although its request is refused: many clients look for an answer only after their body."""

    __slots__ = ("_begun", "_done", "_most", "_pending", "_protocol")

    def __init__(self, protocol: Protocol, most: int, done: Callable[[], None], *, begun: bool = False) -> None:
        """`done` is called once, after the body or after `most` bytes of it; `begun`: the first pieces have been read."""
        self._protocol = protocol
        self._begun = begun
        self._most = most
        self._done = done
        self._pending: Pending | None = None

    def start(self) -> None:
        """Read on."""
        if not self._begun:
            self._protocol.__aiter__()
        self._next()

    def cancel(self) -> None:
        """Stop reading."""
        if self._pending is not None:
            self._pending.cancel()

    def _next(self) -> None:
        self._pending = pending = self._protocol.__anext__()
        pending.add_done_callback(self._arrived)

    def _arrived(self, pending: Pending) -> None:
        self._pending = None
        try:
            size = len(pending.result())
        except (Exception, CancelledError):
            size = 0
        self._most -= size
        if size and self._most > 0:
            self._next()
        else:
            self._done()
