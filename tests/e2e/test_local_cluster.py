"""A secured local cluster as a user has it: its own certificates and users, reached by all the ways that there are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.base.errors import HeadraceError, Terminal
from headrace.kafka.auth import Auth
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.wire import KeyType, connect_any
from tests.support.kafkacli import KafkaCommands, Printed
from tests.support.kafkatools import kafka_tool
from tests.support.system import Inbox, Producer, System, broker, trigger
from tests.support.waiting import eventually

Run = Callable[..., Printed]


@pytest.fixture(params=["ssl", "sasl_ssl"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaCommands]:
    """One secured broker; its commands find it, and its credentials, by the data folder."""
    run = KafkaCommands(None, "--data-dir", str(tmp_path))
    try:
        run("cluster", "up", "--brokers", 1, "--port", 0, "--security", request.param)
        yield run
    finally:
        run("cluster", "down", "--kill")


def test_a_secured_cluster_is_used_with_the_credentials_made_for_it(cluster: KafkaCommands, tmp_path: Path) -> None:
    state = cluster("cluster", "status", "-o", "json").data
    assert [node["state"] for node in state["nodes"]] == ["running"]
    bootstrap = state["bootstrapServers"]

    cluster("topics", "create", "t", "--partitions", 3)
    cluster("produce", "t", "--key-separator", "#", stdin="1#hello\n2#world\n")
    as_user = KafkaCommands(None, "--bootstrap-servers", bootstrap, "--kafka-auth", str(tmp_path / "cluster/auth/user.yaml"))
    read = as_user("consume", "t", "--group", "g", "--from-beginning", "--max-messages", 2, "-o", "json").objects
    assert sorted((record["key"], record["partition"], record["value"]) for record in read) == [
        ("1", 0, "hello"),
        ("2", 2, "world"),
    ]
    assert as_user("coordinator", "g", "-o", "json").data["coordinator"] == 1
    sizes = [part["bytes"] for part in as_user("topics", "describe", "t", "-o", "json").data["partitions"]]
    assert [size > 0 for size in sizes] == [True, False, True]

    listed = kafka_tool(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        bootstrap,
        "--list",
        "--command-config",
        state["commandConfig"],
    )
    assert "t" in listed.out.decode().split(), listed.err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_up_runs_on_another_kafka_with_its_credentials(cluster: KafkaCommands, tmp_path: Path, inbox: Inbox) -> None:
    bootstrap = cluster("cluster", "status", "-o", "json").data["bootstrapServers"]
    auth = tmp_path / "cluster/auth/user.yaml"
    running = System(tmp_path / "headrace", "--bootstrap-servers", bootstrap, "--kafka-auth", str(auth)).start()
    try:
        assert running.part("kafka").state == "EXTERNAL"
        running.apply(broker("far"), trigger("far-t", "far", inbox.url("far")))
        producer = Producer(running.address("broker/far"))
        assert [producer.send(id=str(number)) for number in range(5)] == [202] * 5
        producer.close()
        eventually(lambda: sorted(inbox.ids("far")) == list("01234"), 120)
    finally:
        assert running.stop() == 0
    # What was made there stays there, and so does Kafka.
    assert "knative-broker-default-far" in {one["name"] for one in cluster("topics", "list", "-o", "json").data}


def test_a_stranger_is_not_let_in(cluster: KafkaCommands, tmp_path: Path) -> None:
    bootstrap = cluster("cluster", "status", "-o", "json").data["bootstrapServers"]
    ca = (tmp_path / "cluster/auth/ca.crt").read_text()
    sasl = "sasl.mechanism" in (tmp_path / "cluster/auth/admin.yaml").read_text()
    login = {"sasl.mechanism": "SCRAM-SHA-512", "user": "admin", "password": "wrong"} if sasl else {"user.skip": "true"}
    stranger = Auth.from_secret({"protocol": "SASL_SSL" if sasl else "SSL", "ca.crt": ca, **login})
    with pytest.raises(HeadraceError), connect_any(KafkaSettings(bootstrap, stranger), timeout=10) as connection:
        connection.find_coordinator("g", KeyType.GROUP)
    # Without our authority the broker is a stranger to us.
    data = {"protocol": "SASL_SSL" if sasl else "SSL", **login}
    with pytest.raises(Terminal, match="TLS failed"), connect_any(KafkaSettings(bootstrap, Auth.from_secret(data)), timeout=10):
        pass


def test_a_cluster_outlives_the_command_that_started_it_and_keeps_its_data(tmp_path: Path) -> None:
    call = "import sys; from headrace.cli.kafka import app; app(sys.argv[1:])"
    run = KafkaCommands(None, "--data-dir", str(tmp_path))
    options = ["--brokers", "1", "--port", "0", "--data-dir", str(tmp_path)]
    try:
        subprocess.run([sys.executable, "-c", call, "cluster", "up", *options], check=True, capture_output=True, timeout=240)
        before = run("cluster", "status", "-o", "json").data
        run("topics", "create", "kept")
        run("produce", "kept", stdin="value\n")
        assert run("cluster", "stop-broker", 1, "--kill").err == "Node 1 was killed.\n"
        assert run("cluster", "stop-broker", 1).err == "Node 1 does not run.\n"
        assert run("cluster", "status", "-o", "json").data["nodes"][0]["state"] == "stopped"
        run("cluster", "start-broker", 1)
        assert run("consume", "kept", "--from-beginning", "--until-end", "--value-only").lines == ["value"]
        run("cluster", "reset")
        after = run("cluster", "status", "-o", "json").data
        assert run("topics", "list", "-o", "json").data == []
        assert after["bootstrapServers"] == before["bootstrapServers"]
        assert after["clusterId"] != before["clusterId"]
    finally:
        run("cluster", "down", "--delete")
    with pytest.raises(Terminal, match="there is no local cluster"):
        run("cluster", "status")
    assert sorted(path.name for path in (tmp_path / "cluster").iterdir()) == ["lock"]
