"""A producer that is not the bottleneck: many events over some connections, by hand-written HTTP/1.1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit


def send_all(address: str, streams: Sequence[Iterable[dict[str, str]]]) -> list[str]:
    """POST the events of each stream (attributes in binary mode) over a connection of its own, one after the other.

    The ids that were accepted, in no order.
    """
    return asyncio.run(_send_all(address, streams))


async def _send_all(address: str, streams: Sequence[Iterable[dict[str, str]]]) -> list[str]:
    accepted: list[str] = []
    await asyncio.gather(*(_connection(address, stream, accepted) for stream in streams))
    return accepted


async def _connection(address: str, events: Iterable[dict[str, str]], accepted: list[str]) -> None:
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        for event in events:
            headers = "".join(f"ce-{name}: {value}\r\n" for name, value in event.items())
            request = f"POST {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\nce-specversion: 1.0\r\n{headers}content-length: 2\r\n\r\n{{}}"
            writer.write(request.encode())
            status = int((await reader.readline()).split()[1])
            length = 0
            while (line := await reader.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            await reader.readexactly(length)
            if status == 202:
                accepted.append(event["id"])
    finally:
        writer.close()
