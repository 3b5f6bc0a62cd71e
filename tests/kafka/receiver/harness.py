"""A receiver of the test's own: in this process, on free ports, with a contract file that the test writes."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from headrace.base.clock import Deadline
from headrace.core.contract import Contract, Ingress, Reference, Resource, dump
from headrace.kafka.settings import KafkaSettings
from headrace.receiver import Receiver, ReceiverConfig, Secrets, build
from headrace.receiver.running import no_secrets
from tests.support.waiting import eventually

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/test", "ce-type": "test.event"}
"""The required attributes in binary mode."""


@dataclass(frozen=True)
class Response:
    """What a receiver answered; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class Record:
    """A record as it is in Kafka."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


def resource(kafka: KafkaSettings, topic: str, path: str = "/ns/name", **changes: Any) -> Resource:
    """A contract resource with an ingress; `changes` are fields of the resource, `ingress_*` those of its ingress."""
    inner = {name.removeprefix("ingress_"): changes.pop(name) for name in list(changes) if name.startswith("ingress_")}
    made = Resource(
        uid=f"uid-{topic}-{path}",
        topics=(topic,),
        bootstrap_servers=kafka.bootstrap_servers,
        ingress=replace(Ingress(path=path), **inner),
        reference=Reference(namespace="ns", name="name", kind="Broker"),
    )
    return replace(made, **changes)


class Bench:
    """One receiver and its contract file. `start` it, `serve` resources, send requests."""

    def __init__(self, folder: Path, secrets: Secrets = no_secrets, **changes: Any) -> None:
        self._file = folder / "contract.json"
        self._generation = 0
        config = ReceiverConfig(kafka=None, contract=f"file:{self._file}", port=0, ops_port=0)
        self.config = replace(config, **changes)
        self.receiver: Receiver = build(self.config, secrets)

    def start(self, *resources: Resource) -> Bench:
        """Serve `resources`; returns once they are in force."""
        if resources:
            self.write(*resources)
        self.receiver.start()
        if resources:
            eventually(lambda: not self.receiver.missing(), what=lambda_text(self.receiver))
        return self

    def write(self, *resources: Resource) -> None:
        """Write a new contract."""
        self._generation += 1
        partial = self._file.with_suffix(".partial")
        partial.write_bytes(dump(Contract(generation=self._generation, resources=resources)))
        partial.replace(self._file)

    def serve(self, *resources: Resource) -> None:
        """Write a new contract and wait until every address in it is answered by what it says."""
        self.write(*resources)
        wanted = {one.uid for one in resources}
        eventually(lambda: set(self.receiver.table.ingresses) == wanted, what="the contract is in force")

    @property
    def port(self) -> int:
        return int(urlsplit(self.receiver.url).port or 0)

    def send(
        self, path: str = "/ns/name", body: bytes = b"{}", headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> Response:
        """One request on a connection of its own; without `headers` those of a valid event."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            return exchange(connection, method, path, body, EVENT if headers is None else headers)

    def raw(self, data: bytes, timeout: float = 10.0) -> bytes:
        """Send `data` as it is, and give all that comes back until the receiver closes or is silent for `timeout` seconds."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            return drain(connection)

    def get_ops(self, path: str) -> Response:
        """A page of the operations port."""
        parts = urlsplit(self.receiver.ops_url)
        with closing(http.client.HTTPConnection("127.0.0.1", parts.port, timeout=10)) as connection:
            return exchange(connection, "GET", path, b"", {})

    def close(self) -> None:
        self.receiver.stop(Deadline(10))


def lambda_text(receiver: Receiver) -> str:
    """What a wait for readiness says when it fails."""
    return f"the receiver is ready, but {receiver.missing()}"


def exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> Response:
    """One request on an open connection."""
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def drain(connection: socket.socket) -> bytes:
    """All that comes from `connection`."""
    out = b""
    try:
        while chunk := connection.recv(65536):
            out += chunk
    except OSError:
        pass
    return out


def status_of(answer: bytes) -> int:
    """The status of the first response in `answer`; 0 for none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def records(kafka: KafkaSettings, topic: str, count: int, timeout: float = 30.0) -> list[Record]:
    """The first `count` records of `topic`, and whatever else is there; fails when there are fewer."""
    found = read_all(kafka, topic, count, timeout)
    assert len(found) >= count, f"{len(found)} records instead of {count}"
    return found


def read_all(kafka: KafkaSettings, topic: str, count: int = 0, timeout: float = 10.0) -> list[Record]:
    """All records that are in `topic` now; waits for `count` of them."""
    consumer = Consumer(kafka.client(**{"group.id": "test", "enable.partition.eof": False, "log_level": 2}))
    deadline = Deadline(timeout)
    out: list[Record] = []
    try:
        partitions = consumer.list_topics(topic, timeout=timeout).topics[topic].partitions
        places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions]
        ends = sum(consumer.get_watermark_offsets(place, timeout=timeout)[1] for place in places)
        consumer.assign(places)
        while len(out) < max(ends, count) and not deadline.expired:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                lines = cast("list[tuple[str, bytes | None]]", message.headers() or [])
                headers = {name: value or b"" for name, value in lines}
                out.append(Record(message.partition() or 0, message.key(), message.value(), headers))
    finally:
        consumer.close()
    return out


def structured(**members: object) -> bytes:
    """A JSON event with the required attributes and `members`."""
    return json.dumps({"specversion": "1.0", "id": "1", "source": "/test", "type": "test.event", **members}).encode()
