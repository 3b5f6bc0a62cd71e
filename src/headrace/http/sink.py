"""A subscriber: takes CloudEvents over HTTP, hands each to a function, answers as that says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from headrace.core.events.http import decode_request, encode_binary, split_line
from headrace.core.events.model import Event, InvalidEvent
from headrace.http.server import AsgiServer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to one request: status, and an event to reply with, if any; `after` seconds of thinking before it."""

    status: int = 202
    reply: Event | None = None
    after: float = 0.0


Handler = Callable[[str, Event], Answer]
"""Called with the request's path and the event, in the server's thread: it must return at once."""


class EventSink:
    """Serves from `start` to `close`. A request that is no CloudEvent gets 400 and goes to `on_invalid` with its path."""

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        on_invalid: Callable[[str, InvalidEvent], None] = lambda path, error: None,
    ) -> None:
        self._handler = handler
        self._on_invalid = on_invalid
        self._server = AsgiServer(self._app, what="sink", flag="--port", host=host, port=port)

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        """Listen. Errors as `AsgiServer`."""
        self._server.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await _respond(send, 405, [(b"allow", b"POST")], b"")
            return
        body = await _body(receive)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        try:
            events = decode_request(headers, body)
        except InvalidEvent as error:
            self._on_invalid(scope["path"], error)
            await _respond(send, 400, [(b"content-type", b"text/plain; charset=utf-8")], str(error).encode())
            return
        answers = [self._handler(scope["path"], event) for event in events]
        await self._answer(
            send, next((one for one in answers if one.status >= 300 or one.reply), Answer()) if answers else Answer()
        )

    async def _answer(self, send: Send, answer: Answer) -> None:
        if answer.after:
            await asyncio.sleep(answer.after)
        if answer.reply is None:
            await _respond(send, answer.status, [], b"")
            return
        lines, body = encode_binary(answer.reply)
        pairs = [pair for pair in map(split_line, lines) if pair is not None]
        await _respond(send, answer.status, [(name.encode(), value.encode()) for name, value in pairs], body)


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _respond(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
