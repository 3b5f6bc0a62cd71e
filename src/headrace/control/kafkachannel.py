"""KafkaChannel: see `ingress`; and one lane per entry of `spec.subscribers`, in order unless its Subscription says otherwise.

Subscribers are entered by the Subscription reconciler (ours, or that of Knative's core). What a Subscription's annotations ask for is
read from the Subscription itself, found by uid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.control import ingress, lanes
from headrace.control.addresses import addresses_of
from headrace.control.conditions import TRUE, Conditions, Verdict, true
from headrace.control.config import ConfigError, TopicSettings, read_config
from headrace.control.delivery import audience_of, dead_letter_target, egress_config, nearest, target_status
from headrace.control.ingress import TopicView, base_resource
from headrace.control.lanes import Lane, LaneRecord, Placed
from headrace.control.model import Action, AddFinalizer, DeleteGroup, DropPositions, ObjectKey
from headrace.control.naming import Owners, audience, channel_host
from headrace.control.policies import policies_for
from headrace.control.resolve import Target
from headrace.control.secrets import guard_secret
from headrace.control.shared import Shared
from headrace.control.world import (
    FINALIZER,
    Json,
    World,
    has_finalizer,
    is_deleting,
    key_of,
    uid_of,
)
from headrace.core.contract import DeliveryOrder, Egress, Ingress, Reference, Resource
from headrace.core.names import channel_topic, subscription_group
from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.annotations import LaneOptions, lane_options
from headrace.core.resources.duck import DeliverySpec, Subscriber
from headrace.core.resources.duration import parse_duration
from headrace.core.resources.kafkachannel import KafkaChannel
from headrace.core.resources.subscription import Subscription

DEPENDENTS = (
    ConditionType.SUBSCRIBERS,
    ConditionType.TOPIC_READY,
    ConditionType.CONFIG_MAP_UPDATED,
    ConditionType.CONFIG_PARSED,
    ConditionType.PROBE_SUCCEEDED,
    ConditionType.ADDRESSABLE,
    ConditionType.EVENT_POLICIES_READY,
)
LANE = "headrace.dev/lane."


def path_of(channel: KafkaChannel) -> str:
    """Path of its ingress."""
    return f"/channels/{channel.metadata.namespace}/{channel.metadata.name}"


def host_of(world: World, channel: KafkaChannel) -> str:
    """Host name of its ingress."""
    return channel_host(channel.metadata.name, channel.metadata.namespace or "", world.settings.cluster_domain)


def reconcile_kafka_channel(world: World, channel: KafkaChannel, shared: Shared) -> None:
    """Status, contract records, topic and positions of one KafkaChannel and its subscribers."""
    key = key_of(channel)
    before = world.observed_status(key)
    records = lane_records(before)
    if is_deleting(channel):
        if has_finalizer(channel):
            first = _lanes_removed(world, records)
            waiting = ingress.finalize(world, channel, own_topic=True, first=first)
            ingress.deleting_status(world, channel, DEPENDENTS, waiting)
        return
    if not has_finalizer(channel):
        world.step(key, AddFinalizer(key, uid_of(channel), FINALIZER))
    conditions = Conditions(before, channel.metadata.generation, world.now, any_generation=True)
    settings = _config(world, channel)
    topic = ingress.view_topic(world, channel, _topic_name(world, channel, shared), settings, external=False)
    if topic.key is not None and has_finalizer(channel):
        guard_secret(world, topic.key.kafka, uid_of(channel))
    policies = policies_for(world, channel, shared.policies)
    conflict = shared.conflicts.get(uid_of(channel))
    oidc = world.settings.features.authentication_oidc
    where = audience(key.group, key.kind, key.namespace, key.name) if oidc else None
    if topic.exists and conflict is None and has_finalizer(channel):
        door = Ingress(path=path_of(channel), host=host_of(world, channel), audience=where or "")
        ingress.want_ingress(world, channel, topic, door, policies)

    dead_letters = dead_letter_target(world, channel.spec.delivery, key.namespace)
    notes = ingress.topic_notes(topic, channel.spec.replication_factor)
    lanes_notes, subscribers = _subscribers(world, channel, topic, records, shared)
    conditions.set(ConditionType.SUBSCRIBERS, _subscribers_verdict(channel, subscribers))
    conditions.set(ConditionType.TOPIC_READY, topic.ready)
    conditions.set(ConditionType.CONFIG_PARSED, ingress.parsed(topic.config, dead_letters))
    conditions.set(ConditionType.EVENT_POLICIES_READY, policies.verdict)
    ingress.set_contract_conditions(world, channel, conditions, "its topic and its address have to be there first")
    path = path_of(channel)
    url = f"http://{host_of(world, channel)}" if world.settings.host_addresses else f"{world.settings.base_url}{path}"
    addresses = addresses_of(world, key, url, path, where)
    address = ingress.set_addressable(world, channel, conditions, conflict, addresses)
    status: Json = {
        "observedGeneration": channel.metadata.generation,
        "conditions": conditions.build(DEPENDENTS),
        "annotations": notes | lanes_notes,
        **target_status("deadLetterSink", dead_letters if isinstance(dead_letters, Target) else None),
        **address,
    }
    if subscribers:
        status["subscribers"] = subscribers
    if policies.applied:
        status["policies"] = policies.applied
    world.set_status(key, status)


def lane_records(status: Json) -> dict[str, LaneRecord]:
    """The lanes that a channel's status remembers, by uid of the Subscription."""
    notes = status.get("annotations") or {}
    found = {name.removeprefix(LANE): lanes.load_record(text) for name, text in notes.items() if name.startswith(LANE)}
    return {uid: record for uid, record in found.items() if record is not None}


