"""The one function that both homes call, and the order of one pass: what is referred to comes before what refers to it."""

from __future__ import annotations

from typing import Any, TypeVar

from headrace.control import ingress
from headrace.control.broker import path_of as broker_path
from headrace.control.broker import reconcile_broker
from headrace.control.channel import reconcile_channel
from headrace.control.conditions import Conditions, false
from headrace.control.kafkachannel import host_of, lane_records, reconcile_kafka_channel
from headrace.control.kafkachannel import path_of as channel_path
from headrace.control.model import ObjectKey, Observed, Plan
from headrace.control.naming import Claim, losers
from headrace.control.policies import reconcile_policy
from headrace.control.secrets import sweep_secrets
from headrace.control.shared import Shared
from headrace.control.subscription import reconcile_subscription, sync_subscribers
from headrace.control.trigger import GROUP, broker_key, reconcile_trigger
from headrace.control.world import ModelCache, World, key_of, uid_of
from headrace.core.reasons import Reason
from headrace.core.resources.annotations import EXTERNAL_TOPIC
from headrace.core.resources.broker import Broker
from headrace.core.resources.channel import Channel
from headrace.core.resources.eventpolicy import EventPolicy
from headrace.core.resources.invalid import Invalid
from headrace.core.resources.kafkachannel import KafkaChannel
from headrace.core.resources.kinds import Kind
from headrace.core.resources.subscription import Subscription
from headrace.core.resources.trigger import Trigger

Json = dict[str, Any]
K = TypeVar("K", bound=Kind)


def reconcile(observed: Observed, cache: ModelCache | None = None) -> Plan:
    """What should be, given what is. Pure: no I/O, no clock; equal input gives an equal plan. Never raises for an object's fault.

    `cache`: kept by the home between calls, so that objects that did not change are not parsed again.
    """
    world = World(observed, cache or ModelCache())
    policies = _ours(world, EventPolicy)
    for policy in policies:
        reconcile_policy(world, policy)
    channels, brokers = _ours(world, KafkaChannel), _brokers(world)
    shared = _shared(world, channels, brokers, policies)
    for kafka_channel in channels:
        reconcile_kafka_channel(world, kafka_channel, shared)
    for channel in _ours(world, Channel):
        reconcile_channel(world, channel)
    for broker in brokers:
        reconcile_broker(world, broker, shared)
    for trigger in _ours(world, Trigger):
        _reconcile_trigger(world, trigger, shared)
    subscriptions = _ours(world, Subscription)
    if observed.settings.is_reconciled(Subscription):
        entries = [entry for subscription in subscriptions if (entry := reconcile_subscription(world, subscription))]
        sync_subscribers(world, channels, entries)
    sweep_secrets(world, {uid_of(model) for kind in (Broker, KafkaChannel) for model in world.all(kind)[0]})
    world.cache.keep_only(observed.objects)
    return world.plan()


def _ours(world: World, kind: type[K]) -> list[K]:
    """The objects of a kind, oldest first. Those that can't be read are marked, and what they have in the contract stays."""
    good, bad = world.all(kind)
    if world.settings.is_reconciled(kind):
        for key, raw, error in bad:
            _mark_invalid(world, key, raw, error)
    return good if world.settings.is_reconciled(kind) or kind is Subscription else []


def _brokers(world: World) -> list[Broker]:
    return [broker for broker in _ours(world, Broker) if broker.broker_class in world.settings.broker_classes]


def _mark_invalid(world: World, key: ObjectKey, raw: Json, error: Invalid) -> None:
    meta = raw.get("metadata") or {}
    status = world.observed_status(key)
    generation = meta.get("generation")
    conditions = Conditions(status, generation, world.now)
    built = conditions.build((), ready=false(Reason.INVALID_OBJECT, error.message))
    world.set_status(key, {**status, "observedGeneration": generation, "conditions": built})
    for uid in (str(meta.get("uid", "")), *lane_records(status)):
        world.keep(uid)


def _reconcile_trigger(world: World, trigger: Trigger, shared: Shared) -> None:
    key = broker_key(trigger)
    raw = world.look(key)
    broker = shared.brokers.get((key.namespace, key.name))
    if raw is not None and broker is None:
        if key in {bad for bad, _, _ in world.all(Broker)[1]}:
            world.keep(uid_of(trigger))
        return
    reconcile_trigger(world, trigger, broker, shared.groups)


def _shared(world: World, channels: list[KafkaChannel], brokers: list[Broker], policies: list[EventPolicy]) -> Shared:
    shared = Shared(
        conflicts=losers(_claims(world, channels, brokers)),
        policies=policies,
        subscriptions={uid_of(subscription): subscription for subscription in _ours(world, Subscription)},
        brokers={(broker.metadata.namespace or "", broker.metadata.name): broker for broker in brokers},
    )
    _record_names(world, shared, channels, brokers)
    return shared


def _claims(world: World, channels: list[KafkaChannel], brokers: list[Broker]) -> list[Claim]:
    places: list[tuple[Kind, str, str]] = [(broker, broker_path(broker), "") for broker in brokers]
    places += [(channel, channel_path(channel), host_of(world, channel)) for channel in channels]
    return [
        Claim(
            key=key_of(model),
            uid=uid_of(model),
            created=model.metadata.creation_timestamp or "",
            settled="address" in world.observed_status(key_of(model)),
            path=path,
            host=host,
        )
        for model, path, host in places
    ]


def _record_names(world: World, shared: Shared, channels: list[KafkaChannel], brokers: list[Broker]) -> None:
    """Names that objects have from earlier passes."""
    for model in (*channels, *brokers):
        topic = ingress.known(world.observed_status(key_of(model))).topic
        if topic is not None and EXTERNAL_TOPIC not in model.annotations:
            shared.topics.record(topic.topic, uid_of(model))
    for channel in channels:
        for uid, record in lane_records(world.observed_status(key_of(channel))).items():
            shared.groups.record(record.group, uid)
    for trigger in world.all(Trigger)[0]:
        group = (world.observed_status(key_of(trigger)).get("annotations") or {}).get(GROUP)
        if group:
            shared.groups.record(group, uid_of(trigger))
