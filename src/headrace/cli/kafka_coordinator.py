"""`headrace kafka coordinator`: where a group's offsets or a transaction's state are kept, and who keeps them."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.base.errors import Retriable, Terminal
from headrace.cli.kafka_target import try_target
from headrace.cli.output import Format, OutputOption, error_console, print_data, print_table
from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption


def coordinator(
    key: Annotated[str, typer.Argument(help="Name of a consumer group, or a transactional id.")],
    transactional: Annotated[
        bool, typer.Option("--transactional", help="KEY is a transactional id: __transaction_state, not __consumer_offsets.")
    ] = False,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Number of partitions of that topic; no cluster is asked then.")
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print the partition that coordinates KEY.

    With a cluster: computed with its real number of partitions, and checked against the broker that says it coordinates. Without one,
    or with --partitions: computed (50 partitions are Kafka's default).
    """
    from headrace.kafka.coordination import DEFAULT_PARTITIONS, GROUP, TRANSACTION, coordination, partition_for

    kind = TRANSACTION if transactional else GROUP
    settings = None if partitions else try_target(bootstrap_servers, kafka_auth, data_dir)
    found = None
    if settings is not None:
        try:
            found = coordination(settings, key, kind)
        except Retriable as error:
            error_console().print(
                f"{error}. Computed for {DEFAULT_PARTITIONS} partitions instead.", style="yellow", markup=False
            )
    if found is None:
        total = partitions or DEFAULT_PARTITIONS
        partition = partition_for(key, total)
        if output in (Format.JSON, Format.YAML):
            print_data({"key": key, "topic": kind.topic, "partition": partition, "partitions": total}, output)
        else:
            print(partition)
        return
    data = {
        "key": key,
        "topic": found.topic,
        "partition": found.partition,
        "partitions": found.partitions,
        "leader": found.leader,
        "coordinator": None if found.coordinator is None else found.coordinator.id,
        "agrees": found.agrees,
    }
    row = [found.topic, found.partition, found.partitions, data["leader"], data["coordinator"]]
    print_table(["topic", "partition", "of", "leader", "coordinator"], [row], output=output, data=data)
    if found.leader is None:
        error_console().print(f"{found.topic} does not exist yet; Kafka makes it with the first {kind.word}.", markup=False)
    if not found.agrees:
        raise Terminal(
            f"broker {data['coordinator']} says that it coordinates, but broker {found.leader} leads {found.topic}-{found.partition}",
            subject=f"{kind.word} {key}",
            hint="Leadership may just have moved: ask again",
        )
