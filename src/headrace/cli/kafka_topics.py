"""`headrace kafka topics`: make, look at, change and delete topics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable, Terminal, UsageError, WaitTimeout
from headrace.cli.kafka_target import target
from headrace.cli.output import Format, OutputOption, console, error_console, parse_assignments, print_data, print_table
from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption, InstanceOption, loaded

if TYPE_CHECKING:
    from headrace.kafka.admin import Admin, TopicFacts
    from headrace.kafka.inspection import ConfigValue, Inspector

app = typer.Typer()

_POLL = 0.2

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
ConfigsOption = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting of the topic; repeatable.")
]


@app.command()
def create(
    topic: TopicArgument,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Number of partitions.")] = 1,
    replication: Annotated[
        int, typer.Option("--replication-factor", min=-1, help="Copies of each partition; -1: the Kafka's own default.")
    ] = -1,
    config: ConfigsOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="No error when it is there already.")] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create a topic, and wait until its partitions have leaders."""
    from headrace.kafka.admin import Admin

    admin = Admin(target(bootstrap_servers, kafka_auth, data_dir))
    if not if_not_exists and admin.describe(topic) is not None:
        raise Terminal("exists already", subject=f"topic {topic}", hint="--if-not-exists makes that no error")
    facts = admin.create_topic(topic, partitions, replication, parse_assignments(config or [], "--config"))
    if output in (Format.JSON, Format.YAML):
        print_data(_topic(facts), output)
    else:
        print(f"Created topic {topic}.")


@app.command("list")
def list_topics(
    everything: Annotated[bool, typer.Option("-a", "--all", help="Kafka's internal topics too.")] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List topics; `-o wide` adds the number of offsets kept and the size on disk."""
    from headrace.kafka.admin import Admin
    from headrace.kafka.inspection import Inspector

    settings = target(bootstrap_servers, kafka_auth, data_dir)
    admin = Admin(settings)
    facts = [found for name in admin.topics() if (found := admin.describe(name)) and (everything or not found.internal)]
    columns, rows = ["topic", "partitions", "replication"], [[one.name, one.partitions, one.replication] for one in facts]
    if output is Format.WIDE:
        sizes = _sizes(Inspector(settings), facts)
        columns += ["offsets", "size"]
        for row, one in zip(rows, facts, strict=True):
            begins, ends = admin.begin_offsets(one.name), admin.end_offsets(one.name)
            size = sum(size for (topic, _), size in sizes.items() if topic == one.name)
            row += [sum(ends[part] - begins[part] for part in ends), _bytes(size) if sizes else "?"]
    print_table(columns, rows, output=output, data=[_topic(one) for one in facts], empty="There are no topics.")


@app.command()
def describe(
    topic: TopicArgument,
    wait_isr: Annotated[
        int | None,
        typer.Option("--wait-isr", metavar="N", min=0, help="Wait until every partition has so many in-sync replicas."),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for them.")] = 60.0,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show a topic: leaders, replicas, in-sync replicas, offsets, sizes, and the settings that are not Kafka's defaults."""
    from headrace.kafka.admin import Admin
    from headrace.kafka.inspection import Inspector

    settings = target(bootstrap_servers, kafka_auth, data_dir)
    admin, inspector = Admin(settings), Inspector(settings)
    facts = _described(admin, topic, wait_isr, timeout)
    configs, sizes = inspector.topic_configs([topic])[topic], _sizes(inspector, [facts])
    begins, ends = _offsets(admin, facts)
    rows: list[list[Any]] = [
        [
            number,
            part.leader,
            _ids(part.replicas),
            _ids(part.in_sync),
            begins.get(number),
            ends.get(number),
            sizes.get((topic, number)),
        ]
        for number, part in enumerate(facts.details)
    ]
    if output in (Format.JSON, Format.YAML):
        data = _topic(facts) | {"configs": [_config(one) for one in configs]}
        for part, row in zip(data["partitions"], rows, strict=True):
            part |= {"beginOffset": row[4], "endOffset": row[5], "bytes": row[6]}
        print_data(data, output)
        return
    words = [f"{one.name}={'(hidden)' if one.value is None else one.value}" for one in configs]
    out = console()
    out.print(
        f"Topic: {topic}  TopicId: {_topic_id(facts)}  PartitionCount: {facts.partitions}  ReplicationFactor: {facts.replication}  "
        f"Configs: {','.join(words) or 'none but defaults'}",
        markup=False,
    )
    columns = ["partition", "leader", "replicas", "isr", "begin", "end", "size"]
    print_table(columns, [[*row[:6], _bytes(row[6])] for row in rows], output=output)


@app.command()
def alter(
    topic: TopicArgument,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="New total; never fewer than there are.")
    ] = None,
    config: ConfigsOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="NAME", help="Back to the default; repeatable.")
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Change a topic's settings, or add partitions. Keys go to other partitions then: order holds only from then on."""
    from headrace.kafka.admin import Admin
    from headrace.kafka.inspection import Inspector

    if partitions is None and not config and not delete_config:
        raise UsageError("nothing to change", subject=f"topic {topic}", hint="Give --partitions, --config or --delete-config")
    settings = target(bootstrap_servers, kafka_auth, data_dir)
    admin = Admin(settings)
    if admin.describe(topic) is None:
        raise Terminal("does not exist", subject=f"topic {topic}")
    if config or delete_config:
        Inspector(settings).alter_topic(topic, parse_assignments(config or [], "--config"), delete_config or [])
    if partitions is not None:
        admin.add_partitions(topic, partitions)
    print(f"Altered topic {topic}.")


