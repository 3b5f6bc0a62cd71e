"""What Broker and KafkaChannel have in common: a topic, a place in the contract, an address.

    configuration -> topic exists -> record in the contract -> every receiver has it -> address

At deletion the same backwards: record dropped, no receiver and no worker holds it any more, topic deleted, object forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.control import gates
from headrace.control.addresses import Addresses
from headrace.control.conditions import TRUE, Conditions, Verdict, condition_in, false, true, unknown, verdict_of
from headrace.control.config import ConfigError, TopicSettings, check_secret
from headrace.control.model import (
    Action,
    CreateTopic,
    DeleteTopic,
    KafkaProblem,
    KafkaRef,
    Notice,
    ObjectKey,
    RemoveFinalizer,
    TopicAbsent,
    TopicFacts,
    TopicKey,
)
from headrace.control.policies import IngressPolicies
from headrace.control.resolve import Target
from headrace.control.secrets import release_secret
from headrace.control.world import FINALIZER, World, deleted_for, has_finalizer, key_of, reference_of, uid_of
from headrace.core.contract import Ingress, Reference, Resource
from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.kinds import Kind

Json = dict[str, Any]
TOPIC = "default.topic"
TOPIC_PARTITIONS = "default.topic.partitions"
TOPIC_REPLICATION = "default.topic.replication.factor"
BOOTSTRAP = "bootstrap.servers"
SECRET_NAME = "auth.secret.ref.name"
SECRET_NAMESPACE = "auth.secret.ref.namespace"
TOPIC_ID = "headrace.dev/topic.id"


_BEFORE_ADDRESS = (
    ConditionType.CONFIG_PARSED,
    ConditionType.TOPIC_READY,
    ConditionType.CONFIG_MAP_UPDATED,
    ConditionType.PROBE_SUCCEEDED,
)


@dataclass(frozen=True, slots=True)
class Known:
    """What the status of an ingress says about its topic, from earlier passes."""

    topic: TopicKey | None = None
    topic_id: str = ""
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class TopicView:
    """The topic of an ingress in this pass. `key` None: not even a name can be given. `topic_id` empty: it never existed.

    `met`: its Kafka has answered once, so that something may be there.
    """

    key: TopicKey | None
    topic_id: str
    partitions: int
    config: Verdict
    ready: Verdict
    met: bool

    @property
    def exists(self) -> bool:
        """Whether the topic is there, or was when Kafka was last asked."""
        return self.key is not None and bool(self.topic_id)


def known(status: Json) -> Known:
    """What was recorded in the annotations of a status."""
    notes = status.get("annotations") or {}
    if TOPIC not in notes or BOOTSTRAP not in notes:
        return Known()
    secret = None
    if SECRET_NAME in notes:
        secret = ObjectKey("", "Secret", notes.get(SECRET_NAMESPACE, ""), notes[SECRET_NAME])
    partitions = notes.get(TOPIC_PARTITIONS, "")
    key = TopicKey(KafkaRef(notes[BOOTSTRAP], secret), notes[TOPIC])
    return Known(key, notes.get(TOPIC_ID, ""), int(partitions) if partitions.isdigit() else 0)


def view_topic(world: World, model: Kind, name: str, settings: TopicSettings | ConfigError, *, external: bool) -> TopicView:
    """The state of the topic; asks for its creation where it is ours and missing."""
    before = known(world.observed_status(key_of(model)))
    if isinstance(settings, ConfigError):
        verdict = unknown(Reason.TOPIC_NOT_CHECKED, "the configuration has to be sound first")
        return TopicView(before.topic, before.topic_id, before.partitions, settings.verdict, verdict, before.topic is not None)
    key = TopicKey(settings.kafka, name)
    met = before.topic == key or isinstance(world.topic(key), TopicFacts | TopicAbsent)
    if before.topic != key:
        before = Known(key)
    ready, facts = _topic_state(world, model, key, settings, before, external)
    topic_id, partitions = (facts.topic_id, facts.partitions) if facts else (before.topic_id, before.partitions)
    return TopicView(key, topic_id, partitions, TRUE, ready, met)


def _topic_state(
    world: World, model: Kind, key: TopicKey, settings: TopicSettings, before: Known, external: bool
) -> tuple[Verdict, TopicFacts | None]:
    state = world.topic(key)
    secret = check_secret(world, key.kafka)
    if secret is not None:
        return secret, None
    if isinstance(state, TopicFacts):
        return TRUE, state
    if isinstance(state, KafkaProblem):
        return _unreachable(before, state), None
    if state is None:
        verdict = true(Reason.TOPIC_NOT_CHECKED, "not asked again yet") if before.topic_id else None
        return verdict or unknown(Reason.TOPIC_NOT_CHECKED, f"Kafka was not asked for topic {key.topic} yet"), None
    if external:
        return false(Reason.EXTERNAL_TOPIC_NOT_FOUND, f"topic {key.topic} does not exist, and is not ours to create"), None
    create = CreateTopic(key, settings.partitions, settings.replication, settings.config)
    if has_finalizer(model):
        world.step(key_of(model), create)
    failure = world.failure(create)
    if failure is not None:
        return false(Reason.TOPIC_CREATION_FAILED, f"Failed to create topic: {key.topic}: {failure}"), None
    return unknown(Reason.TOPIC_CREATING, f"topic {key.topic} is being created"), None


def _unreachable(before: Known, problem: KafkaProblem) -> Verdict:
    """That Kafka is away does not make a topic that was there unready; what was accepted waits, what comes is refused with 503."""
    text = f"Kafka: {problem.message}"
    return true(Reason.KAFKA_UNREACHABLE, text) if before.topic_id else false(Reason.KAFKA_UNREACHABLE, text)


def topic_notes(view: TopicView, replication: int | None) -> dict[str, str]:
    """The annotations that keep what is known of the topic, so that finalization works without the ConfigMap.

    None while its Kafka has never answered: nothing was made there, and nothing has to be waited for at the end.
    """
    if view.key is None or not view.met:
        return {}
    notes = {TOPIC: view.key.topic, BOOTSTRAP: view.key.kafka.bootstrap}
    if view.key.kafka.secret is not None:
        notes |= {SECRET_NAME: view.key.kafka.secret.name, SECRET_NAMESPACE: view.key.kafka.secret.namespace}
    if view.topic_id:
        notes |= {TOPIC_ID: view.topic_id, TOPIC_PARTITIONS: str(view.partitions)}
        if replication is not None and replication > 0:
            notes[TOPIC_REPLICATION] = str(replication)
    return notes


def base_resource(world: World, uid: str, topic: TopicKey, reference: Reference) -> Resource:
    """A contract Resource of this topic, with the way to its Kafka.

    No `authSecret` and no `absentAuth`: the home's own Kafka, to be opened with the process's own credentials.
    """
    own = world.settings.kafka is not None and topic.kafka == world.settings.kafka and topic.kafka.secret is None
    secret = topic.kafka.secret
    auth = None
    if secret is not None:
        raw = world.look(secret) or {}
        meta = raw.get("metadata") or {}
        auth = Reference(
            uuid=meta.get("uid") or "",
            namespace=secret.namespace,
            name=secret.name,
            version=str(meta.get("resourceVersion") or ""),
        )
    features = {"enableEventTypeAutocreate": True} if world.settings.features.eventtype_auto_create else {}
    return Resource(
        uid=uid,
        topics=(topic.topic,),
        bootstrap_servers=topic.kafka.bootstrap,
        absent_auth=secret is None and not own,
        auth_secret=auth,
        reference=reference,
        feature_flags=features,
    )


def want_ingress(world: World, model: Kind, topic: TopicView, ingress: Ingress, policies: IngressPolicies) -> None:
    """Put the ingress into the contract."""
    if topic.key is None:
        return
    base = base_resource(world, uid_of(model), topic.key, reference_of(model))
    world.want(replace(base, ingress=replace(ingress, event_policies=policies.contract)))


def set_contract_conditions(world: World, model: Kind, conditions: Conditions, waiting_for: str) -> None:
    """`ConfigMapUpdated` and `ProbeSucceeded`: the record is written; every receiver has it."""
    uid = uid_of(model)
    wanted = world.wanted(uid)
    if wanted is None:
        for kind in (ConditionType.CONFIG_MAP_UPDATED, ConditionType.PROBE_SUCCEEDED):
            conditions.set(kind, unknown(Reason.NOT_IN_CONTRACT, waiting_for))
        return
    record = world.observed.contract.get(uid)
    if record is None or record.resource != wanted:
        text = "the contract record is being written"
        conditions.set(ConditionType.CONFIG_MAP_UPDATED, unknown(Reason.CONTRACT_NOT_WRITTEN, text))
        conditions.set(ConditionType.PROBE_SUCCEEDED, unknown(Reason.CONTRACT_NOT_WRITTEN, text))
        return
    conditions.set(ConditionType.CONFIG_MAP_UPDATED, TRUE)
    conditions.set(ConditionType.PROBE_SUCCEEDED, gates.ingress_applied(world, uid, record.offset))


def data_plane(world: World, conditions: Conditions) -> None:
    """`DataPlaneAvailable`: a receiver is running, or was when the object became ready."""
    verdict = TRUE if world.data_plane.receivers else false(Reason.NO_RECEIVER, "no receiver is running")
    conditions.set(ConditionType.DATA_PLANE_AVAILABLE, verdict)


def set_addressable(world: World, model: Kind, conditions: Conditions, conflict: str | None, addresses: Addresses) -> Json:
    """`Addressable`, and what the status says of addresses: once they were given they stay, unless they are another's."""
    if conflict is not None:
        conditions.set(ConditionType.ADDRESSABLE, false(Reason.ADDRESS_CONFLICT, conflict))
        return {}
    had = "address" in world.observed_status(key_of(model))
    if had or conditions.now_is(ConditionType.PROBE_SUCCEEDED).ok:
        conditions.set(ConditionType.ADDRESSABLE, addresses.verdict)
        return addresses.status
    causes = (conditions.now_is(kind) for kind in _BEFORE_ADDRESS)
    cause = next((verdict for verdict in causes if not verdict.ok), TRUE)
    reason = cause.reason or Reason.INGRESS_NOT_READY
    conditions.set(ConditionType.ADDRESSABLE, unknown(reason, cause.message or "the ingress has to be programmed first"))
    return {}


