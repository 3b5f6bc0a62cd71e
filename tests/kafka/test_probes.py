"""How `headrace up` sees from outside that a part works."""

from __future__ import annotations

import socket
import threading

from prometheus_client import CollectorRegistry

from headrace.http.ops import OpsServer
from headrace.kafka.settings import KafkaSettings
from headrace.standalone.probes import NO_ANSWER, by_kafka, by_operations


def test_a_broker_that_serves_lacks_nothing(kafka: KafkaSettings) -> None:
    host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
    assert by_kafka(int(port), host)() == []


def test_nobody_and_something_else_are_told_apart_from_a_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        assert by_kafka(port)() == ["is not a Kafka broker"]
    assert by_kafka(port)() == [NO_ANSWER]


def test_what_a_part_says_of_itself_is_passed_on() -> None:
    missing = ["the contract"]
    ops = OpsServer(CollectorRegistry(), lambda: missing)
    ops.start()
    assert by_operations(ops.port)() == ["the contract"]
    missing.clear()
    assert by_operations(ops.port)() == []
    ops.close()
    assert by_operations(ops.port)() == [NO_ANSWER]
