"""Requests to subscribers: libcurl's multi interface, driven by one thread that also has other work to do.

    client.start(exchange)            hand a request over; returns at once
    for exchange in client.poll():    let libcurl work; what has ended comes back, with its outcome inside
    client.push()                     let libcurl work; what has ended waits for the next `poll`
    client.wait(seconds, unless)      sleep until a socket is ready, the time is over, or `wake` is called (from any thread)

Handles and connections are reused. Redirects are not followed, no proxy is taken from the environment, and no response is read without
bound. All methods but `wake` belong to one thread.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pycurl

from headrace.base.errors import Terminal

CONNECT_TIMEOUT_MS = 10_000
_UNSEEN_SECONDS = 0.05
"""`select` does not see transfers that resolve a name, nor sockets from number 1024 on: they are looked after so often."""
_USER_AGENT = "headrace"
_NO_LINES = ["Expect:"]
"""pycurl ignores an empty list, and the lines of the request before would be sent again."""


def joined(lines: list[str]) -> list[str]:
    """Header lines in libcurl's form as few: it sends several that are one text as they are, and each of its own costs it time.

    Those without a value (`name:`, `name;`) mean something to libcurl and stay alone; for `content-type` it looks at the beginning of each.
    None may hold a line end.
    """
    alone = [line for line in lines if ": " not in line]
    others = [line for line in lines if ": " in line]
    others.sort(key=lambda line: not line.startswith("content-type:"))
    return [*alone, "\r\n".join(others)] if others else alone


class Failure(StrEnum):
    """Why there is no (whole) response."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    TLS = "tls"
    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How many bytes of a body are kept, and after how many the connection is cut.

    `reserve` bytes count as held by the client from the body's beginning on, before they arrive. A body that grows past them is
    cut, and nothing of it kept, when the client would hold more than `bound` with it, and holds something for others.
    """

    keep: int
    read: int
    reserve: int = 0
    bound: int = sys.maxsize


class Exchange:
    """One request, and after it has ended its outcome.

    Request: `url`; `lines`, header lines in libcurl's form (`name: value`); `body`; `timeout_ms` (0: none) for the whole exchange;
    `ca_file`, a PEM bundle for https; `limits`, asked once when a body begins, with status and raw header lines; `context`, the
    caller's own.

    Outcome: `failure` and `error` (a text) if there was no response, else `status`, `header_lines` (bytes, with the line end) and
    `body_kept`, the first bytes of the body; `cut` says that there was more.
    """

    __slots__ = (
        "body",
        "ca_file",
        "context",
        "cut",
        "error",
        "failure",
        "handle",
        "header_lines",
        "kept",
        "limits",
        "lines",
        "status",
        "timeout_ms",
        "url",
    )

    def __init__(
        self,
        url: str,
        lines: list[str],
        body: bytes,
        timeout_ms: int,
        limits: Callable[[int, list[bytes]], BodyLimits],
        context: Any = None,
        ca_file: str = "",
    ) -> None:
        self.url = url
        self.lines = lines
        self.body = body
        self.timeout_ms = timeout_ms
        self.limits = limits
        self.context = context
        self.ca_file = ca_file
        self.status = 0
        self.header_lines: list[bytes] = []
        self.kept: list[bytes] | None = None
        self.cut = False
        self.failure: Failure | None = None
        self.error = ""
        self.handle: _Handle | None = None

    @property
    def body_kept(self) -> bytes:
        return b"".join(self.kept) if self.kept else b""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names (as sent) and values of the final response's headers, decoded as Latin-1 as HTTP has it."""
        pairs: list[tuple[str, str]] = []
        for line in self.header_lines:
            name, colon, value = line.decode("latin-1").partition(":")
            if line.startswith(b"HTTP/"):
                pairs.clear()
            elif colon:
                pairs.append((name, value.strip()))
        return pairs


