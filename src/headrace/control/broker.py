"""Broker: see `ingress`. Its Triggers have reconcilers of their own."""

from __future__ import annotations

from headrace.control import ingress
from headrace.control.addresses import addresses_of
from headrace.control.conditions import Conditions
from headrace.control.config import ConfigError, TopicSettings, read_config
from headrace.control.delivery import dead_letter_status, dead_letter_target, nearest
from headrace.control.model import AddFinalizer, ObjectKey
from headrace.control.naming import audience
from headrace.control.policies import policies_for
from headrace.control.resolve import Target
from headrace.control.secrets import guard_secret
from headrace.control.shared import Shared
from headrace.control.world import FINALIZER, Json, World, has_finalizer, is_deleting, key_of, uid_of
from headrace.core.contract import Ingress
from headrace.core.names import broker_topic
from headrace.core.reasons import ConditionType
from headrace.core.resources.annotations import EXTERNAL_TOPIC
from headrace.core.resources.broker import Broker

DEPENDENTS = (
    ConditionType.ADDRESSABLE,
    ConditionType.DATA_PLANE_AVAILABLE,
    ConditionType.TOPIC_READY,
    ConditionType.CONFIG_MAP_UPDATED,
    ConditionType.CONFIG_PARSED,
    ConditionType.PROBE_SUCCEEDED,
    ConditionType.EVENT_POLICIES_READY,
)


def path_of(broker: Broker) -> str:
    """Path of its ingress."""
    return f"/{broker.metadata.namespace}/{broker.metadata.name}"


def reconcile_broker(world: World, broker: Broker, shared: Shared) -> None:
    """Status, contract record and topic of one Broker."""
    key = key_of(broker)
    if is_deleting(broker):
        if has_finalizer(broker):
            waiting = ingress.finalize(world, broker, own_topic=EXTERNAL_TOPIC not in broker.annotations)
            ingress.deleting_status(world, broker, DEPENDENTS, waiting)
        return
    conditions = Conditions(world.observed_status(key), broker.metadata.generation, world.now, any_generation=True)
    if not has_finalizer(broker):
        world.step(key, AddFinalizer(key, uid_of(broker), FINALIZER))
    settings = _config(world, broker)
    external = EXTERNAL_TOPIC in broker.annotations
    topic = ingress.view_topic(world, broker, _topic_name(world, broker, shared), settings, external=external)
    if topic.key is not None and not external and has_finalizer(broker):
        guard_secret(world, topic.key.kafka, uid_of(broker))
    policies = policies_for(world, broker, shared.policies)
    conflict = shared.conflicts.get(uid_of(broker))
    oidc = world.settings.features.authentication_oidc
    where = audience(key.group, key.kind, key.namespace, key.name) if oidc else None
    if topic.exists and conflict is None and has_finalizer(broker):
        ingress.want_ingress(world, broker, topic, Ingress(path=path_of(broker), audience=where or ""), policies)

    dead_letters = dead_letter_target(world, nearest(world, broker.spec.delivery), key.namespace)
    ingress.data_plane(world, conditions)
    conditions.set(ConditionType.TOPIC_READY, topic.ready)
    conditions.set(ConditionType.CONFIG_PARSED, ingress.parsed(topic.config, dead_letters))
    conditions.set(ConditionType.EVENT_POLICIES_READY, policies.verdict)
    ingress.set_contract_conditions(world, broker, conditions, "its topic and its address have to be there first")
    path = path_of(broker)
    addresses = addresses_of(world, key, f"{world.settings.base_url}{path}", path, where)
    address = ingress.set_addressable(world, broker, conditions, conflict, addresses)
    status: Json = {
        "observedGeneration": broker.metadata.generation,
        "conditions": conditions.build(DEPENDENTS),
        "annotations": ingress.topic_notes(topic, settings.replication if isinstance(settings, TopicSettings) else None),
        **dead_letter_status(dead_letters if isinstance(dead_letters, Target) else None),
        **address,
    }
    if policies.applied:
        status["policies"] = policies.applied
    world.set_status(key, status)


def _config(world: World, broker: Broker) -> TopicSettings | ConfigError:
    ref = broker.spec.config
    key = None if ref is None else ObjectKey("", "ConfigMap", ref.namespace or broker.metadata.namespace or "", ref.name)
    try:
        return read_config(world, key, required=True)
    except ConfigError as error:
        return error


def _topic_name(world: World, broker: Broker, shared: Shared) -> str:
    external = broker.annotations.get(EXTERNAL_TOPIC)
    before = ingress.known(world.observed_status(key_of(broker))).topic
    if external is not None or before is not None:
        return external or (before.topic if before else "")
    return shared.topics.name_for(uid_of(broker), broker_topic(broker.metadata.namespace or "", broker.metadata.name))
