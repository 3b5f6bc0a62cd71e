"""Ten thousand bad requests, made from a seed: every one gets a right 4xx, none is accepted, none is a failure of ours."""

from __future__ import annotations

import json
import os
import random
import socket
from collections import Counter
from collections.abc import Callable

import pytest

from headrace.kafka.settings import KafkaSettings
from headrace.receiver import Limits
from tests.conftest import TopicFactory
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, read_all, resource, structured

COUNT = int(os.environ.get("HEADRACE_BAD_REQUESTS", "10000"))
SEED = int(os.environ.get("HEADRACE_SEED", "20260201"))
LIMITS = Limits(body=20_000, headers=16_384)

Made = tuple[bytes, set[int]]
"""A request as it goes over the wire, and the statuses that are right for it."""


class Generator:
    """Each method makes one kind of bad request. A good request is spoilt in one place, at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds: list[Callable[[], Made]] = [
            getattr(self, name) for name in dir(self) if name.startswith("bad_") and callable(getattr(self, name))
        ]

    def request(self) -> Made:
        return self.random.choice(self.kinds)()

    def bad_missing(self) -> Made:
        headers = dict(EVENT)
        for name in self.random.sample(sorted(headers), self.random.randint(1, 4)):
            del headers[name]
        return self._http(headers), {400}

    def bad_empty(self) -> Made:
        return self._http({**EVENT, self.random.choice(sorted(EVENT)): self._of("", '""')}), {400}

    def bad_version(self) -> Made:
        return self._http({**EVENT, "ce-specversion": self._of("2.0", "1", "0.2", "1.0.0", "abc", "1%2E1", '"2.0"')}), {400}

    def bad_source(self) -> Made:
        return self._http({**EVENT, "ce-source": self._of("a b", "%3C%3E", "a%20b", "http://[::1", "\\\\host", "{x}")}), {400}

    def bad_time(self) -> Made:
        time = self._of("now", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T25:00:00Z", "")
        return self._http({**EVENT, "ce-time": time}), {400}

    def bad_schema(self) -> Made:
        return self._http({**EVENT, "ce-dataschema": self._of("relative", "/a", "", "a%20b:c")}), {400}

    def bad_name(self) -> Made:
        return self._http({**EVENT, self._of("ce-a-b", "ce-a_b", "ce-", "ce-data", "ce-datacontenttype", "ce-a.b"): "x"}), {400}

    def bad_encoding(self) -> Made:
        value = self._of("%", "%4", "%zz", "a%C3", "%C0%A0", "%FF", "%ED%A0%80", "%00", "%1F", "%7F", '"open', "%EF%BF%BF")
        return self._http({**EVENT, self._of("ce-id", "ce-type", "ce-extra", "ce-subject"): value}), {400}

    def bad_characters(self) -> Made:
        raw = self.random.choice(["é", "\x80", "日本", "\xff"]).encode("utf-8")
        return self._http(EVENT, more=b"ce-" + self._of("extra", "subject").encode() + b": " + raw + b"\r\n"), {400}

    def bad_twice(self) -> Made:
        name = self.random.choice(sorted(EVENT))
        return self._http(EVENT, more=f"{name}: {EVENT[name]}\r\n".encode()), {400}

    def bad_content_type(self) -> Made:
        kind = self._of(
            "text", "a b/c", "/", "application/cloudevents+xml", "application/cloudevents-batch", "application/cloudevents"
        )
        return self._http({**EVENT, "content-type": kind}), {400}

    def bad_json(self) -> Made:
        good = structured(subject="a", data={"a": [1, 2, 3]})
        body = self.random.choice(
            [
                good[: self.random.randrange(len(good))],
                good + good,
                b"\xff" + good,
                b"[" + good + b"]",
                good.replace(b'"1.0"', b"1.0"),
                good.replace(b'"id": "1"', b'"id": 1'),
                good.replace(b'"id"', b'"Id"'),
                good.replace(b'"subject"', b'"sub_ject"'),
                good.replace(b'"subject": "a"', b'"subject": ["a"]'),
                good.replace(b'"data"', b'"data_base64"'),
                good[:-1] + b', "data_base64": "AA=="}',
                good[:-1] + b', "id": "2"}',
                good[:-1] + b', "time": "never"}',
                b"[" * 100_0 + b"]" * 100_0,
                b"",
                b"null",
                b"{}",
            ]
        )
        return self._http({"content-type": "application/cloudevents+json"}, body), {400}

    def bad_batch(self) -> Made:
        good = [json.loads(structured(id=str(number))) for number in range(self.random.randint(1, 5))]
        self.random.choice(good)[self._of("id", "source", "type", "specversion")] = self._of("", "\u0000")
        return self._http({"content-type": "application/cloudevents-batch+json"}, json.dumps(good).encode()), {400}

    def bad_path(self) -> Made:
        return self._http(
            EVENT, target=self._of("/", "/ns", "/ns/other", "/ns/name/x", "/NS/NAME", "*", "/%6es/name%00", "/ns//name")
        ), {404}

    def bad_method(self) -> Made:
        return self._http(EVENT, method=self._of("GET", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "CONNECT", "FOO")), {
            405,
            400,
        }

    def bad_size(self) -> Made:
        return self._http(EVENT, b"x" * self.random.randint(LIMITS.body + 1, 3 * LIMITS.body)), {413}

    def bad_chunks(self) -> Made:
        chunk = b"%x\r\n" % LIMITS.body + b"x" * LIMITS.body + b"\r\n"
        body = self.random.choice(
            [chunk * 2 + b"0\r\n\r\n", b"zz\r\nx\r\n", b"5\r\nabc\r\n0\r\n\r\n", b"-1\r\n\r\n", b"0\r\nx: 1\r\n\r\n"]
        )
        return self._http(EVENT, None, more=b"transfer-encoding: chunked\r\n", after=body), {400, 413}

    def bad_length(self) -> Made:
        value = self._of("-1", "a", "1, 2", "0x10", "99999999999999999999999", "1.5", "+1")
        return self._http(EVENT, None, more=f"content-length: {value}\r\n".encode()), {400, 413}

    def bad_headers(self) -> Made:
        spoilt = self.random.choice([b"x" * 17_000 + b": 1\r\n", b"x: " + b"a" * 17_000 + b"\r\n", b"x: 1\r\n" * 150])
        return self._http(EVENT, more=spoilt), {431, 400}

    def bad_line(self) -> Made:
        spoilt = self.random.choice([b"no colon\r\n", b": empty\r\n", b"a b: c\r\n", b"x: a\x00b\r\n", b" folded\r\n"])
        return self._http(EVENT, more=spoilt), {400}

    def bad_host(self) -> Made:
        head = self._http(EVENT).replace(b"host: x\r\n", self.random.choice([b"", b"host: x\r\nhost: y\r\n"]), 1)
        return head, {400}

    def bad_start(self) -> Made:
        return self.random.randbytes(self.random.randint(1, 40)) + b"\r\n\r\n", {400}

    def _of(self, *values: str) -> str:
        return self.random.choice(values)

    def _http(
        self,
        headers: dict[str, str],
        body: bytes | None = b"{}",
        *,
        method: str = "POST",
        target: str = "/ns/name",
        more: bytes = b"",
        after: bytes = b"",
    ) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", "host: x", "connection: close", *(f"{k}: {v}" for k, v in headers.items())]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        self.random.shuffle(rest := lines[2:])
        return "\r\n".join([*lines[:2], *rest]).encode() + b"\r\n" + more + b"\r\n" + (body or b"") + after


def statuses(port: int, request: bytes) -> list[int]:
    """The statuses that come back; the connection may end before all of the request is sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        out = b""
        try:
            connection.sendall(request)
        except OSError:
            pass
        try:
            while chunk := connection.recv(65536):
                out += chunk
        except OSError:
            pass
    return [int(part[2:5]) for part in out.split(b"HTTP/1.")[1:]]


@pytest.mark.slow
def test_bad_requests_get_the_right_answer_and_leave_nothing_behind(
    receivers: Benches, kafka: KafkaSettings, topic: TopicFactory
) -> None:
    name = topic()
    bench = receivers(limits=LIMITS).start(resource(kafka, name))
    generator = Generator(SEED)
    seen: Counter[int] = Counter()
    for number in range(COUNT):
        request, right = generator.request()
        found = statuses(bench.port, request)
        assert found, f"request {number} of seed {SEED} got no answer: {request[:300]!r}"
        assert set(found) <= right, f"request {number} of seed {SEED} got {found}: {request[:300]!r}"
        seen.update(found)
    assert seen.keys() == {400, 404, 405, 413, 431}
    assert bench.receiver.held == (0, 0)
    assert bench.send().status == 202
    assert len(read_all(kafka, name)) == 1
