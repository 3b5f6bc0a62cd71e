"""Trigger: a lane over its Broker's topic, with filters; what the subscriber answers goes back to the Broker."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.control import lanes
from headrace.control.conditions import TRUE, Conditions, Verdict, false, unknown
from headrace.control.delivery import audience_of, dead_letter_target, egress_config, nearest, sink_verdict, target_status
from headrace.control.identity import identity
from headrace.control.ingress import Known, base_resource, deleting_status, known
from headrace.control.lanes import Lane, LaneRecord
from headrace.control.mirror import mirrored
from headrace.control.model import AddFinalizer, ObjectKey, RemoveFinalizer, TopicKey
from headrace.control.naming import Owners
from headrace.control.resolve import Target, missing, resolve
from headrace.control.world import (
    FINALIZER,
    Json,
    World,
    annotations_of,
    deleted_for,
    has_finalizer,
    is_deleting,
    key_of,
    reference_of,
    uid_of,
)
from headrace.core.contract import DeliveryOrder, Egress, Resource
from headrace.core.filters import to_contract
from headrace.core.names import trigger_group
from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.annotations import DEPENDENCY, dependency, hop_limit, lane_options
from headrace.core.resources.broker import Broker
from headrace.core.resources.duck import DeliverySpec
from headrace.core.resources.registry import split_api_version
from headrace.core.resources.syntax import compiled_filters
from headrace.core.resources.trigger import Trigger

DEPENDENTS = (
    ConditionType.BROKER_READY,
    ConditionType.SUBSCRIPTION_READY,
    ConditionType.DEPENDENCY_READY,
    ConditionType.SUBSCRIBER_RESOLVED,
    ConditionType.DEAD_LETTER_SINK_RESOLVED,
    ConditionType.OIDC_IDENTITY_CREATED,
)
GROUP = "group.id"
LANE = "headrace.dev/lane"


def broker_key(trigger: Trigger) -> ObjectKey:
    """The Broker that a Trigger belongs to."""
    namespace, name = trigger.broker
    return ObjectKey(Broker.GROUP, Broker.KIND, namespace, name)


def reconcile_trigger(world: World, trigger: Trigger, broker: Broker | None, groups: Owners) -> None:
    """Status, contract record and positions of one Trigger. `broker`: None if there is none."""
    key = key_of(trigger)
    before = world.observed_status(key)
    record = lanes.load_record(annotations_of(before).get(LANE))
    if is_deleting(trigger):
        _finalize(world, trigger, record)
        return
    if not has_finalizer(trigger):
        world.step(key, AddFinalizer(key, uid_of(trigger), FINALIZER))
    conditions = Conditions(before, trigger.metadata.generation, world.now)
    notes = annotations_of(before)
    notes[GROUP] = group = notes.get(GROUP) or groups.name_for(uid_of(trigger), trigger_group(key.namespace, key.name))
    parts = _gather(world, trigger, broker, conditions)
    options = lane_options(trigger.annotations)
    topic = parts.topic
    if topic is None or not parts.topic_id:
        text = "its Broker has no topic yet"
        conditions.set(ConditionType.SUBSCRIPTION_READY, unknown(Reason.NOT_IN_CONTRACT, text))
    else:
        lane = Lane(uid_of(trigger), key, topic, group, options, trigger.metadata.creation_timestamp, has_finalizer(trigger))
        placed = lanes.place(world, lane, record, parts.topic_id, parts.partitions)
        notes[LANE] = placed.record.dump()
        if placed.done and parts.resolved and has_finalizer(trigger):
            world.want(_resource(world, trigger, parts, topic, lane))
        conditions.set(ConditionType.SUBSCRIPTION_READY, lanes.lane_condition(world, lane, placed, parts.partitions))
    lanes.inform(world, conditions, uid_of(trigger), topic.topic if topic else None, options)
    world.set_status(
        key,
        {
            "observedGeneration": trigger.metadata.generation,
            "conditions": conditions.build(DEPENDENTS),
            "annotations": notes,
            **target_status("subscriber", parts.subscriber),
            **target_status("deadLetterSink", parts.dead_letters),
            **parts.auth,
        },
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a Trigger refers to. `topic_id` empty: the Broker has no topic yet. `resolved`: all that a delivery needs is known."""

    broker: Broker | None
    topic: TopicKey | None
    topic_id: str
    partitions: int
    subscriber: Target | None
    dead_letters: Target | None
    delivery: DeliverySpec | None
    auth: Json
    resolved: bool