def _config(world: World, channel: KafkaChannel) -> TopicSettings | ConfigError:
    try:
        settings = read_config(world, world.settings.channel_config, required=False)
    except ConfigError as error:
        return error
    config = dict(settings.config) | {"retention.ms": str(parse_duration(channel.spec.retention_duration))}
    return TopicSettings(
        kafka=settings.kafka,
        partitions=channel.spec.num_partitions,
        replication=channel.spec.replication_factor,
        config=tuple(sorted(config.items())),
    )


def _topic_name(world: World, channel: KafkaChannel, shared: Shared) -> str:
    before = ingress.known(world.observed_status(key_of(channel))).topic
    if before is not None:
        return before.topic
    return shared.topics.name_for(uid_of(channel), channel_topic(channel.metadata.namespace or "", channel.metadata.name))


def _subscribers(
    world: World, channel: KafkaChannel, topic: TopicView, records: dict[str, LaneRecord], shared: Shared
) -> tuple[dict[str, str], list[Json]]:
    """The lanes' annotations, and `status.subscribers`."""
    notes: dict[str, str] = {}
    entries = {entry.uid: entry for entry in channel.spec.subscribers or () if entry.uid}
    statuses = []
    for entry in entries.values():
        one = _Entry(channel, entry, shared.subscriptions.get(entry.uid), records.get(entry.uid))
        record, verdict = _subscriber(world, one, topic, shared)
        if record is not None:
            notes[LANE + entry.uid] = record.dump()
        statuses.append(_subscriber_status(world, one, verdict))
    for uid, record in records.items():
        if uid not in entries:
            left = _removed(world, channel, uid, record)
            if left is not None:
                notes[LANE + uid] = left.dump()
    return notes, statuses


@dataclass(frozen=True, slots=True)
class _Entry:
    """One subscriber with what belongs to it. `subscription` None: the object is not there (any more, or yet)."""

    channel: KafkaChannel
    entry: Subscriber
    subscription: Subscription | None
    record: LaneRecord | None

    @property
    def options(self) -> LaneOptions:
        """What its Subscription's annotations ask for."""
        if self.subscription is None:
            return LaneOptions(keep_position=self.record.keep if self.record is not None else False)
        return lane_options(self.subscription.annotations)


def _subscriber(world: World, one: _Entry, topic: TopicView, shared: Shared) -> tuple[LaneRecord | None, Verdict]:
    if topic.key is None or not topic.exists:
        return one.record, topic.ready if not topic.ready.ok else topic.config
    uid, options = one.entry.uid, one.options
    created = one.subscription.metadata.creation_timestamp if one.subscription is not None else None
    group = one.record.group if one.record is not None else _group(one, shared.groups)
    lane = Lane(
        uid, _subscription_key(one.channel, uid, one.entry.name), topic.key, group, options, created, has_finalizer(one.channel)
    )
    placed = lanes.place(world, lane, one.record, topic.topic_id, topic.partitions)
    resolved = _wanted(world, one, placed, lane)
    if isinstance(resolved, Verdict):
        return placed.record, resolved
    return placed.record, lanes.lane_condition(world, lane, placed, topic.partitions)


def _wanted(world: World, one: _Entry, placed: Placed, lane: Lane) -> Verdict | None:
    """Put the lane into the contract, or say why not."""
    spec = nearest(world, one.entry.delivery, one.channel.spec.delivery)
    dead_letters = dead_letter_target(world, spec, one.channel.metadata.namespace or "")
    if isinstance(dead_letters, Verdict):
        return dead_letters
    held = _held(world, one)
    if held is None and placed.done and lane.may_act:
        world.want(_resource(world, one, lane, spec, dead_letters))
    return held


def _held(world: World, one: _Entry) -> Verdict | None:
    """A Subscription whose references broke delivers nothing until they are whole again: its events wait."""
    if one.subscription is None or not world.settings.is_reconciled(Subscription):
        return None
    conditions = Conditions(world.status(key_of(one.subscription)), one.subscription.metadata.generation, world.now)
    resolved = conditions.before(ConditionType.REFERENCES_RESOLVED)
    return resolved if resolved is not None and resolved.status == "False" else None


