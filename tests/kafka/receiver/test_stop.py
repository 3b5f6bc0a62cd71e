"""The end of a receiver: asked for, under load, and by force. What was answered 202 is in Kafka, whatever happens."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headrace.core.contract import Contract, dump
from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.kafka.receiver.harness import EVENT, exchange, read_all, resource
from tests.support.waiting import eventually

PROGRAM = """
import sys
from pathlib import Path
from headrace.base import log
from headrace.base.signals import until_asked
from headrace.receiver import ReceiverConfig, run
contract, addresses, port = sys.argv[1:]
stop = until_asked()
log.configure()
run(ReceiverConfig(kafka=None, contract=f"file:{contract}", port=int(port), share_port=int(port) != 0, ops_port=0,
                   addresses_file=Path(addresses), stop_seconds=15), stop)
"""


class Process:
    """A receiver in a process of its own."""

    def __init__(self, folder: Path, contract: Path, port: int = 0) -> None:
        addresses = folder / f"addresses-{time.monotonic_ns()}.json"
        command = [sys.executable, "-c", PROGRAM, str(contract), str(addresses), str(port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        eventually(lambda: addresses.exists() or self.process.poll() is not None, what="it listens")
        found = json.loads(addresses.read_text())
        self.port = int(urlsplit(found["url"]).port or 0)
        self.ops = urlsplit(found["opsUrl"]).netloc
        eventually(self.ready, what="it is ready")

    def ready(self) -> bool:
        connection = http.client.HTTPConnection(self.ops, timeout=5)
        try:
            return exchange(connection, "GET", "/readyz", b"", {}).status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


Start = Callable[..., Process]


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(partitions=3)


@pytest.fixture
def start(kafka: KafkaSettings, name: str, tmp_path: Path) -> Iterator[Start]:
    contract = tmp_path / "contract.json"
    contract.write_bytes(dump(Contract(generation=1, resources=(resource(kafka, name),))))
    made: list[Process] = []

    def process(port: int = 0) -> Process:
        made.append(Process(tmp_path, contract, port))
        return made[-1]

    yield process
    for one in made:
        one.process.kill()
        one.process.communicate()


class Load:
    """Senders that go on until they can't: `accepted` are the ids that were answered 202, `cut` those that got no answer."""

    def __init__(self, port: int, senders: int = 8) -> None:
        self._port = port
        self._enough = threading.Event()
        self.accepted: set[bytes] = set()
        self.other: list[int] = []
        self.cut: list[bytes] = []
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(senders)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def _send(self, sender: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        number = 0
        while not self._enough.is_set():
            number += 1
            event = f"{sender}-{number}"
            try:
                if connection.sock is None:
                    connection.connect()
            except OSError:
                break
            try:
                status = exchange(connection, "POST", "/ns/name", b"x" * 500, {**EVENT, "ce-id": event}).status
            except (OSError, http.client.HTTPException):
                self.cut.append(event.encode())
                connection.close()
                continue
            if status == 202:
                self.accepted.add(event.encode())
            else:
                self.other.append(status)
        connection.close()


def stored(kafka: KafkaSettings, name: str) -> list[bytes]:
    return [record.headers["ce_id"] for record in read_all(kafka, name)]


@pytest.mark.spec("DP-8", "CP-R1", "CP-R10")
def test_a_stop_under_load_answers_every_request_that_has_arrived(start: Start, kafka: KafkaSettings, name: str) -> None:
    receiver = start()
    load = Load(receiver.port)
    eventually(lambda: len(load.accepted) > 500, what="events flow")
    assert receiver.end(signal.SIGTERM) == 0
    load.stop()
    assert load.other == []
    found = stored(kafka, name)
    assert load.accepted <= set(found)
    # A request that crosses the end of its connection is not answered, and not taken either.
    assert set(found) == load.accepted
    assert len(found) == len(set(found))


def test_a_request_whose_body_is_still_coming_is_answered_after_the_signal(
    start: Start, kafka: KafkaSettings, name: str
) -> None:
    receiver = start()
    head = "POST /ns/name HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n" + "".join(f"{k}: {v}\r\n" for k, v in EVENT.items())
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=20) as connection:
        connection.sendall(f"{head}\r\nda".encode())
        eventually(lambda: _waiting(receiver) == 1, what="the request has arrived")
        receiver.process.send_signal(signal.SIGTERM)
        eventually(lambda: not receiver.ready(), what="it says that it stops")
        connection.sendall(b"ta")
        assert connection.recv(1000).startswith(b"HTTP/1.1 202 ")
    assert receiver.process.wait(20) == 0
    assert stored(kafka, name) == [b"1"]


def test_a_body_that_never_comes_does_not_hold_up_a_stop(start: Start) -> None:
    receiver = start()
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=20) as connection:
        connection.sendall(b"POST /ns/name HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n")
        connection.sendall("".join(f"{k}: {v}\r\n" for k, v in EVENT.items()).encode() + b"\r\n")
        eventually(lambda: _waiting(receiver) == 1, what="the request has arrived")
        before = time.monotonic()
        assert receiver.end(signal.SIGTERM) == 0
        assert time.monotonic() - before < 14
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")


@pytest.mark.spec("DP-8", "CP-R1", "CP-R10")
def test_nothing_that_was_accepted_is_lost_when_a_receiver_is_killed(start: Start, kafka: KafkaSettings, name: str) -> None:
    receiver = start()
    load = Load(receiver.port)
    eventually(lambda: len(load.accepted) > 500, what="events flow")
    assert receiver.end(signal.SIGKILL) == -signal.SIGKILL
    load.stop()
    found = stored(kafka, name)
    assert load.accepted <= set(found)
    assert set(found) - load.accepted <= set(load.cut)


def test_several_processes_may_share_a_port(
    start: Start, kafka: KafkaSettings, name: str, free_port: Callable[[], int]
) -> None:
    port = free_port()
    first, second = start(port), start(port)
    load = Load(port, senders=16)
    eventually(lambda: len(load.accepted) > 500, what="events flow")
    assert first.end(signal.SIGTERM) == 0
    before = len(load.accepted)
    eventually(lambda: len(load.accepted) > before + 100, what="the other one serves on")
    load.stop()
    assert second.end(signal.SIGTERM) == 0
    assert load.other == []
    assert load.accepted <= set(stored(kafka, name))


def test_the_memory_of_a_process_does_not_grow_with_what_it_has_served(start: Start) -> None:
    receiver = start()
    load = Load(receiver.port)
    eventually(lambda: len(load.accepted) > 2000, what="warm")
    before = _resident(receiver)
    eventually(lambda: len(load.accepted) > 8000, what="many more", timeout=120)
    load.stop()
    assert _resident(receiver) - before < 8 << 20


def _resident(receiver: Process) -> int:
    pages = Path(f"/proc/{receiver.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _waiting(receiver: Process) -> float:
    connection = http.client.HTTPConnection(receiver.ops, timeout=5)
    page = exchange(connection, "GET", "/metrics", b"", {}).text
    connection.close()
    [line] = [line for line in page.splitlines() if line.startswith("headrace_receiver_events_waiting{")]
    return float(line.split()[-1])
