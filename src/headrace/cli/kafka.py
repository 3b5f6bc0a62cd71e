"""`headrace kafka`: tools for any Kafka, without a Kafka distribution."""

from __future__ import annotations

import typer

from headrace.cli import kafka_cluster, kafka_groups, kafka_strimzi, kafka_topics
from headrace.cli.kafka_consume import consume
from headrace.cli.kafka_coordinator import coordinator
from headrace.cli.kafka_exec import run_tool
from headrace.cli.kafka_log import dump_log
from headrace.cli.kafka_produce import produce

app = typer.Typer(help="Tools for any Kafka: local clusters, topics, records, groups, log files.")
app.add_typer(kafka_cluster.app, name="cluster", help="A local cluster to try things out with.", no_args_is_help=True)
app.add_typer(kafka_topics.app, name="topics", help="Topics of a Kafka.", no_args_is_help=True)
app.add_typer(kafka_groups.app, name="groups", help="Consumer groups of a Kafka.", no_args_is_help=True)
app.add_typer(kafka_strimzi.app, name="strimzi", help="Kafka on Kubernetes, with Strimzi.", no_args_is_help=True)
app.command("produce")(produce)
app.command("consume")(consume)
app.command("coordinator")(coordinator)
app.command("dump-log")(dump_log)
app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(run_tool)
