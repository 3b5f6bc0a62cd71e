"""What a report tells of a Kafka: brokers, topics with their settings and offsets, groups with their lag, contract, progress.

Asked from a process of its own (`collect_kafka`): the client library may wait long for a Kafka that is half there, and can take its
process down with it. What came until then counts.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable
from headrace.core.names import Internal
from headrace.core.report import Report
from headrace.kafka.admin import PartitionFacts
from headrace.kafka.groups import GroupClient
from headrace.kafka.inspection import Inspector, Metadata
from headrace.kafka.ownership import compacted, own_groups
from headrace.kafka.settings import KafkaSettings

Json = dict[str, Any]
_SECONDS = 60.0
_ASK_SECONDS = 6.0
_NAMED = 10
_WHAT = "Kafka"


def collect_kafka(
    report: Report, settings: KafkaSettings, instance: str, *, store: bool = False, seconds: float = _SECONDS
) -> None:
    """All that the Kafka tells within `seconds`. `store`: the objects of the standalone home too, for when no controller answers."""
    report.learn({"password": settings.auth.password, "user.key": settings.auth.user_key})
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sending, settings, instance, store), daemon=True)
    process.start()
    sending.close()
    try:
        _receive(report, receiving, process, Deadline(seconds))
    finally:
        process.kill()
        process.join()
        receiving.close()


def _receive(report: Report, receiving: Connection, process: Any, deadline: Deadline) -> None:
    while receiving.poll(max(0.0, deadline.remaining())):
        try:
            step, arguments = receiving.recv()
        except EOFError:
            process.join(1)
            report.miss(_WHAT, f"the process that asked it has ended ({_ending(process.exitcode)})")
            return
        if step == "end":
            return
        getattr(report, step)(*arguments)
    report.miss(_WHAT, "did not tell all within the time that it was given")


def _ending(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"


def _child(sending: Connection, settings: KafkaSettings, instance: str, store: bool) -> None:
    """Collect, and send each step of it as it is done."""
    teller = _Teller(sending)
    try:
        _Collector(teller, settings, instance).run(store)
    finally:
        sending.send(("end", ()))


@dataclass(frozen=True, slots=True)
class _Teller:
    """What a `Report` is asked to do, sent to the process that has it."""

    sending: Connection

    def add(self, path: str, content: Any) -> None:
        self.sending.send(("add", (path, content)))

    def add_object(self, path: str, obj: Json, name: str) -> None:
        self.sending.send(("add_object", (path, obj, name)))

    def trying(self, what: str, step: Callable[[], None]) -> bool:
        """Whether it went well."""
        try:
            step()
        except Exception as error:
            reason = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
            self.sending.send(("miss", (what, reason)))
            return False
        return True


class _Collector:
    def __init__(self, teller: _Teller, settings: KafkaSettings, instance: str) -> None:
        self._teller = teller
        self._settings = settings
        self._instance = instance
        self._inspector = Inspector(settings, _ASK_SECONDS)
        self._metadata = Metadata("", -1, {}, {})

    def run(self, store: bool) -> None:
        try_ = self._teller.trying
        # Without this nothing else can be had: one reason, and not a wait for each.
        if not try_(_WHAT, self._brokers):
            return
        if store:
            try_("objects of the store", self._objects)
        try_("topics", self._topics)
        try_("groups", self._groups)
        names = Internal(self._instance)
        for topic in (names.contract, names.progress):
            if topic in self._metadata.topics:
                try_(f"topic {topic}", lambda topic=topic: self._compacted(topic))  # type: ignore[misc]

    def _brokers(self) -> None:
        self._metadata = found = self._inspector.metadata()
        facts = {
            "bootstrapServers": self._settings.bootstrap_servers,
            "clusterId": found.cluster_id,
            "controller": found.controller,
            "brokers": [{"id": number, "address": address} for number, address in sorted(found.brokers.items())],
        }
        self._teller.add("kafka/cluster.yaml", facts)

    def _topics(self) -> None:
        topics = self._metadata.topics
        configs: dict[str, Any] = {}
        begins: dict[tuple[str, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        sizes: dict[tuple[str, int], int] = {}
        try_ = self._teller.trying
        try_("settings of topics", lambda: configs.update(self._inspector.topic_configs(topics)))
        try_("offsets of topics", lambda: begins.update(self._inspector.offsets(self._metadata, begin=True)))
        try_("offsets of topics", lambda: ends.update(self._inspector.offsets(self._metadata)))
        try_("offsets of topics", lambda: _all_told(topics, ends))
        try_("sizes of topics", lambda: sizes.update(self._inspector.sizes(self._metadata.facts())))
        listed = [
            {
                "name": topic,
                "configs": {one.name: one.value for one in configs.get(topic, ())},
                "partitions": [
                    {
                        "partition": number,
                        "leader": part.leader,
                        "replicas": list(part.replicas),
                        "isr": list(part.in_sync),
                        "begin": begins.get((topic, number)),
                        "end": ends.get((topic, number)),
                        "bytes": sizes.get((topic, number)),
                    }
                    for number, part in enumerate(parts)
                ],
            }
            for topic, parts in sorted(topics.items())
        ]
        self._teller.add("kafka/topics.yaml", listed)

    def _groups(self) -> None:
        summaries, ours = self._inspector.groups(), {}
        self._teller.trying("groups of Headrace", lambda: ours.update(own_groups(self._settings, self._instance)))
        ends, client = self._inspector.offsets(self._metadata), GroupClient(self._settings, _ASK_SECONDS)
        listed = []
        for one in summaries:
            committed: dict[tuple[str, int], int] = {}
            self._teller.trying(
                f"offsets of group {one.name}",
                lambda name=one.name, found=committed: found.update(client.offsets(name)),  # type: ignore[misc]
            )
            kept = ours.get(one.name)
            listed.append(
                {
                    "name": one.name,
                    "state": one.state.lower(),
                    "kind": one.kind.lower(),
                    "keptFor": {"subject": kept.subject, "namespace": kept.namespace, "uid": kept.uid} if kept else None,
                    "partitions": [
                        {
                            "topic": topic,
                            "partition": number,
                            "offset": offset,
                            "end": ends.get((topic, number)),
                            "lag": max(0, ends[topic, number] - offset) if (topic, number) in ends else None,
                        }
                        for (topic, number), offset in sorted(committed.items())
                    ],
                }
            )
        self._teller.add("kafka/groups.yaml", listed)

    def _objects(self) -> None:
        records = compacted(self._settings, Internal(self._instance).resources)
        for key, (value, _) in sorted(records.items()):
            obj = _json(value)
            if not key.startswith("@") and isinstance(obj, dict):
                place = "/".join(word for word in key.lower().split("/")[1:])
                self._teller.add_object(f"resources/{place}.yaml", obj, place)

    def _compacted(self, topic: str) -> None:
        records = compacted(self._settings, topic)
        found = {key: {"offset": offset, "value": _json(value)} for key, (value, offset) in sorted(records.items())}
        self._teller.add(f"kafka/{topic}.yaml", found)


def _all_told(topics: Mapping[str, Sequence[PartitionFacts]], ends: Mapping[tuple[str, int], int]) -> None:
    """Raise `Retriable` naming the partitions whose end is not known."""
    silent = [
        f"{topic}-{number}" for topic, parts in topics.items() for number in range(len(parts)) if (topic, number) not in ends
    ]
    if silent:
        more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
        raise Retriable(f"not told, by leaders that are gone: {', '.join(silent[:_NAMED])}{more}")


def _json(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except ValueError:
        return value.decode("utf-8", "replace") if value is not None else None
