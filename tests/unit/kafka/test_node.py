"""Nodes as Kafka reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.kafka.auth import Protocol
from headrace.kafka.node import SINGLE_NODE, Listener, NodeConfig, Role, render_log4j, render_properties

VOTERS = {1: "127.0.0.1:9001", 2: "127.0.0.1:9002", 3: "127.0.0.1:9003"}


def test_a_combined_node_has_both_roles_and_both_kinds_of_listener() -> None:
    node = NodeConfig(1, Path("/data"), VOTERS, (Listener("PLAIN", 9092),), controller_port=9001)
    properties = node.properties()
    assert node.roles == (Role.BROKER, Role.CONTROLLER)
    assert properties["process.roles"] == "broker,controller"
    assert properties["listeners"] == "PLAIN://127.0.0.1:9092,CONTROLLER://127.0.0.1:9001"
    assert properties["advertised.listeners"] == "PLAIN://127.0.0.1:9092"
    assert properties["listener.security.protocol.map"] == "CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9001,2@127.0.0.1:9002,3@127.0.0.1:9003"
    assert properties["inter.broker.listener.name"] == "PLAIN"


def test_a_controller_alone_advertises_nothing() -> None:
    properties = NodeConfig(1, Path("/data"), VOTERS, controller_port=9001).properties()
    assert properties["process.roles"] == "controller"
    assert properties["listeners"] == "CONTROLLER://127.0.0.1:9001"
    assert "advertised.listeners" not in properties
    assert "inter.broker.listener.name" not in properties


def test_a_broker_alone_knows_how_to_reach_controllers() -> None:
    properties = NodeConfig(4, Path("/data"), VOTERS, (Listener("PLAIN", 9092),)).properties()
    assert properties["process.roles"] == "broker"
    assert properties["listeners"] == "PLAIN://127.0.0.1:9092"
    assert properties["listener.security.protocol.map"] == "CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT"


def test_properties_of_a_listener_are_its_own_and_are_not_shown() -> None:
    secure = Listener("Secure", 9093, Protocol.SASL_SSL, properties={"ssl.keystore.key": "hidden"})
    node = NodeConfig(1, Path("/data"), VOTERS, (Listener("PLAIN", 9092), secure), 9001, overrides={"x": "hidden"})
    assert node.properties()["listener.name.secure.ssl.keystore.key"] == "hidden"
    assert "hidden" not in repr(node)


def test_overrides_win() -> None:
    node = NodeConfig(1, Path("/data"), VOTERS, (Listener("PLAIN", 1),), 2, overrides={**SINGLE_NODE, "node.id": "7"})
    assert node.properties()["node.id"] == "7"
    assert node.properties()["auto.create.topics.enable"] == "false"


@pytest.mark.parametrize(
    ("value", "written"),
    [("plain", "plain"), ("a\nb\tc", "a\\nb\\tc"), ("C:\\x", "C:\\\\x"), (" lead", "\\ lead"), ("é", "\\u00e9"), ("", "")],
)
def test_a_value_is_written_as_java_reads_it(value: str, written: str) -> None:
    assert render_properties({"name": value}) == f"name={written}\n"


def test_the_log_configuration_names_the_log() -> None:
    assert "appender.file.fileName = /logs/kafka.log\n" in render_log4j(Path("/logs/kafka.log"))
