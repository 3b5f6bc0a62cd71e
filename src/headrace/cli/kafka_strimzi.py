"""`headrace kafka strimzi`: what Strimzi needs to be told."""

from __future__ import annotations

from typing import Annotated

import typer
import yaml

from headrace.base.errors import UsageError
from headrace.cli.output import Format, OutputOption, print_data
from headrace.kube.strimzi import Access, StrimziCluster, Topic

app = typer.Typer()


@app.callback()
def strimzi() -> None:
    """Kafka on Kubernetes, with Strimzi."""


@app.command()
def manifests(
    name: Annotated[str, typer.Option("--name", help="Name of the cluster.")] = "my-cluster",
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Namespace; none given: the current one.")] = "",
    controllers: Annotated[int, typer.Option("--controllers", min=0, help="0: the brokers are the controllers too.")] = 3,
    brokers: Annotated[int, typer.Option("--brokers", min=1, help="Number of brokers.")] = 3,
    controller_storage: Annotated[str, typer.Option("--controller-storage", help="Disk of a controller.")] = "5Gi",
    broker_storage: Annotated[str, typer.Option("--broker-storage", help="Disk of a broker.")] = "10Gi",
    kafka_version: Annotated[str, typer.Option("--kafka-version", help="Kafka's version; none given: Strimzi's default.")] = "",
    access: Annotated[str, typer.Option("--authentication", help="none, tls or scram-sha-512.")] = "none",
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="NAME[:PARTITIONS[:REPLICAS]]", help="Repeatable; none given: my-topic:3:3, retention 1 GiB."
        ),
    ] = None,
    users: Annotated[list[str] | None, typer.Option("--user", help="A KafkaUser; repeatable.")] = None,
    output: OutputOption = Format.YAML,
) -> None:
    """Print the resources of a cluster: Kafka, KafkaNodePool, KafkaTopic, KafkaUser. `kubectl create -f -` takes them."""
    if access not in set(Access):
        raise UsageError("no such authentication", subject=f"--authentication {access}", hint=f"Use {', '.join(Access)}")
    options = {"topics": [_topic(text) for text in topics]} if topics else {}
    cluster = StrimziCluster(
        name,
        namespace,
        controllers,
        brokers,
        controller_storage,
        broker_storage,
        kafka_version,
        Access(access),
        users=users or (),
        **options,
    )
    found = list(cluster.manifests())
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": found}, output)
    else:
        print(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True), end="")


def _topic(text: str) -> Topic:
    name, *numbers = text.split(":")
    if not name or len(numbers) > 2 or not all(number.isdigit() and int(number) > 0 for number in numbers):
        raise UsageError("expected NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS", subject=f"--topic {text}")
    partitions = int(numbers[0]) if numbers else 3
    replicas = int(numbers[1]) if len(numbers) > 1 else 3
    return Topic(name, partitions, replicas)
