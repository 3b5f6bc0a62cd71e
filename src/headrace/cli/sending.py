"""`send`: make events of what the command line says, and send them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from headrace.base.errors import Terminal, UsageError
from headrace.cli.output import console, parse_assignments
from headrace.core.events.attributes import check, check_name, check_text
from headrace.core.events.http import encode_binary, encode_structured, split_line
from headrace.core.events.model import Event, InvalidEvent

_CONNECTIONS = 32


@dataclass(frozen=True, slots=True)
class Sending:
    """What to send, where to, how often. `rate` events/s, 0 = as fast as they are taken. `token`: to be shown, empty = none."""

    url: str
    template: Event
    event_id: str | None = None
    structured: bool = False
    count: int = 1
    rate: float = 0.0
    token: str = field(default="", repr=False)

    def event(self, number: int) -> Event:
        """The event of this number (from 1)."""
        own = str(uuid.uuid4()) if self.event_id is None else self.event_id if self.count == 1 else f"{self.event_id}-{number}"
        data = self.template.data
        if data is not None and self.count > 1:
            data = data.replace(b"{n}", str(number).encode())
        now = time.time()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        return replace(
            self.template, attributes={"specversion": "1.0", "id": own, **self.template.attributes, "time": moment}, data=data
        )


def event_of(
    *, type_: str, source: str, subject: str | None, data: str | None, content_type: str | None, extensions: Sequence[str]
) -> Event:
    """The event without id and time. Raises `UsageError` for what no event may be."""
    raw = None if data is None else _data(data)
    attributes = {"type": type_, "source": source}
    attributes |= {"subject": subject} if subject is not None else {}
    if raw is not None:
        attributes["datacontenttype"] = content_type or _guess(raw)
    extra = parse_assignments(extensions, "--extension")
    known = {"specversion", "id", "time", *attributes} & extra.keys()
    if known:
        raise UsageError("is no extension", subject=f"--extension {sorted(known)[0]}", hint="It has an option of its own")
    try:
        for name, value in {**attributes, **extra}.items():
            check_text(check_name(name), value)
        check({"specversion": "1.0", "id": "1", **attributes, **extra})
    except InvalidEvent as error:
        raise UsageError(error.message, subject=error.subject) from None
    return Event(attributes | extra, raw)


def send_all(sending: Sending) -> None:
    """Send and report. Raises `Terminal` when an event was not taken."""
    answers, seconds = asyncio.run(_send_all(sending))
    bad = {answer: count for answer, count in answers.items() if not answer.startswith("2")}
    if sending.count == 1 and not bad:
        console().print(f"accepted ({next(iter(answers))}) by {sending.url}", markup=False)
    elif sending.count > 1:
        taken = sum(answers.values()) - sum(bad.values())
        console().print(
            f"{taken} of {sending.count} accepted by {sending.url} in {seconds:.2f} s ({taken / seconds:,.0f}/s)", markup=False
        )
    if bad:
        raise Terminal(
            "; ".join(f"{count} times {answer}" if sending.count > 1 else answer for answer, count in bad.items()),
            subject=sending.url,
        )


async def _send_all(sending: Sending) -> tuple[Counter[str], float]:
    answers: Counter[str] = Counter()
    numbers = iter(range(1, sending.count + 1))
    start = time.monotonic()
    limits, secure = httpx.Limits(max_connections=_CONNECTIONS), sending.url.startswith("https:")
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=secure, limits=limits) as client:

        async def work() -> None:
            for number in numbers:
                if sending.rate:
                    await asyncio.sleep(max(0.0, start + (number - 1) / sending.rate - time.monotonic()))
                answers[await _post(client, sending, number)] += 1

        await asyncio.gather(*(work() for _ in range(min(_CONNECTIONS, sending.count))))
    return answers, max(time.monotonic() - start, 1e-6)


async def _post(client: httpx.AsyncClient, sending: Sending, number: int) -> str:
    lines, body = (encode_structured if sending.structured else encode_binary)(sending.event(number))
    headers = [pair for pair in map(split_line, lines) if pair is not None]
    if sending.token:
        headers.append(("authorization", f"Bearer {sending.token}"))
    try:
        response = await client.post(sending.url, content=body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"no answer ({type(error).__name__}: {error})"
    text = response.text.strip()
    return f"{response.status_code} {response.reason_phrase}" + (
        f": {text[:500]}" if text and response.status_code >= 300 else ""
    )


def _data(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode()
    if text == "@-":
        return sys.stdin.buffer.read()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", subject=f"--data {text}") from None


def _guess(data: bytes) -> str:
    try:
        json.loads(data.replace(b"{n}", b"1"))
    except ValueError:
        return "text/plain"
    return "application/json"
