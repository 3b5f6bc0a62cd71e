"""`deadletters list|show|redrive`: undeliverable events of a Trigger or Subscription whose dead letter sink is a Broker or channel of ours.

Dead letters are told by the extension `knativeerrordest`: those whose failed destination is the subscriber of the one asked about.
Redriving sends them to that subscriber again, in order per partition, without the extensions that the failure added, and remembers
in a consumer group of its own (`headrace.redrive.<uid>`) how far it came.
"""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import HeadraceError, Terminal
from headrace.cli.output import Format, OutputOption, console, print_data, print_table
from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption, NamespaceOption, ServerOption, connect

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from headrace.cli.targets import Topic
    from headrace.core.events.model import Event

Json = dict[str, Any]
app = typer.Typer()
_ADDED = frozenset({"knativeerrordest", "knativeerrorcode", "knativeerrordata", "knativekafkapartition", "knativekafkaoffset"})
_HOLDERS = ("Broker", "KafkaChannel", "Channel")
_IDLE_SECONDS = 30.0
LaneArgument = Annotated[str, typer.Argument(metavar="TYPE/NAME", help="trigger/NAME or subscription/NAME.")]
PlaceArgument = Annotated[str, typer.Argument(metavar="PARTITION:OFFSET|ID", help="Where it lies, or the event's id.")]


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter and where it lies in the topic of the sink."""

    partition: int
    offset: int
    at_ms: int
    event: Event

    @property
    def place(self) -> str:
        """As `list` prints it and `show` takes it."""
        return f"{self.partition}:{self.offset}"

    def named(self, word: str) -> bool:
        """Whether `word` means it."""
        return word in (self.place, self.event.attributes["id"])

    def as_json(self) -> Json:
        """For machines: the event's attributes, the error's body decoded."""
        attributes = self.event.attributes
        return {
            "place": self.place,
            "time": _moment(self.at_ms),
            "attributes": attributes,
            "code": attributes.get("knativeerrorcode", ""),
            "error": _error_body(attributes),
            "data": base64.b64encode(self.event.data).decode() if self.event.data is not None else None,
        }


@dataclass(slots=True)
class Box:
    """The dead letters of one Trigger or Subscription, which sends under `account` (in its `namespace`) to those that ask for an
    `audience`."""

    word: str
    uid: str
    subscriber: str
    topic: Topic
    namespace: str
    account: str
    audience: str
    unreadable: int = field(default=0)

    @property
    def group(self) -> str:
        """Where redriving remembers how far it came."""
        return f"headrace.redrive.{self.uid}"

    def letters(self, starts: dict[int, int] | None = None) -> Iterator[Letter]:
        """Those that are in the topic now, partition by partition in order; `starts`: the first offset per partition."""
        from confluent_kafka import Consumer, TopicPartition

        from headrace.kafka.admin import Admin

        admin = Admin(self.topic.kafka)
        begins, ends = admin.begin_offsets(self.topic.name), admin.end_offsets(self.topic.name)
        options = {"group.id": self.group, "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer(self.topic.kafka.client(**options))
        try:
            for partition, end in sorted(ends.items()):
                start = max(begins[partition], (starts or {}).get(partition, 0))
                if start < end:
                    consumer.assign([TopicPartition(self.topic.name, partition, start)])
                    yield from self._partition(consumer, partition, end)
        finally:
            consumer.close()

    def _partition(self, consumer: Consumer, partition: int, end: int) -> Iterator[Letter]:
        from confluent_kafka import KafkaError

        from headrace.core.events.kafka import decode_record
        from headrace.core.events.model import InvalidEvent

        waited = time.monotonic() + _IDLE_SECONDS
        while True:
            message = consumer.poll(0.5)
            error = message.error() if message is not None else None
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return
            if message is None or error is not None:
                if time.monotonic() > waited:
                    raise Terminal("does not answer", subject=f"topic {self.topic.name}", hint="Is Kafka running?")
                continue
            waited = time.monotonic() + _IDLE_SECONDS
            offset = message.offset()
            if offset is None or offset >= end:
                return
            headers: list[Any] = list(message.headers() or [])
            try:
                event = decode_record(headers, message.value(), message.key())
            except InvalidEvent:
                self.unreadable += 1
                continue
            if event.attributes.get("knativeerrordest") == self.subscriber:
                yield Letter(partition, offset, message.timestamp()[1], event)


@app.command("list")
def list_(
    lane: LaneArgument,
    namespace: NamespaceOption = "default",
    output: OutputOption = Format.TABLE,
    server: ServerOption = None,
    data_dir: DataDirOption = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
) -> None:
    """List the dead letters that are kept."""
    box = _box(lane, namespace, server, data_dir, bootstrap_servers, kafka_auth)
    letters = list(box.letters())
    rows = [_row(one) for one in letters]
    columns = ["place", "time", "type", "source", "id", "code", "error"]
    print_table(columns, rows, output=output, data=[one.as_json() for one in letters], empty=f"No dead letters of {lane}.")


@app.command()
def show(
    lane: LaneArgument,
    which: PlaceArgument,
    namespace: NamespaceOption = "default",
    output: OutputOption = Format.TABLE,
    server: ServerOption = None,
    data_dir: DataDirOption = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
) -> None:
    """Show one dead letter: the event, and why it could not be delivered."""
    from headrace.cli.eventform import print_event

    box = _box(lane, namespace, server, data_dir, bootstrap_servers, kafka_auth)
    letter = _find(box, which)
    if output in (Format.JSON, Format.YAML):
        print_data(letter.as_json(), output)
        return
    print_event(letter.event, f"dead letter {letter.place}", as_json=False)
    error = _error_body(letter.event.attributes)
    if error:
        console().print(f"    the subscriber's answer:\n{error}", markup=False)


@app.command()
def redrive(
    lane: LaneArgument,
    which: Annotated[str | None, typer.Argument(metavar="[PARTITION:OFFSET|ID]", help="Only this one.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that were redriven before.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds for each answer.")] = 30.0,
    namespace: NamespaceOption = "default",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
) -> None:
    """Send dead letters to their subscriber again. A partition stops at the first that fails; exit code 1 if any did."""
    import httpx

    from headrace.kafka.admin import Admin

    box = _box(lane, namespace, server, data_dir, bootstrap_servers, kafka_auth)
    admin = Admin(box.topic.kafka)
    sent: Counter[str] = Counter()
    stopped: set[int] = set()
    with httpx.Client(timeout=timeout, headers=_identity(box, server, data_dir)) as client:
        if which is not None:
            _resend(client, box, _find(box, which))
            print(f"redriven 1 event to {box.subscriber}")
            return
        starts = {} if again else admin.group_offsets(box.group, box.topic.name)
        for letter in box.letters(starts):
            if letter.partition in stopped:
                sent["kept"] += 1
                continue
            try:
                _resend(client, box, letter)
            except HeadraceError as error:
                console().print(f"{letter.place} {letter.event.attributes['id']}: {error}", markup=False)
                stopped.add(letter.partition)
                sent["failed"] += 1
                continue
            sent["redriven"] += 1
            admin.commit_group_offsets(box.group, box.topic.name, {letter.partition: letter.offset + 1})
    print(f"redriven {sent['redriven']} events to {box.subscriber}")
    if sent["failed"]:
        text = f"{sent['failed']} were refused again, {sent['kept']} behind them were not tried"
        raise Terminal(text, subject=lane, hint="Mend the subscriber and redrive again: what was taken is not repeated")


def _identity(box: Box, server: str | None, data_dir: str | None) -> dict[str, str]:
    """What the subscriber is shown, if it asks for that, as at a delivery."""
    if not box.audience:
        return {}
    with connect(server, data_dir) as client:
        token = client.token(box.namespace, box.account, [box.audience])["status"]["token"]
    return {"authorization": f"Bearer {token}"}


def _resend(client: Any, box: Box, letter: Letter) -> None:
    import httpx

    from headrace.core.events.http import encode_binary, split_line
    from headrace.core.events.model import Event

    attributes = {name: value for name, value in letter.event.attributes.items() if name not in _ADDED}
    lines, body = encode_binary(Event(attributes, letter.event.data, letter.event.passthrough))
    headers = [pair for pair in map(split_line, lines) if pair is not None]
    try:
        answer = client.post(box.subscriber, headers=headers, content=body)
    except httpx.HTTPError as error:
        raise Terminal(f"no answer: {error}", subject=box.subscriber) from None
    if not 200 <= answer.status_code < 300:
        raise Terminal(f"answered {answer.status_code}", subject=box.subscriber)


def _find(box: Box, which: str) -> Letter:
    found = next((letter for letter in box.letters() if letter.named(which)), None)
    if found is None:
        raise Terminal(f"no dead letter {which}", subject=box.word, hint=f"`headrace deadletters list {box.word}` shows them")
    return found


def _box(
    lane: str, namespace: str, server: str | None, data_dir: str | None, bootstrap_servers: str | None, kafka_auth: str | None
) -> Box:
    from headrace.cli.lanes import lanes_of
    from headrace.cli.targets import topic_of

    with connect(server, data_dir) as client:
        (chosen,) = lanes_of(client, [lane], namespace)
        obj = chosen.fetch(client)
        sink = _sink(obj)
        if sink is None:
            sink = _sink(_holder(client, obj, namespace))
    status = obj.get("status") or {}
    physical = status.get("physicalSubscription") or {}
    subscriber = status.get("subscriberUri") or physical.get("subscriberUri")
    if not subscriber:
        raise Terminal("has no resolved subscriber", subject=lane, hint=f"`headrace describe {lane}` says why")
    reference = (sink or {}).get("ref") or {}
    if reference.get("kind") not in _HOLDERS:
        raise Terminal(
            "its dead letter sink is not a Broker or channel of ours" if sink else "has no dead letter sink",
            subject=lane,
            hint="Set spec.delivery.deadLetterSink.ref to a KafkaChannel or Broker, so that dead letters are kept",
        )
    target = f"{reference['kind'].lower()}/{reference['name']}"
    holder_namespace = str(reference.get("namespace") or namespace)
    topic = topic_of(target, holder_namespace, server, data_dir, bootstrap_servers, kafka_auth)
    return Box(
        word=lane,
        uid=obj["metadata"]["uid"],
        subscriber=str(subscriber),
        topic=topic,
        namespace=obj["metadata"]["namespace"],
        account=(status.get("auth") or {}).get("serviceAccountName", ""),
        audience=status.get("subscriberAudience") or physical.get("subscriberAudience") or "",
    )


def _holder(client: Any, obj: Json, namespace: str) -> Json:
    """The Broker or channel that the object belongs to."""
    from headrace.cli.selection import select

    spec = obj["spec"]
    channel = spec.get("channel")
    word = f"{channel['kind'].lower()}/{channel['name']}" if channel else f"broker/{spec['broker']}"
    return select(client, [word], namespace)[0].fetch(client)


def _sink(obj: Json) -> Json | None:
    """The dead letter sink of its own delivery options. An empty object where options without a sink replace those of the holder."""
    delivery = (obj.get("spec") or {}).get("delivery")
    return (delivery.get("deadLetterSink") or {}) if delivery else None


def _error_body(attributes: dict[str, str]) -> str:
    try:
        return base64.b64decode(attributes.get("knativeerrordata", "")).decode(errors="replace")
    except ValueError:
        return attributes["knativeerrordata"]


def _row(letter: Letter) -> list[str]:
    attributes = letter.event.attributes
    event = [attributes["type"], attributes["source"], attributes["id"]]
    error = [attributes.get("knativeerrorcode", "no answer"), _error_body(attributes)[:60]]
    return [letter.place, _moment(letter.at_ms), *event, *error]


def _moment(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