def _gather(world: World, trigger: Trigger, broker: Broker | None, conditions: Conditions) -> _Parts:
    """Look everything up, and set the condition of each."""
    here = trigger.metadata.namespace or ""
    delivery = nearest(world, trigger.spec.delivery, broker.spec.delivery if broker is not None else None)
    at_broker = trigger.spec.delivery is None and broker is not None
    subscriber = resolve(world, trigger.spec.subscriber, here)
    dead_letters = dead_letter_target(world, delivery, broker_key(trigger).namespace if at_broker else here)
    auth, account = identity(world, trigger)
    verdicts = {
        ConditionType.BROKER_READY: _broker_ready(world, trigger, broker),
        ConditionType.DEPENDENCY_READY: _dependency_ready(world, trigger),
        ConditionType.SUBSCRIBER_RESOLVED: subscriber if isinstance(subscriber, Verdict) else TRUE,
        ConditionType.DEAD_LETTER_SINK_RESOLVED: sink_verdict(dead_letters),
        ConditionType.OIDC_IDENTITY_CREATED: account,
    }
    for kind, verdict in verdicts.items():
        conditions.set(kind, verdict)
    there = broker is not None and not is_deleting(broker)
    found = known(world.status(broker_key(trigger))) if there else Known()
    return _Parts(
        broker=broker if there else None,
        topic=found.topic,
        topic_id=found.topic_id,
        partitions=found.partitions,
        subscriber=None if isinstance(subscriber, Verdict) else subscriber,
        dead_letters=dead_letters if isinstance(dead_letters, Target) else None,
        delivery=delivery,
        auth=auth,
        resolved=all(verdict.ok for kind, verdict in verdicts.items() if kind is not ConditionType.BROKER_READY),
    )


def _broker_ready(world: World, trigger: Trigger, broker: Broker | None) -> Verdict:
    key = broker_key(trigger)
    if broker is None:
        verdict = missing(world, key)
        return false(Reason.BROKER_DOES_NOT_EXIST, verdict.message) if verdict.status == "False" else verdict
    if is_deleting(broker):
        return false(Reason.BROKER_DOES_NOT_EXIST, f"{key} is being deleted")
    return mirrored(world.status(key), Reason.BROKER_NOT_READY, str(key))


def _dependency_ready(world: World, trigger: Trigger) -> Verdict:
    text = trigger.annotations.get(DEPENDENCY)
    if text is None:
        return TRUE
    ref = dependency(text)
    group, _ = split_api_version(ref.get("apiVersion", ""))
    key = ObjectKey(group, ref.get("kind", ""), trigger.metadata.namespace or "", ref.get("name", ""))
    raw = world.look(key)
    if raw is None:
        verdict = missing(world, key)
        return false(Reason.DEPENDENCY_DOES_NOT_EXIST, verdict.message) if verdict.status == "False" else verdict
    return mirrored(raw.get("status") or {}, Reason.DEPENDENCY_NOT_READY, str(key))


def _resource(world: World, trigger: Trigger, parts: _Parts, topic: TopicKey, lane: Lane) -> Resource:
    subscriber = parts.subscriber or Target("")
    attributes, dialected = world.cache.derived(trigger, _filters)
    order = lane.options.order or DeliveryOrder.UNORDERED
    egress = Egress(
        consumer_group=lane.group,
        destination=subscriber.url,
        destination_ca_certs=subscriber.ca_certs or "",
        destination_audience=audience_of(world.settings, subscriber),
        reply_to_original_topic=True,
        filter=attributes,
        dialected_filter=dialected,
        uid=lane.uid,
        egress_config=egress_config(world.settings, parts.delivery, parts.dead_letters),
        reference=reference_of(trigger),
        oidc_service_account_name=str((parts.auth.get("auth") or {}).get("serviceAccountName", "")),
        v_replicas=1,
        delivery_order=lanes.peer_order(order),
        headrace=lanes.egress_extras(lane.options, order, hop_limit(parts.broker.annotations if parts.broker else {})),
    )
    return replace(base_resource(world, lane.uid, topic, reference_of(trigger)), egresses=(egress,))


def _filters(trigger: Trigger) -> tuple[Json, tuple[Json, ...]]:
    """`filter` and `dialectedFilter` of the contract; only one of them holds something."""
    older = trigger.spec.filter
    if not trigger.spec.filters:
        return ({"attributes": older.attributes} if older is not None and older.attributes else {}), ()
    return {}, tuple(to_contract(item) for item in compiled_filters(trigger))


def _finalize(world: World, trigger: Trigger, record: LaneRecord | None) -> None:
    if not has_finalizer(trigger):
        return
    key, uid = key_of(trigger), uid_of(trigger)
    if record is not None:
        record = replace(record, keep=lane_options(trigger.annotations).keep_position)
    way = lanes.remove(world, uid, key, record, deleted_for(trigger, world.now))
    if isinstance(way, str):
        waiting = way
    else:
        actions, waiting = way
        world.step(key, *actions, RemoveFinalizer(key, uid, FINALIZER))
    deleting_status(world, trigger, DEPENDENTS, waiting)
