"""A local cluster's layout, and the resources of one on Kubernetes."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from headrace.base.errors import HeadraceError, Terminal, UsageError
from headrace.kafka.authfile import load_auth
from headrace.kafka.cluster.certificates import Authority
from headrace.kafka.cluster.folder import ClusterFolder
from headrace.kafka.cluster.layout import Layout, Security, User
from headrace.kafka.cluster.local import node_config
from headrace.kube.toolspod import ToolsPod
from tests.support.kafkacli import KafkaCommands

run = KafkaCommands()


@pytest.mark.parametrize(
    ("brokers", "controllers", "roles"),
    [
        (1, 0, {1: "broker,controller"}),
        (3, 0, {1: "broker,controller", 2: "broker,controller", 3: "broker,controller"}),
        (1, 1, {0: "controller", 10: "broker"}),
        (3, 3, {0: "controller", 1: "controller", 2: "controller", 10: "broker", 11: "broker", 12: "broker"}),
    ],
)
def test_a_cluster_has_the_nodes_that_were_asked_for(brokers: int, controllers: int, roles: dict[int, str]) -> None:
    layout = Layout.choose(brokers, controllers, port=9092)
    assert {node.id: node.roles for node in layout.nodes} == roles
    assert [node.port for node in layout.brokers] == [9092, 9192, 9292][:brokers]
    ports = [port for node in layout.nodes for port in (node.port, node.controller_port) if port]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize(("brokers", "controllers"), [(2, 0), (0, 1), (3, 2), (4, 3)])
def test_other_sizes_are_refused(brokers: int, controllers: int) -> None:
    with pytest.raises(UsageError, match="1 or 3 brokers"):
        Layout.choose(brokers, controllers)


def test_a_layout_is_kept_whole_and_shows_no_password() -> None:
    layout = Layout.choose(3, 0, Security.SASL_SSL, port=0)
    assert Layout.decode(layout.encode()) == layout
    assert set(layout.passwords) == {"admin", "user"}
    assert not any(password in repr(layout) for password in layout.passwords.values())
    assert Layout.choose(1, 0, Security.SSL).passwords == {}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"nodes": [{"id": 1}]}'])
def test_what_is_no_layout_is_said(text: str) -> None:
    with pytest.raises(Terminal, match=r"cluster\.json: not a description of a local cluster"):
        Layout.decode(text)


def test_a_node_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"node 7: no such node. The cluster has 0 \(controller\), 10 \(broker\)"):
        Layout.choose(1, 1).node(7)


def test_an_authority_s_certificates_are_what_brokers_and_users_need() -> None:
    authority = Authority("test", datetime(2026, 1, 1, tzinfo=UTC))
    broker, user = authority.broker(), authority.user("admin")
    root, server, client = (
        x509.load_pem_x509_certificate(pem.encode()) for pem in (authority.certificate, broker.certificate, user.certificate)
    )
    server.verify_directly_issued_by(root)
    client.verify_directly_issued_by(root)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert client.subject.rfc4514_string() == "CN=admin"
    assert ssl.create_default_context(cadata=authority.certificate).cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize("security", [Security.SSL, Security.SASL_SSL])
def test_credentials_are_files_that_headrace_reads_and_others_do_not(tmp_path: Path, security: Security) -> None:
    folder = ClusterFolder(tmp_path)
    layout = Layout.choose(1, 0, security, port=0)
    folder.create(layout)
    for user in User:
        auth = load_auth(folder.auth_file(user))
        assert auth.protocol == security.protocol
        assert (auth.password, auth.user) == ((layout.passwords[user], user) if layout.passwords else ("", ""))
        assert folder.auth_file(user).stat().st_mode & 0o77 == 0
        assert folder.properties_file(user).stat().st_mode & 0o77 == 0
    assert (tmp_path / "cluster.json").stat().st_mode & 0o77 == 0
    assert folder.layout() == layout
    assert folder.running_settings() is None, "nothing runs"


def test_every_node_of_a_cluster_knows_all_controllers(tmp_path: Path) -> None:
    layout = Layout.choose(3, 3, Security.SASL_SSL, port=0)
    configs = [node_config(layout, node, tmp_path, ClusterFolder(tmp_path)).properties() for node in layout.nodes]
    assert len({config["controller.quorum.voters"] for config in configs}) == 1
    assert [config["process.roles"] for config in configs] == ["controller"] * 3 + ["broker"] * 3
    assert {config["default.replication.factor"] for config in configs} == {"3"}
    assert all("SASL_SSL" in config["listeners"] for config in configs[3:])
    assert not any("password" in value for config in configs[:3] for value in config.values()), "controllers need no login"


def manifests(*options: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = list(yaml.safe_load_all(run("strimzi", "manifests", *options).out))
    assert all(one["apiVersion"] == "kafka.strimzi.io/v1" for one in found)
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_the_cluster_of_the_session_is_what_strimzi_is_told_by_default() -> None:
    found = manifests()
    assert list(found) == [
        ("KafkaNodePool", "controller"),
        ("KafkaNodePool", "broker"),
        ("Kafka", "my-cluster"),
        ("KafkaTopic", "my-topic"),
    ]
    for name, size in (("controller", "5Gi"), ("broker", "10Gi")):
        pool = found["KafkaNodePool", name]
        assert (pool["spec"]["replicas"], pool["spec"]["roles"], pool["spec"]["storage"]["size"]) == (3, [name], size)
        assert pool["metadata"]["labels"] == {"strimzi.io/cluster": "my-cluster"}
    kafka = found["Kafka", "my-cluster"]["spec"]["kafka"]
    assert [(one["name"], one["port"], one["tls"]) for one in kafka["listeners"]] == [
        ("plain", 9092, False),
        ("tls", 9093, True),
    ]
    assert (kafka["config"]["num.partitions"], kafka["config"]["min.insync.replicas"]) == (3, 2)
    topic = found["KafkaTopic", "my-topic"]["spec"]
    assert (topic["partitions"], topic["replicas"], topic["config"]["retention.bytes"]) == (3, 3, 1073741824)


def test_other_clusters_can_be_asked_for() -> None:
    options = ["--name", "c", "-n", "ns", "--controllers", "0", "--brokers", "1", "--topic", "a:6:9", "--topic", "b"]
    found = manifests(*options, "--user", "u", "--authentication", "scram-sha-512", "--kafka-version", "4.3.1")
    assert found["KafkaNodePool", "dual-role"]["spec"]["roles"] == ["controller", "broker"]
    assert all(one["metadata"]["namespace"] == "ns" for one in found.values())
    assert found["KafkaTopic", "a"]["spec"] == {"partitions": 6, "replicas": 1}
    assert found["KafkaUser", "u"]["spec"] == {"authentication": {"type": "scram-sha-512"}}
    kafka = found["Kafka", "c"]["spec"]["kafka"]
    assert (kafka["version"], kafka["config"]["min.insync.replicas"]) == ("4.3.1", 1)
    assert all(one["authentication"] == {"type": "scram-sha-512"} for one in kafka["listeners"])
    assert run("strimzi", "manifests", "-o", "json").data["kind"] == "List"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--controllers", "2"], "odd number of controllers"),
        (["--user", "u"], "users need a way to prove who they are"),
        (["--authentication", "magic"], "no such authentication"),
        (["--topic", "a:x"], "expected NAME"),
        (["--topic", ":3"], "expected NAME"),
    ],
)
def test_a_cluster_that_can_not_be_is_refused(options: list[str], said: str) -> None:
    with pytest.raises(HeadraceError, match=said):
        manifests(*options)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `kubectl` that writes down how it was called, one argument a line, and knows no pods."""
    calls = tmp_path / "calls"
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word" >> {calls}; done\necho -- >> {calls}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return calls


def test_arguments_reach_a_tool_in_a_pod_unchanged(kubectl: Path) -> None:
    pod = ToolsPod(namespace="test")
    words = ["bin/kafka-console-producer.sh", "--reader-property", "key.separator=# ; rm -rf /", 'a "b" $HOME']
    command = pod.command(words, terminal=False)
    assert command[1:8] == ["-n", "test", "exec", "kafka-tools", "-i", "-q", "--"]
    assert command[8:] == ["/opt/kafka/bin/kafka-console-producer.sh", *words[1:]]
    assert pod.command(["kafka-topics"], terminal=True)[-1] == "/opt/kafka/bin/kafka-topics.sh"
    assert pod.ensure() is True
    assert kubectl.read_text().split("--\n")[1].splitlines()[:4] == ["-n", "test", "create", "-f"]


def test_without_kubectl_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Terminal, match="kubectl: is not installed"):
        ToolsPod().ensure()
