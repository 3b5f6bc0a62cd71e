"""The embedded Kafka: what it keeps, what it survives, what it refuses and how it says so."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.base.clock import Deadline
from headrace.base.errors import Terminal
from headrace.kafka.admin import Admin
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.folder import lock_holder
from headrace.kafka.java import java_home
from headrace.kafka.runtime import QUICK_JVM
from headrace.kafka.settings import KafkaSettings
from tests.support.waiting import eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A Kafka that the tests of this module leave running."""
    with EmbeddedKafka(tmp_path_factory.mktemp("running") / "kafka", jvm_options=QUICK_JVM) as broker:
        yield broker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kafka"


def write(kafka: KafkaSettings, topic: str, values: list[str]) -> None:
    producer = Producer(kafka.client(acks="all"))
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def read(kafka: KafkaSettings, topic: str) -> list[str]:
    """All that is in partition 0."""
    consumer = Consumer(kafka.client(group_id="reader", enable_auto_commit=False, enable_partition_eof=True))
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            values.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return values


def test_it_keeps_its_data_over_a_clean_stop_and_over_a_kill(folder: Path) -> None:
    broker = EmbeddedKafka(folder, jvm_options=QUICK_JVM)
    try:
        broker.start()
        address, cluster = broker.bootstrap, Admin(broker.settings).cluster_info().cluster_id
        Admin(broker.settings).create_topic("kept", 1)
        write(broker.settings, "kept", ["a", "b"])
        assert Admin(broker.settings).commit_group_offsets("g", "kept", {0: 1}) == {}
        stopped = time.monotonic()
        broker.stop()
        assert time.monotonic() - stopped < 15
        assert broker.pid is None

        broker.start()
        assert broker.bootstrap == address
        assert read(broker.settings, "kept") == ["a", "b"]
        write(broker.settings, "kept", ["c"])
        broker.kill()
        assert broker.pid is None

        broker.start()
        assert read(broker.settings, "kept") == ["a", "b", "c"]
        assert Admin(broker.settings).group_offsets("g", "kept") == {0: 1}
        assert Admin(broker.settings).cluster_info().cluster_id == cluster
    finally:
        broker.stop()


def test_topics_are_never_created_by_asking_for_them(running: EmbeddedKafka) -> None:
    failed: list[object] = []
    producer = Producer(running.settings.client(message_timeout_ms=1000))
    producer.produce("never-created", b"x", on_delivery=lambda error, _: failed.append(error))
    producer.flush(20)
    assert len(failed) == 1
    assert failed[0] is not None
    assert "never-created" not in Admin(running.settings).topics()


def test_it_listens_on_the_loopback_address_only(running: EmbeddedKafka) -> None:
    tables = [Path(f"/proc/{running.pid}/net/{table}").read_text() for table in ("tcp", "tcp6")]
    sockets = [line.split() for table in tables for line in table.splitlines()[1:]]
    places = [fields[1].split(":") for fields in sockets if fields[3] == "0A"]
    ours = {host for host, port in places if int(port, 16) == running.port}
    assert ours
    assert ours <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_its_log_is_where_it_says(running: EmbeddedKafka) -> None:
    assert "Kafka Server started" in running.log_path.read_text()


def test_a_folder_in_use_is_refused_and_its_owner_named(running: EmbeddedKafka) -> None:
    second = EmbeddedKafka(running.log_path.parent)
    with pytest.raises(Terminal, match=f"is in use by process {os.getpid()}"):
        second.start()
    assert Admin(running.settings).cluster_info().brokers


def test_a_folder_whose_owner_died_but_not_its_kafka_is_refused_too(
    running: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.kafka.folder._GRACE", 0.2)
    folder = running.log_path.parent
    assert lock_holder(folder / "log" / ".lock") == running.pid
    (folder / "lock").rename(folder / "lock.aside")
    try:
        with pytest.raises(Terminal, match=f"is in use by process {running.pid}"):
            EmbeddedKafka(folder).prepare()
    finally:
        (folder / "lock.aside").rename(folder / "lock")


def test_it_ends_when_the_process_that_started_it_is_killed(folder: Path) -> None:
    program = "import sys, time; from pathlib import Path; from headrace.kafka.embedded import EmbeddedKafka; "
    program += "k = EmbeddedKafka(Path(sys.argv[1])); k.start(); print(k.pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        starter.send_signal(signal.SIGKILL)
    # What it needs to start again: the dying Kafka is waited for.
    successor = EmbeddedKafka(folder)
    successor.prepare()
    successor.release()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), 20, "the orphan is gone")