class _Handle:
    """A libcurl easy handle with what its callbacks fill. Options that rarely change are set only when they do."""

    __slots__ = (
        "ca_file",
        "client",
        "curl",
        "header_lines",
        "held",
        "kept",
        "limits",
        "receiving",
        "seen",
        "timeout_ms",
        "url",
    )

    def __init__(self, client: Client) -> None:
        self.client = client
        self.header_lines: list[bytes] = []
        self.receiving: Exchange | None = None
        self.kept = 0
        self.held = 0
        self.limits = BodyLimits(0, 0)
        self.seen = 0
        self.url = ""
        self.ca_file = ""
        self.timeout_ms = -1
        curl = self.curl = pycurl.Curl()
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS)
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.USERAGENT, _USER_AGENT)
        curl.setopt(pycurl.HEADERFUNCTION, self.header_lines.append)
        curl.setopt(pycurl.WRITEFUNCTION, self._write)
        curl.handle = self

    def prepare(self, exchange: Exchange) -> None:
        curl = self.curl
        self.receiving = exchange
        exchange.handle = self
        if exchange.url != self.url:
            curl.setopt(pycurl.URL, exchange.url)
            self.url = exchange.url
        if exchange.timeout_ms != self.timeout_ms:
            curl.setopt(pycurl.TIMEOUT_MS, exchange.timeout_ms)
            self.timeout_ms = exchange.timeout_ms
        if exchange.ca_file != self.ca_file:
            curl.setopt(pycurl.CAINFO, exchange.ca_file)
            self.ca_file = exchange.ca_file
        curl.setopt(pycurl.HTTPHEADER, exchange.lines or _NO_LINES)
        curl.setopt(pycurl.POSTFIELDS, exchange.body)

    def finish(self) -> Exchange:
        """The exchange with its outcome; the handle is free afterwards."""
        exchange = self.receiving
        assert exchange is not None
        exchange.status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        exchange.header_lines = self.header_lines[:]
        self.header_lines.clear()
        self._hold(0)
        self.seen = self.kept = 0
        self.receiving = None
        exchange.handle = None
        return exchange

    def _write(self, chunk: bytes) -> int:
        exchange = self.receiving
        if exchange is None:
            return 0
        if exchange.kept is None:
            exchange.kept = []
            self.limits = exchange.limits(_status_of(self.header_lines), self.header_lines)
            self._hold(self.limits.reserve)
        room = self.limits.keep - self.seen
        if room > 0:
            part = chunk if len(chunk) <= room else chunk[:room]
            self.kept += len(part)
            if self.kept > self.held:
                self._hold(self.kept)
                if self.client.held > self.limits.bound and self.client.held > self.kept:
                    exchange.kept.clear()
                    exchange.cut = True
                    return 0
            exchange.kept.append(part)
        self.seen += len(chunk)
        if self.seen > self.limits.keep:
            exchange.cut = True
        if self.seen > self.limits.read:
            return 0
        return len(chunk)

    def _hold(self, size: int) -> None:
        self.client.held += size - self.held
        self.held = size


