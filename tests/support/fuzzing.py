"""What fuzzers throw bytes at (`scripts/fuzz` runs them for long, the tests for a moment).

A target turns any bytes into input of one decoder and checks what must hold whatever comes: only the decoder's own error is raised,
and what is accepted survives the way that it would take through Headrace.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.core import cesql
from headrace.core.contract import ContentMode
from headrace.core.events import http, kafka
from headrace.core.events.model import InvalidEvent

CASES = Path(__file__).parent.parent / "unit" / "fuzz_cases"
"""Findings, one file each, under the name of their target; the tests run them all."""

_EVENT: dict[str, cesql.Value] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "a": "5", "b": True, "c": 7}


def fuzz_http(data: bytes) -> bool:
    """`name: value` lines, an empty line, the body. An accepted event arrives unchanged through Kafka in either mode.

    Every target answers whether the input was accepted.
    """
    head, _, body = data.partition(b"\n\n")
    lines = [line.partition(": ") for line in head.decode("latin-1").split("\n")]
    headers = [(name, value) for name, separator, value in lines if separator]
    try:
        events = http.decode_request(headers, body)
    except InvalidEvent:
        events = []
    for event in events:
        for mode in ContentMode:
            record, value = kafka.encode_record(event, mode)
            assert kafka.decode_record(record, value) == event
            check_sent(kafka.record_to_http(record, value))
    try:
        reply = http.decode_response(200, headers, body)
    except InvalidEvent:
        return bool(events)
    assert reply is None or [reply] == events
    return bool(events)


def fuzz_kafka(data: bytes) -> bool:
    """Per header: a byte for the length of its name, the name, a byte for the length of its value (255: null), the value. A name
    of length 0 ends the headers; the rest is the record's value, null if it is empty."""
    headers: list[tuple[bytes, bytes | None]] = []
    rest = memoryview(data)
    while len(rest) > 1 and rest[0]:
        name, rest = bytes(rest[1 : 1 + rest[0]]), rest[1 + rest[0] :]
        length = rest[0] if len(rest) else 0
        headers.append((name, None if length == 255 else bytes(rest[1 : 1 + length])))
        rest = rest[1 + (0 if length == 255 else length) :]
    value = bytes(rest[1:]) or None
    try:
        event = kafka.decode_record([(name.decode("utf-8", "replace"), content) for name, content in headers], value)
    except InvalidEvent:
        event = None
    try:
        sent = kafka.record_to_http(headers, value)
    except InvalidEvent:
        return False
    check_sent(sent)
    assert event is not None
    assert sent.attributes == event.attributes
    for mode in ContentMode:
        kafka.encode_record(event, mode)
    return True


def check_sent(sent: kafka.HttpEvent) -> None:
    """No line can end early or hide another one."""
    for line in sent.lines:
        assert line.isascii()
        assert line.isprintable()


def fuzz_cesql(data: bytes) -> bool:
    """An expression in UTF-8: it parses or tells where not; then it gives a value of the language."""
    expression = data.decode("utf-8", "replace")
    try:
        evaluate = cesql.compile(expression)
    except cesql.ParseError as found:
        if min(found.line, found.column) < 1:
            raise AssertionError("an error without a place") from found
        return False
    result, error = evaluate(_EVENT)
    assert type(result) in (str, int, bool)
    assert isinstance(result, str | bool) or -(2**31) <= result < 2**31
    assert evaluate(_EVENT) == (result, error)
    parts = [
        cesql.compile_tree(cesql.is_true(part))(_EVENT) == (True, None) for part in cesql.conjuncts(cesql.parse(expression))
    ]
    assert all(parts) is (cesql.compile_tree(cesql.is_true(cesql.parse(expression)))(_EVENT) == (True, None))
    return True


TARGETS: dict[str, Callable[[bytes], bool]] = {"http": fuzz_http, "kafka": fuzz_kafka, "cesql": fuzz_cesql}

_STRUCTURED = (
    b'{"specversion":"1.0","id":"1","source":"/s","type":"t","ext":5,"datacontenttype":"a/b+json","data":{"a":[1.0,"\\u00e9"]}}'
)
SEEDS: dict[str, list[bytes]] = {
    "http": [
        b'ce-specversion: 1.0\nce-id: 1\nce-source: /s\nce-type: t\nce-ext: "a %E2%82%AC"\ncontent-type: text/plain\n\nbody',
        b"content-type: application/cloudevents+json\ntraceparent: 00\n\n" + _STRUCTURED,
        b"content-type: application/cloudevents-batch+json\n\n[" + _STRUCTURED + b", " + _STRUCTURED + b"]",
        b"content-type: application/cloudevents+json\n\n"
        b'{"specversion":"0.3","id":"1","source":"/s","type":"t","datacontentencoding":"base64","data":"AAE="}',
    ],
    "kafka": [
        b"\x0ece_specversion\x031.0\x05ce_id\x011\x09ce_source\x02/s\x07ce_type\x01t\x0ccontent-type\x0atext/plain\x00data",
        b"\x0ccontent-type\x1capplication/cloudevents+json\x0btraceparent\x0200\x00" + _STRUCTURED,
        b"\x0ece_specversion\x030.3\x05ce_id\x02\xc3\xa9\x09ce_source\x02/s\x07ce_type\x01t\x06ce_ext\xff\x00",
    ],
    "cesql": [
        b"type = 't' AND (a < 10 OR NOT EXISTS source) XOR b",
        b"CONCAT_WS(',', SUBSTRING(id, -1, 2), UPPER(\"x\"), 'it''s') LIKE '%a\\_b_%'",
        b"-a * (c + 5) / 2 % 3 IN (1, '2', TRUE, c) <> false",
        b"a NOT IN (1) AND type NOT LIKE 't%'",
    ],
}


def mutate(random_source: random.Random, seed: bytes, tokens: list[bytes]) -> bytes:
    """`seed` after a few small changes: bytes replaced, dropped and repeated, pieces of other seeds put in."""
    data = bytearray(seed)
    for _ in range(random_source.randint(1, 6)):
        at = random_source.randint(0, len(data))
        match random_source.randint(0, 3):
            case 0:
                data[at : at + 1] = random_source.randbytes(1)
            case 1:
                del data[at : at + random_source.randint(1, 8)]
            case 2:
                data[at:at] = data[at : at + random_source.randint(1, 16)]
            case _:
                data[at:at] = random_source.choice(tokens)
    return bytes(data)


def tokens_of(target: str) -> list[bytes]:
    """Pieces of the target's seeds, for `mutate`."""
    return [piece for seed in SEEDS[target] for piece in seed.replace(b":", b" ").replace(b"\n", b" ").split(b" ") if piece]


def mutations(target: str, seed: int) -> Iterator[bytes]:
    """Endless mutations of the target's seeds, the same ones for the same `seed`."""
    source, tokens = random.Random(seed), tokens_of(target)
    while True:
        yield mutate(source, source.choice(SEEDS[target]), tokens)