def test_a_port_in_use_is_refused_before_anything_is_started(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Terminal, match=f"port {port} is in use by another process"):
            EmbeddedKafka(folder, port).start()
    assert not (folder / "log").exists()


def test_a_supervisor_learns_why_kafka_ended(folder: Path, free_port: Callable[[], int]) -> None:
    broker = EmbeddedKafka(folder, free_port(), jvm_options=QUICK_JVM)
    broker.prepare()
    argv, env = broker.command()
    with socket.create_server(("127.0.0.1", broker.port)):
        with subprocess.Popen(argv, env=dict(env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            with pytest.raises(Terminal, match=f"127.0.0.1:{broker.port} is in use by another process") as told:
                broker.wait_ready(Deadline(120), alive=lambda: process.poll() is None)
    assert str(broker.log_path) in str(told.value)
    broker.release()


def test_a_start_that_takes_too_long_is_told_with_the_last_words_of_the_log(running: EmbeddedKafka, folder: Path) -> None:
    broker = EmbeddedKafka(folder)
    with pytest.raises(Terminal, match=r"was not ready in time\. Its last words"):
        broker.start(deadline=Deadline(0.2))
    assert broker.pid is None
    broker.prepare()
    broker.release()


def test_a_full_disk_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 1, 1))
    with pytest.raises(Terminal, match="its disk is full"):
        EmbeddedKafka(folder).start()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Terminal, match=r"data folder .*file/kafka: can't be used: Not a directory"):
        EmbeddedKafka(tmp_path / "file" / "kafka").start()


@pytest.mark.parametrize("codec", CODECS)
def test_the_bundled_java_runs_kafka_with_every_compression(bundled: EmbeddedKafka, codec: str) -> None:
    """The broker itself compresses what comes uncompressed, and the other way round: Java's codecs and their native parts work."""
    target = {"none": "uncompressed"}.get(codec, codec)
    topic = f"codec-{codec}"
    Admin(bundled.settings).create_topic(topic, 1, config={"compression.type": target})
    write(bundled.settings, topic, ["x" * 1000] * 10)
    producer = Producer(bundled.settings.client(acks="all", compression_type=codec))
    producer.produce(topic, "y" * 1000, partition=0)
    assert producer.flush(30) == 0
    assert read(bundled.settings, topic) == ["x" * 1000] * 10 + ["y" * 1000]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A Kafka on the Java that comes as a Python package, whatever this machine has."""
    home = java_home("bundled")
    assert home.bundled
    with EmbeddedKafka(tmp_path_factory.mktemp("bundled"), java=home, jvm_options=QUICK_JVM) as broker:
        assert Path(f"/proc/{broker.pid}/exe").resolve().is_relative_to(home.path.resolve())
        yield broker


def test_two_at_once_do_not_disturb_each_other(running: EmbeddedKafka, bundled: EmbeddedKafka) -> None:
    assert running.port != bundled.port
    assert Admin(running.settings).cluster_info().cluster_id != Admin(bundled.settings).cluster_info().cluster_id


def test_the_classes_of_a_kafka_that_served_are_kept_and_those_of_one_that_did_not_are_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.kafka.runtime.FOLDER", str(tmp_path / "classes"))
    broken = EmbeddedKafka(folder, overrides={"log.retention.bytes": "many"})
    with pytest.raises(Terminal):
        broken.start()
    assert broken.records
    with EmbeddedKafka(tmp_path / "served") as served:
        records = [served.records]
    assert [*records, served.records] == [True, False]
    with EmbeddedKafka(tmp_path / "served") as again:
        assert str(tmp_path / "classes") in Path(f"/proc/{again.pid}/maps").read_text()