@app.command()
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of the topics.")],
    force: Annotated[bool, typer.Option("--force", help="Topics of Headrace and Kafka themselves too.")] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    instance: InstanceOption = None,
) -> None:
    """Delete topics with all their records."""
    from headrace.core.names import Internal
    from headrace.kafka.admin import Admin

    admin = Admin(target(bootstrap_servers, kafka_auth, data_dir))
    names = Internal(loaded(None, {"instance": instance}).settings.instance)
    ours = {names.resources, names.contract, names.progress, names.dataplane, names.undeliverable}
    for topic in topics:
        facts = admin.describe(topic)
        if facts is None:
            raise Terminal("does not exist", subject=f"topic {topic}")
        if not force and (topic in ours or facts.internal):
            owner = "Headrace" if topic in ours else "Kafka"
            raise Terminal(f"belongs to {owner} itself", subject=f"topic {topic}", hint="--force deletes it all the same")
    for topic in topics:
        admin.delete_topic(topic)
        print(f"Deleted topic {topic}.")


def _described(admin: Admin, topic: str, wait_isr: int | None, timeout: float) -> TopicFacts:
    """The topic, once each of its partitions has `wait_isr` in-sync replicas if that is given."""
    deadline = Deadline(timeout)
    while True:
        try:
            facts = admin.describe(topic)
        except Retriable:
            if wait_isr is None or deadline.expired:
                raise
            continue
        if facts is None:
            raise Terminal("does not exist", subject=f"topic {topic}", hint="`headrace kafka topics list` shows those that do")
        if wait_isr is None or all(len(part.in_sync) == wait_isr for part in facts.details):
            return facts
        if deadline.expired:
            now = ", ".join(f"partition {number}: {_ids(part.in_sync)}" for number, part in enumerate(facts.details))
            raise WaitTimeout(
                f"not {wait_isr} in-sync replicas everywhere after {timeout:g} s ({now})", subject=f"topic {topic}"
            )
        time.sleep(_POLL)


def _topic(facts: TopicFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "topicId": _topic_id(facts),
        "internal": facts.internal,
        "replicationFactor": facts.replication,
        "partitions": [
            {"partition": number, "leader": part.leader, "replicas": list(part.replicas), "isr": list(part.in_sync)}
            for number, part in enumerate(facts.details)
        ],
    }


def _topic_id(facts: TopicFacts) -> str:
    """As Kafka's own tools and files write it: base64 in its URL-safe form."""
    return facts.topic_id.replace("+", "-").replace("/", "_")


def _config(value: ConfigValue) -> dict[str, Any]:
    return {"name": value.name, "value": value.value, "origin": value.origin.name.lower()}


def _sizes(inspector: Inspector, topics: list[TopicFacts]) -> dict[tuple[str, int], int]:
    """Sizes where they can be had: not every Kafka, and not every user, is told them."""
    try:
        return inspector.sizes(topics)
    except HeadraceError as error:
        error_console().print(f"Sizes could not be read: {error}", style="yellow", markup=False)
        return {}


def _offsets(admin: Admin, facts: TopicFacts) -> tuple[dict[int, int], dict[int, int]]:
    """First and end offsets, where the partitions have leaders."""
    try:
        return admin.begin_offsets(facts.name), admin.end_offsets(facts.name)
    except HeadraceError as error:
        error_console().print(f"Offsets could not be read: {error}", style="yellow", markup=False)
        return {}, {}


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def _bytes(size: int | None) -> str:
    if size is None:
        return "?"
    amount, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