class Client:
    """All transfers of one thread. `connections` bounds the connections kept open.

    `active`: transfers under way. `held`: bytes of their responses kept or expected.
    """

    def __init__(self, connections: int = 512) -> None:
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)
        self._free: list[_Handle] = []
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._sleeping = False
        self._ended: list[Exchange] = []
        self.active = 0
        self.held = 0

    def start(self, exchange: Exchange) -> None:
        """Begin a request. One that can't even begin (a malformed URL, say) comes back from `poll` as failed."""
        handle = self._free.pop() if self._free else _Handle(self)
        try:
            handle.prepare(exchange)
            self._multi.add_handle(handle.curl)
        except (pycurl.error, UnicodeError, ValueError, TypeError) as error:
            handle.finish()
            exchange.failure, exchange.error, exchange.status = Failure.TRANSFER, f"can't be sent: {error}", 0
            self._ended.append(exchange)
            return
        self.active += 1

    def poll(self) -> list[Exchange]:
        """Let libcurl do what can be done without waiting; the exchanges that have ended."""
        self.push()
        ended, self._ended = self._ended, []
        return ended

    def push(self) -> None:
        """Let libcurl do what can be done without waiting. What ends by that comes back from the next `poll`, before which nobody sleeps."""
        if not self.active:
            return
        ended, multi = self._ended, self._multi
        multi.perform()
        while True:
            queued, good, bad = multi.info_read()
            for curl in good:
                ended.append(self._release(curl))
            for curl, code, text in bad:
                exchange = self._release(curl)
                if code != pycurl.E_WRITE_ERROR or not exchange.cut:
                    exchange.failure, exchange.error = _KINDS.get(code, Failure.TRANSFER), text or f"libcurl error {code}"
                ended.append(exchange)
            if not queued:
                return

    @property
    def unfinished(self) -> bool:
        """Whether transfers are under way, or have ended and were not handed out by `poll` yet."""
        return bool(self.active or self._ended)

    def wait(self, seconds: float, unless: Callable[[], object] = bool) -> None:
        """Sleep for at most `seconds`; not at all when `unless` says that there is something to do, or an exchange has ended."""
        self._sleeping = True
        try:
            if self._ended or unless():
                return
            if self.active:
                readable, writable, failed = self._multi.fdset()
                until = self._multi.timeout()
                if until >= 0:
                    seconds = min(seconds, until / 1000)
                if len(readable) + len(writable) < self.active:
                    seconds = min(seconds, _UNSEEN_SECONDS)
                readable.append(self._wakeup)
                ready, _, _ = select.select(readable, writable, failed, seconds)
            else:
                ready, _, _ = select.select([self._wakeup], (), (), seconds)
            if self._wakeup in ready:
                os.eventfd_read(self._wakeup)
        finally:
            self._sleeping = False

    def wake(self) -> None:
        """End a `wait` (from any thread). Make `unless` true first."""
        if self._sleeping:
            os.eventfd_write(self._wakeup, 1)

    def abort(self, exchange: Exchange) -> None:
        """Break a request off; its connection is closed. It does not come back from `poll`, whether it has ended or not."""
        handle = exchange.handle
        if handle is None:
            if exchange in self._ended:
                self._ended.remove(exchange)
            return
        self._multi.remove_handle(handle.curl)
        self.active -= 1
        handle.finish()
        self._free.append(handle)

    def close(self) -> None:
        """Release everything. Requests still under way are broken off."""
        for handle in self._free:
            handle.curl.close()
        self._free.clear()
        self._multi.close()
        os.close(self._wakeup)

    def _release(self, curl: Any) -> Exchange:
        self._multi.remove_handle(curl)
        self.active -= 1
        handle: _Handle = curl.handle
        self._free.append(handle)
        return handle.finish()


def _status_of(lines: list[bytes]) -> int:
    """Status of the response that has begun (libcurl may not be asked while it works)."""
    for line in reversed(lines):
        if line.startswith(b"HTTP/"):
            return int(line.split(None, 2)[1])
    return 0


_KINDS = {
    pycurl.E_COULDNT_CONNECT: Failure.CONNECT,
    pycurl.E_COULDNT_RESOLVE_HOST: Failure.CONNECT,
    pycurl.E_OPERATION_TIMEDOUT: Failure.TIMEOUT,
    pycurl.E_SSL_CONNECT_ERROR: Failure.TLS,
    pycurl.E_SSL_CACERT_BADFILE: Failure.TLS,
    pycurl.E_PEER_FAILED_VERIFICATION: Failure.TLS,
}


def check_url(url: str) -> None:
    """Raise `Terminal` unless `url` is an absolute http or https URL that libcurl can use."""
    probe = pycurl.Curl()
    try:
        probe.setopt(pycurl.URL, url)
    except (pycurl.error, UnicodeError, ValueError) as error:
        raise Terminal(f"not a usable URL: {error}", subject=url) from None
    finally:
        probe.close()
    if not url.startswith(("http://", "https://")):
        raise Terminal("not an absolute http or https URL", subject=url)
