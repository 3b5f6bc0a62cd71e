"""As much of an HTTP/2 client as it takes to misbehave: frames by hand, headers without compression."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
CANCEL = 8
NO_ERROR = 0
_NO_TABLE = struct.pack(">HI", 1, 0)
"""SETTINGS_HEADER_TABLE_SIZE 0: responses must not refer to earlier ones."""
_INDEXED_STATUS = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}


class Http2Client:
    """One connection. Streams are numbered 1, 3, 5, ... by the caller."""

    def __init__(self, port: int, timeout: float = 10.0) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.connection.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, _NO_TABLE))
        self._left = b""

    def request(self, stream: int, path: str, headers: Mapping[str, str], *, end: bool = False) -> None:
        """Send the header lines of a POST."""
        lines = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "127.0.0.1", **headers}
        flags = _END_HEADERS | (_END_STREAM if end else 0)
        self.connection.sendall(_frame(_HEADERS, flags, stream, _lines(lines)))

    def data(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send a piece of the body."""
        self.connection.sendall(_frame(_DATA, _END_STREAM if end else 0, stream, data))

    def trailers(self, stream: int, headers: Mapping[str, str]) -> None:
        """End the body with trailers."""
        self.connection.sendall(_frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _lines(headers)))

    def reset(self, stream: int, code: int) -> None:
        """Give the stream up."""
        self.connection.sendall(_frame(_RST_STREAM, 0, stream, struct.pack(">I", code)))

    def status(self, stream: int) -> int:
        """The status of the response on `stream`; 0 when the stream or the connection ended without one."""
        while True:
            kind, number, payload = self._read()
            if kind == _HEADERS and number == stream:
                return _status(payload)
            if kind == _GOAWAY or (kind == _RST_STREAM and number == stream):
                return 0

    def close(self, *, hard: bool = False) -> None:
        """End the connection; `hard` without the usual farewell of TCP."""
        if hard:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _read(self) -> tuple[int, int, bytes]:
        head = self._take(9)
        payload = self._take(int.from_bytes(head[:3], "big"))
        if head[3] == _SETTINGS and not head[4] & _ACK:
            self.connection.sendall(_frame(_SETTINGS, _ACK, 0))
        return head[3], int.from_bytes(head[5:9], "big"), payload

    def _take(self, size: int) -> bytes:
        while len(self._left) < size:
            chunk = self.connection.recv(65536)
            if not chunk:
                raise ConnectionError("the connection has ended")
            self._left += chunk
        taken, self._left = self._left[:size], self._left[size:]
        return taken


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _lines(headers: Mapping[str, str]) -> bytes:
    """Header lines in HPACK's form "literal without indexing, new name", no Huffman coding; each part shorter than 127 bytes."""
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in headers.items()
    )


def _status(block: bytes) -> int:
    """The `:status` at the start of a response's header block: indexed, or a literal with the name at index 8."""
    block = block.lstrip(b"\x20")  # the table's size is now 0
    if block[0] & 0x80:
        return _INDEXED_STATUS[block[0] & 0x7F]
    text = block[2 : 2 + (block[1] & 0x7F)]
    return int(_digits(text)) if block[1] & 0x80 else int(text)


def _digits(coded: bytes) -> str:
    """Three digits in HPACK's Huffman code: 0 to 2 have five bits (0, 1, 2), 3 to 9 six (25 to 31)."""
    bits = "".join(f"{byte:08b}" for byte in coded)
    out = ""
    while len(out) < 3:
        size = 5 if int(bits[:5], 2) <= 2 else 6
        value, bits = int(bits[:size], 2), bits[size:]
        out += str(value if size == 5 else value - 22)
    return out
