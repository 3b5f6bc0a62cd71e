"""A report of a running system tells everything but its secrets, and is made too while half of the system is down."""

from __future__ import annotations

import base64
import json
import os
import signal
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from headrace.core.masking import HIDDEN
from tests.support.system import Inbox, Json, Producer, System, broker, headrace, new_name, trigger
from tests.support.waiting import eventually

FRUITS = (
    "apple pear plum quince medlar cherry damson bullace sloe rowan hazel walnut almond olive fig mulberry peach apricot grape"
)
WORDS = [
    f"{fruit}-{tree}-{n}"
    for n, (fruit, tree) in enumerate(zip((FRUITS.split() * 2)[:32], ["orchard", "Garden"] * 16, strict=True))
]
"""What people choose as passwords: nothing about such a word shows that it is secret."""
_CLAIMS = base64.urlsafe_b64encode(b'{"sub":"' + WORDS[25].encode() + b'"}').decode().rstrip("=")
PLANTED: dict[str, str] = {
    **dict(
        zip(
            (
                "environment: a password",
                "environment: a key of a cloud",
                "environment: a variable of ours",
                "environment: an option of Java",
                "environment: a URL",
                "Secret: data",
                "Secret: stringData",
                "Secret: a key",
                "Secret: an annotation of kubectl",
                "Secret: of a word in a log",
                "config: JAAS",
                "config: a property",
                "config: YAML",
                "config: JSON",
                "config: XML",
                "config: a private key",
                "config: a connection string",
                "config: of a server of Kafka",
                "log: a password",
                "log: a header",
                "log: a cookie",
                "log: JSON",
                "log: a flag",
                "log: JAAS",
                "URL: the user's password at a subscriber",
                "URL: a token at a subscriber",
                "URL: the user's password at a dead letter sink",
                "URL: a signature in a log",
                "URL: a password in a log",
            ),
            WORDS,
            strict=False,
        )
    ),
    "log: a JSON Web Token": f"eyJhbGciOiJIUzI1NiJ9.{_CLAIMS}.dozjgNryP4J3jVmNHl0w5NXgL0n3I9PlFUP0THsR8U",
    "log: a key of a cloud": "AKIAIOSFODNN7EXAMPLE",
}
ENVIRONMENT = {
    "DB_PASSWORD": PLANTED["environment: a password"],
    "AWS_SECRET_ACCESS_KEY": PLANTED["environment: a key of a cloud"],
    "HEADRACE_TEST_TOKEN": PLANTED["environment: a variable of ours"],
    "KAFKA_TEST_OPTS": f"-Dmark=environment-mark -Djavax.net.ssl.keyStorePassword={PLANTED['environment: an option of Java']}",
    "HTTPS_PROXY": f"http://someone:{PLANTED['environment: a URL']}@proxy.example:3128",
    "NO_PROXY": "*",
}


def _log_lines() -> list[str]:
    planted = PLANTED
    return [
        f"mark-1 password={planted['log: a password']} for user admin",
        f"mark-2 > Authorization: Bearer {planted['log: a header']}",
        f"mark-3 > Cookie: session={planted['log: a cookie']}",
        "mark-4 " + json.dumps({"request": {"clientSecret": planted["log: JSON"], "n": 1}}),
        f"mark-5 run tool --sasl-password {planted['log: a flag']} --port 1",
        f'mark-6 ScramLoginModule required username="u" password="{planted["log: JAAS"]}";',
        f"mark-7 got {planted['log: a JSON Web Token']} back",
        f"mark-8 using {planted['log: a key of a cloud']} now",
        f"mark-9 GET https://store.example/x?sv=1&sig={planted['URL: a signature in a log']}&se=2",
        f"mark-10 connected to amqp://me:{planted['URL: a password in a log']}@queue.example",
        f"mark-11 no login with {planted['Secret: of a word in a log']} at all",
        f"mark-12 nor with {planted['environment: a password']} of the environment",
        f"mark-13 as bytes {base64.b64encode(planted['Secret: of a word in a log'].encode()).decode()}",
        f"mark-14 nor with {planted['config: YAML']} of a file",
        f"mark-15 nor with {planted['config: a property']} of a file",
        f"mark-16 nor with {planted['config: JAAS']} of a file",
        f"mark-17 nor with {planted['config: JSON']} of a file",
        f"mark-18 nor with {planted['config: of a server of Kafka']} of a file",
    ]