def parsed(config: Verdict, dead_letters: Target | Verdict | None) -> Verdict:
    """`ConfigParsed`: the configuration is sound, and the dead letter sink is found."""
    if not config.ok or not isinstance(dead_letters, Verdict):
        return config
    if dead_letters.status == "Unknown":
        return dead_letters
    return false(Reason.DEAD_LETTER_SINK_NOT_RESOLVED, f"dead letter sink: {dead_letters.message}")


def deleting_status(world: World, model: Kind, dependents: Sequence[ConditionType], waiting: str) -> None:
    """The status of an object on its way out: what was known stays, Ready is False and says what is waited for."""
    key = key_of(model)
    before = world.observed_status(key)
    conditions = Conditions(before, model.metadata.generation, world.now)
    for kind in dependents:
        known_before = condition_in(before, kind)
        conditions.set(kind, verdict_of(known_before) if known_before else unknown(Reason.DELETING, waiting))
    built = conditions.build(dependents, ready=false(Reason.DELETING, waiting))
    world.set_status(key, {**before, "observedGeneration": model.metadata.generation, "conditions": built})


def finalize(world: World, model: Kind, *, own_topic: bool, first: tuple[Action, ...] = ()) -> str:
    """One step of the way out of an object that is being deleted; returns what is waited for.

    `first`: what has to go before the topic, once nobody uses it (groups of a channel's subscriptions).
    """
    key, uid = key_of(model), uid_of(model)
    before = known(world.observed_status(key))
    mark = gates.drop_mark(world, uid)
    if mark is None:
        return "its contract record is being removed"
    if not gates.ingress_dropped(world, mark):
        return "receivers still hold it"
    if own_topic and before.topic is not None and not gates.lanes_dropped(world, before.topic.topic):
        return "workers still deliver from it"
    last = (
        *release_secret(world, None if before.topic is None else before.topic.kafka, uid),
        RemoveFinalizer(key, uid, FINALIZER),
    )
    if before.topic is None or not own_topic:
        world.step(key, *first, *last)
        return "it is being forgotten"
    state = world.topic(before.topic)
    if isinstance(state, TopicAbsent):
        world.step(key, *first, *last)
        return f"topic {before.topic.topic} is deleted"
    delete = DeleteTopic(before.topic, state.topic_id if isinstance(state, TopicFacts) else "")
    problem = state.message if isinstance(state, KafkaProblem) else world.failure(delete)
    if problem is not None:
        if world.hopeless(delete, state, deleted_for(model, world.now)):
            text = f"topic {before.topic.topic} was left behind: {problem}"
            world.tell(Notice(key, uid, Reason.TOPIC_LEFT_BEHIND, text, warning=True))
            world.step(key, *last)
            return text
        world.again(world.now + max(1.0, world.settings.give_up_s - deleted_for(model, world.now)))
    if isinstance(state, TopicFacts):
        world.step(key, *first, delete)
    return f"topic {before.topic.topic} is being deleted{f': {problem}' if problem else ''}"