def _group(one: _Entry, groups: Owners) -> str:
    """By uid; by name where the position shall outlive the Subscription, so that the next of that name finds it."""
    meta = one.channel.metadata
    own = one.entry.uid
    if one.options.keep_position and one.subscription is not None:
        own = one.subscription.metadata.name
    return groups.name_for(one.entry.uid, subscription_group(meta.namespace or "", meta.name, own))


def _resource(world: World, one: _Entry, lane: Lane, spec: DeliverySpec | None, dead_letters: Target | None) -> Resource:
    entry, settings = one.entry, world.settings
    reference = Reference(
        uuid=entry.uid,
        namespace=one.channel.metadata.namespace or "",
        name=entry.name or (one.subscription.metadata.name if one.subscription is not None else ""),
        kind=Subscription.KIND,
        group_version=f"{Subscription.GROUP}/v1",
    )
    to, answers = Target(entry.reply_uri or "", entry.reply_ca_certs, entry.reply_audience), Target("")
    if entry.subscriber_uri:
        to, answers = Target(entry.subscriber_uri, entry.subscriber_ca_certs, entry.subscriber_audience), to
    order = lane.options.order or DeliveryOrder.ORDERED
    egress = Egress(
        consumer_group=lane.group,
        destination=to.url,
        destination_ca_certs=to.ca_certs or "",
        destination_audience=audience_of(settings, to),
        reply_url=answers.url,
        reply_url_ca_certs=answers.ca_certs or "",
        reply_url_audience=audience_of(settings, answers),
        discard_reply=not answers.url,
        uid=entry.uid,
        egress_config=egress_config(settings, spec, dead_letters),
        delivery_order=lanes.peer_order(order),
        reference=reference,
        oidc_service_account_name=(entry.auth.service_account_name if entry.auth else None) or "",
        v_replicas=1,
        headrace=lanes.egress_extras(lane.options, order, None),
    )
    return replace(base_resource(world, entry.uid, lane.topic, reference), egresses=(egress,))


def _subscriber_status(world: World, one: _Entry, verdict: Verdict) -> Json:
    entries = world.observed_status(key_of(one.channel)).get("subscribers") or ()
    before: Json = next((item for item in entries if item.get("uid") == one.entry.uid), {})
    same = before.get("observedGeneration") == one.entry.generation and before.get("ready") == "True"
    if same and verdict.passing:
        verdict = TRUE
    status: Json = {"uid": one.entry.uid, "ready": verdict.status}
    if one.entry.generation is not None:
        status["observedGeneration"] = one.entry.generation
    if not verdict.ok:
        status["message"] = f"{verdict.reason}: {verdict.message}"
    if one.entry.auth is not None:
        status["auth"] = one.entry.auth.to_json()
    return status


def _subscribers_verdict(channel: KafkaChannel, statuses: list[Json]) -> Verdict:
    """Always True: one subscriber that is not ready must not make the channel unready for the others. It says who is not."""
    names = {entry.uid: entry.name or entry.uid for entry in channel.spec.subscribers or ()}
    waiting = [names[status["uid"]] for status in statuses if status["ready"] != "True"]
    return true(Reason.SUBSCRIBERS_NOT_READY, f"not ready yet: {', '.join(waiting)}") if waiting else TRUE


def _removed(world: World, channel: KafkaChannel, uid: str, record: LaneRecord) -> LaneRecord | None:
    """One step of the way out of a lane that has no entry any more; None: it is gone."""
    record = record if record.removed_at else replace(record, removed_at=world.now)
    owner = _subscription_key(channel, uid, None)
    way = lanes.remove(world, uid, owner, record, world.now - record.removed_at)
    if isinstance(way, str):
        return record
    actions, _ = way
    placed = record.partitions > 0 and not record.leaving
    if not world.observed.positions.get(uid) and not placed and not any(world.failure(action) for action in actions):
        return None
    world.step(owner, *actions)
    return replace(record, leaving=True)


def _subscription_key(channel: KafkaChannel, uid: str, name: str | None) -> ObjectKey:
    """Under which steps for one lane run, so that those of many lanes run side by side."""
    return ObjectKey(Subscription.GROUP, Subscription.KIND, channel.metadata.namespace or "", name or uid)


def _lanes_removed(world: World, records: dict[str, LaneRecord]) -> tuple[Action, ...]:
    """What has to go with a channel: the groups and positions of all its lanes."""
    actions: list[Action] = []
    for uid, record in records.items():
        actions.append(DeleteGroup(record.key.kafka, record.group))
        if world.observed.positions.get(uid):
            actions.append(DropPositions(uid))
    return tuple(actions)