def _objects(name: str, reachable: str) -> list[Json]:
    """Secrets, a ConfigMap, and a Trigger with secrets in its URLs."""
    planted = PLANTED
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps(
                    {"stringData": {"word": planted["Secret: an annotation of kubectl"]}}
                )
            },
        },
        "data": {
            "first": base64.b64encode(planted["Secret: data"].encode()).decode(),
            "second": base64.b64encode(planted["Secret: of a word in a log"].encode()).decode(),
            "user.key": base64.b64encode(planted["Secret: a key"].encode()).decode(),
        },
        "stringData": {"third": planted["Secret: stringData"]},
    }
    jaas = f'ScramLoginModule required username="admin" password="{planted["config: JAAS"]}";'
    key = base64.b64encode(planted["config: a private key"].encode() * 3).decode()
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"mark": "config-mark"}},
        "data": {
            "app.properties": f"sasl.jaas.config={jaas}\nssl.key.password={planted['config: a property']}\nlinger.ms=5\n",
            "app.yaml": yaml.safe_dump({"login": {"user": "me", "password": planted["config: YAML"]}}),
            "app.json": json.dumps({"api_key": planted["config: JSON"]}),
            "app.xml": f"<server><password>{planted['config: XML']}</password></server>",
            "tls.pem": f"-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n",
            "connection": f"Endpoint=https://x.example;AccountKey={planted['config: a connection string']};Pool=4",
        },
    }
    user = planted["URL: the user's password at a subscriber"]
    sink = planted["URL: the user's password at a dead letter sink"]
    there = reachable.removeprefix("http://")
    uri = f"http://someone:{user}@{there}/subscriber?access_token={planted['URL: a token at a subscriber']}"
    delivery = {"retry": 0, "deadLetterSink": {"uri": f"http://someone:{sink}@{there}/dead"}}
    return [secret, config, broker(name), trigger(f"{name}-t", name, uri, delivery=delivery)]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A running system with secrets everywhere."""
    running = System(tmp_path_factory.mktemp("report") / "data", env=ENVIRONMENT).start()
    yield running
    running.stop()


def collected(system: System, path: Path, *options: str) -> tuple[dict[str, str], Json]:
    """The files of a report of it, and what the command says of it."""
    done = system.cli("report", "--file", str(path), "-o", "json", *options, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    archive = zipfile.ZipFile(path)
    files = {name.removeprefix("reports/"): archive.read(name).decode() for name in archive.namelist()}
    return files | {"(what it printed)": done.stdout + done.stderr}, json.loads(done.stdout)


@contextmanager
def stopped(system: System, *parts: str) -> Iterator[None]:
    """Parts that are there, but do nothing; afterwards everything works again."""
    pids = [system.part(part).pid for part in parts]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": new_name("awake")}, "data": {}}
    eventually(lambda: _applied(system, config), 120, "the store is written and read again", interval=0.5)


def _applied(system: System, obj: Json) -> bool:
    return system.cli("apply", "-f", "-", stdin=json.dumps(obj)).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_secret_of_a_running_system_gets_into_its_report(planted: System, inbox: Inbox, tmp_path: Path) -> None:
    assert len(PLANTED) >= 30
    assert len(set(PLANTED.values())) == len(PLANTED)
    name = new_name("secretive")
    planted.apply(*_objects(name, inbox.url("").rstrip("/")))
    producer = Producer(planted.address(f"broker/{name}"))
    assert producer.send(id="1") == 202
    producer.close()
    eventually(lambda: inbox.ids("subscriber") == ["1"], 120, "the event arrives")
    with planted.folder.log("receiver").open("a") as log:
        log.writelines(f"{line}\n" for line in _log_lines())
    with (planted.folder.kafka / "server.properties").open("a") as properties:
        properties.write(f"\nssl.keystore.password={PLANTED['config: of a server of Kafka']}\nmark=properties-mark\n")

    files, said = collected(planted, tmp_path / "report.zip")

    encoded = {where: base64.b64encode(secret.encode()).decode().rstrip("=") for where, secret in PLANTED.items()}
    leaks = [
        (where, file)
        for where, secret in PLANTED.items()
        for file, text in files.items()
        if secret in text or encoded[where] in text
    ]
    assert leaks == []
    assert said["missing"] == []
    # What stood around them is there: they were hidden, not left out.
    log_text = files["logs/receiver.log"]
    assert [line.split()[0] for line in log_text.splitlines() if line.startswith("mark-")] == [
        f"mark-{n}" for n in range(1, 19)
    ]
    assert f"mark-11 no login with {HIDDEN} at all" in log_text
    assert f"http://someone:{HIDDEN}@" in files[f"resources/trigger/default/{name}-t.yaml"]
    assert yaml.safe_load(files[f"resources/secret/default/{name}.yaml"])["data"]["first"] == HIDDEN
    config = yaml.safe_load(files[f"resources/configmap/default/{name}.yaml"])["data"]
    assert config["app.properties"].splitlines()[-1] == "linger.ms=5"
    assert all(HIDDEN in text for text in config.values())
    assert "mark=properties-mark" in files["configs/kafka.properties"]
    variables = yaml.safe_load(files["environment/receiver.yaml"])
    assert variables["HEADRACE_TEST_TOKEN"] == HIDDEN
    assert variables["HTTPS_PROXY"] == f"http://someone:{HIDDEN}@proxy.example:3128"
    assert "environment-mark" in variables["KAFKA_TEST_OPTS"]
    assert f"http://someone:{HIDDEN}@" in files["kafka/headrace.contract.yaml"]

    shown, _ = collected(planted, tmp_path / "all.zip", "--secrets", "all")
    assert encoded["Secret: data"] in shown[f"resources/secret/default/{name}.yaml"]
    assert PLANTED["config: YAML"] not in "".join(shown.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_report_tells_all_of_a_running_system(planted: System, inbox: Inbox, tmp_path: Path) -> None:
    name = new_name("told")
    planted.apply(broker(name), trigger(f"{name}-t", name, inbox.url("here")))
    producer = Producer(planted.address(f"broker/{name}"))
    assert producer.send(id="1") == 202
    producer.close()
    eventually(lambda: inbox.ids("here") == ["1"], 120)

    def mirrored() -> Json | None:
        """The Trigger's group, once the lane's progress has come to it."""
        (tmp_path / "report.zip").unlink(missing_ok=True)
        files, _ = collected(planted, tmp_path / "report.zip", "--log-mb", "0.05")
        groups = {one["name"]: one for one in yaml.safe_load(files["kafka/groups.yaml"])}
        group = groups.get(f"knative-trigger-default-{name}-t")
        lags = [part["lag"] for part in group["partitions"]] if group else [None]
        return files if lags and set(lags) == {0} else None

    files = eventually(mirrored, 120, "the group of the Trigger has no lag")
    assert files is not None
    groups = {one["name"]: one for one in yaml.safe_load(files["kafka/groups.yaml"])}
    assert groups[f"knative-trigger-default-{name}-t"]["keptFor"]["subject"] == f"trigger/{name}-t"
    topics = {one["name"]: one for one in yaml.safe_load(files["kafka/topics.yaml"])}
    assert sum(part["end"] for part in topics[f"knative-broker-default-{name}"]["partitions"]) == 1
    status = yaml.safe_load(files[f"resources/trigger/default/{name}-t.yaml"])["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"
    contract = yaml.safe_load(files["kafka/headrace.contract.yaml"])
    assert f"{name}-t" in str(contract)
    for part in ("controller", "receiver", "dispatcher"):
        assert "most recent call first" in files[f"threads/{part}.txt"]
        assert yaml.safe_load(files[f"health/{part}.yaml"])["readyz"]["status"] == 200
        assert "# TYPE" in files[f"metrics/{part}.txt"]
    # The JVMs of Kafka and Spark, and the Python workers, whose output Spark's JVM writes.
    for log in ("kafka", "spark"):
        assert "Full thread dump" in files[f"threads/{log}.txt"]
    assert "dispatcher/worker" in files["threads/spark.txt"]
    assert "Full thread dump" in files["logs/kafka.log"] or "bytes are left out" in files["logs/kafka.log"]
    assert {"versions.yaml", "settings.yaml", "host.yaml", "processes.yaml", "run.yaml", "figures.yaml"} <= set(files)
    assert set(yaml.safe_load(files["run.yaml"])["parts"]) == {"kafka", "controller", "receiver", "dispatcher"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_report_of_half_a_system_lists_what_could_not_be_read_and_why(planted: System, tmp_path: Path) -> None:
    name = new_name("halved")
    planted.apply(broker(name))
    with stopped(planted, "controller", "kafka"):
        files, said = collected(planted, tmp_path / "report.zip", "--log-mb", "0.05")
    reasons = {one["what"]: one["reason"] for one in said["missing"]}
    assert {"resources", "figures", "health of controller", "Kafka", "thread dumps"} <= set(reasons)
    assert "no controller answers" in reasons["resources"]
    assert "Kafka at 127.0.0.1" in reasons["Kafka"]
    for what, reason in reasons.items():
        assert f"{what}: {reason}" in files["missing.txt"]
    assert yaml.safe_load(files["health/receiver.yaml"])["healthz"]["status"] == 200
    assert {"threads/receiver.txt", "threads/dispatcher.txt", "logs/kafka-server.log", "logs/controller.log"} <= set(files)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_a_controller_the_objects_are_read_from_kafka(planted: System, tmp_path: Path) -> None:
    name = new_name("alone")
    planted.apply(broker(name), trigger(f"{name}-t", name, "http://127.0.0.1:9/none"))
    with stopped(planted, "controller"):
        files, said = collected(planted, tmp_path / "report.zip", "--log-mb", "0.05")
    assert "resources" in {one["what"] for one in said["missing"]}
    assert yaml.safe_load(files[f"resources/trigger/default/{name}-t.yaml"])["spec"]["broker"] == name
    assert "kafka/topics.yaml" in files


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_report_of_a_system_that_was_killed_still_has_its_logs(tmp_path: Path) -> None:
    system = System(tmp_path / "data").start()
    pids = [pid for part in system.run.parts for pid in system.pids(part)]
    system.stop(signal.SIGKILL)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 60, "its parts have ended too")
    files, said = collected(system, tmp_path / "report.zip")
    assert {"logs/controller.log", "logs/kafka-server.log", "run.yaml"} <= set(files)
    assert yaml.safe_load(files["run.yaml"])["inUse"] is False
    assert {"resources", "Kafka"} <= {one["what"] for one in said["missing"]}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_report_of_a_secured_local_cluster_has_none_of_its_passwords_and_misses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    up = headrace(
        "kafka", "cluster", "up", "--brokers", "1", "--security", "sasl_ssl", "--port", "0", data_dir=folder, timeout=280
    )
    try:
        assert up.returncode == 0, up.stderr
        passwords = json.loads((folder / "cluster" / "cluster.json").read_text())["passwords"].values()
        done = headrace("report", "--file", str(tmp_path / "r.zip"), "-o", "json", data_dir=folder)
        assert done.returncode == 0, done.stderr
    finally:
        headrace("kafka", "cluster", "down", "--kill", data_dir=folder)
    archive = zipfile.ZipFile(tmp_path / "r.zip")
    files = {name.removeprefix("reports/"): archive.read(name).decode() for name in archive.namelist()}
    assert json.loads(done.stdout)["missing"] == []
    assert {"kafka/cluster.yaml", "configs/node-1.properties", "threads/node-1.txt", "logs/node-1-kafka.log"} <= set(files)
    assert len(passwords) == 2
    assert not [(name, word) for name, text in files.items() for word in passwords if word in text]
    assert f"sasl.jaas.config={HIDDEN}" in files["configs/node-1.properties"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_report_of_a_cluster_that_has_lost_its_majority_tells_what_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def cluster(*words: str) -> str:
        done = headrace("kafka", *words, data_dir=folder, timeout=280)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        cluster("cluster", "up", "--port", "0")
        cluster("topics", "create", "left", "--partitions", "3")
        for node in ("2", "3"):
            cluster("cluster", "stop-broker", node, "--kill")
        done = headrace("report", "--file", str(tmp_path / "r.zip"), "-o", "json", data_dir=folder, timeout=280)
        assert done.returncode == 0, done.stderr
    finally:
        headrace("kafka", "cluster", "down", "--kill", data_dir=folder)
    archive = zipfile.ZipFile(tmp_path / "r.zip")
    missing = {one["what"] for one in json.loads(done.stdout)["missing"]}
    assert {"node 2 of the local cluster", "node 3 of the local cluster", "offsets of topics"} <= missing
    topics = {one["name"]: one for one in yaml.safe_load(archive.read("reports/kafka/topics.yaml"))}
    ends = {part["leader"]: part["end"] for part in topics["left"]["partitions"]}
    assert all(end is None or end == 0 for end in ends.values())
    assert {f"reports/logs/node-{node}-kafka.log" for node in (1, 2, 3)} <= set(archive.namelist())
    assert "reports/threads/node-1.txt" in archive.namelist()
