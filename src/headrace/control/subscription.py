"""Subscription: resolved here, entered into its channel's `spec.subscribers`, and ready when the channel says so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.control import lanes
from headrace.control.conditions import TRUE, Conditions, Verdict, false, unknown
from headrace.control.delivery import dead_letter_target, target_status
from headrace.control.identity import identity
from headrace.control.ingress import deleting_status, known
from headrace.control.kafkachannel import lane_records
from headrace.control.mirror import mirrored
from headrace.control.model import AddFinalizer, ObjectKey, PatchObject, RemoveFinalizer
from headrace.control.resolve import Target, key_of_reference, missing, resolve
from headrace.control.world import FINALIZER, World, has_finalizer, is_deleting, key_of, uid_of
from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.annotations import lane_options
from headrace.core.resources.channel import Channel
from headrace.core.resources.duck import AuthStatus, Destination, Subscriber
from headrace.core.resources.kafkachannel import KafkaChannel
from headrace.core.resources.subscription import Subscription

Json = dict[str, Any]
DEPENDENTS = (
    ConditionType.REFERENCES_RESOLVED,
    ConditionType.ADDED_TO_CHANNEL,
    ConditionType.CHANNEL_READY,
    ConditionType.OIDC_IDENTITY_CREATED,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a Subscription wants of a channel. `entry` None: its references are broken; an entry that is there stays."""

    uid: str
    channel: ObjectKey
    entry: Json | None


def reconcile_subscription(world: World, subscription: Subscription) -> Entry | None:
    """Status of one Subscription; and its entry, if it is to have one."""
    key = key_of(subscription)
    if is_deleting(subscription):
        _finalize(world, subscription)
        return None
    if not has_finalizer(subscription):
        world.step(key, AddFinalizer(key, uid_of(subscription), FINALIZER))
    conditions = Conditions(world.observed_status(key), subscription.metadata.generation, world.now)
    found = _gather(world, subscription)
    auth, account = identity(world, subscription)
    conditions.set(ConditionType.REFERENCES_RESOLVED, found.verdict)
    conditions.set(ConditionType.CHANNEL_READY, found.channel_ready)
    conditions.set(ConditionType.OIDC_IDENTITY_CREATED, account)
    entry: Json | None = None
    if found.verdict.ok and account.ok and found.backing is not None and has_finalizer(subscription):
        entry = _entry(subscription, found, auth)
    conditions.set(ConditionType.ADDED_TO_CHANNEL, _added(world, subscription, found, entry))
    _inform(world, subscription, found.backing, conditions)
    physical = {
        **target_status("subscriber", found.subscriber),
        **target_status("reply", found.reply),
        **target_status("deadLetterSink", found.dead_letters),
    }
    status: Json = {"observedGeneration": subscription.metadata.generation, "conditions": conditions.build(DEPENDENTS), **auth}
    if physical:
        status["physicalSubscription"] = physical
    world.set_status(key, status)
    return None if found.backing is None else Entry(uid_of(subscription), found.backing, entry)


def sync_subscribers(world: World, channels: Sequence[KafkaChannel], entries: Sequence[Entry]) -> None:
    """Make `spec.subscribers` of every KafkaChannel what the Subscriptions want, one patch per channel."""
    by_channel: dict[ObjectKey, dict[str, Entry]] = {}
    for entry in entries:
        by_channel.setdefault(entry.channel, {})[entry.uid] = entry
    for channel in channels:
        if is_deleting(channel):
            continue
        patch = _patch(world, channel, by_channel.get(key_of(channel), {}))
        if patch is not None:
            world.step(key_of(channel), patch)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a Subscription refers to. `backing`: the KafkaChannel that does the work."""

    verdict: Verdict
    channel_ready: Verdict
    backing: ObjectKey | None = None
    subscriber: Target | None = None
    reply: Target | None = None
    dead_letters: Target | None = None


def _gather(world: World, subscription: Subscription) -> _Found:
    namespace = subscription.metadata.namespace or ""
    channel_key = key_of_reference(subscription.spec.channel, namespace)
    backing = _backing(world, channel_key)
    raw = world.look(channel_key)
    channel_ready = mirrored((raw or {}).get("status") or {}, Reason.CHANNEL_NOT_READY, str(channel_key))
    dead_letters = dead_letter_target(world, subscription.spec.delivery, namespace)
    reply = None if subscription.spec.reply is None else resolve(world, subscription.spec.reply, namespace)
    subscriber = resolve(world, subscription.spec.subscriber or Destination(), namespace)
    verdict = _first_fault(
        (
            (backing, Reason.CHANNEL_REFERENCE_FAILED),
            (subscriber, Reason.SUBSCRIBER_RESOLVE_FAILED),
            (reply, Reason.REPLY_RESOLVE_FAILED),
            (dead_letters, Reason.DEAD_LETTER_SINK_RESOLVE_FAILED),
        )
    )
    return _Found(
        verdict=verdict,
        channel_ready=channel_ready,
        backing=None if isinstance(backing, Verdict) else backing,
        subscriber=_target(subscriber),
        reply=_target(reply),
        dead_letters=_target(dead_letters),
    )


def _backing(world: World, key: ObjectKey) -> ObjectKey | Verdict:
    raw = world.look(key)
    if raw is None:
        return missing(world, key)
    if (raw.get("metadata") or {}).get("deletionTimestamp"):
        return false(Reason.CHANNEL_REFERENCE_FAILED, f"{key} is being deleted")
    if (key.group, key.kind) == (KafkaChannel.GROUP, KafkaChannel.KIND):
        return key
    if (key.group, key.kind) != (Channel.GROUP, Channel.KIND):
        return false(Reason.CHANNEL_REFERENCE_FAILED, f"{key} is no channel that is served here")
    behind = (raw.get("status") or {}).get("channel")
    if not isinstance(behind, dict):
        return unknown(Reason.RESOLVING, f"{key} has no channel behind it yet")
    return ObjectKey(KafkaChannel.GROUP, KafkaChannel.KIND, key.namespace, str(behind.get("name")))


def _first_fault(found: Sequence[tuple[object, Reason]]) -> Verdict:
    for status in ("False", "Unknown"):
        for verdict, reason in found:
            if isinstance(verdict, Verdict) and verdict.status == status:
                return false(reason, verdict.message) if status == "False" else verdict
    return TRUE


def _target(found: Target | Verdict | None) -> Target | None:
    return found if isinstance(found, Target) else None


def _entry(subscription: Subscription, found: _Found, auth: Json) -> Json:
    delivery = subscription.spec.delivery
    if delivery is not None and found.dead_letters is not None:
        sink = found.dead_letters
        resolved = Destination(uri=sink.url, ca_certs=sink.ca_certs, audience=sink.audience)
        delivery = delivery.model_copy(update={"dead_letter_sink": resolved})
    to, answers = found.subscriber or Target(""), found.reply or Target("")
    account = auth.get("auth")
    return Subscriber(
        uid=uid_of(subscription),
        name=subscription.metadata.name,
        generation=subscription.metadata.generation,
        subscriber_uri=to.url,
        subscriber_ca_certs=to.ca_certs,
        subscriber_audience=to.audience,
        reply_uri=answers.url or None,
        reply_ca_certs=answers.ca_certs,
        reply_audience=answers.audience,
        delivery=delivery,
        auth=None if account is None else AuthStatus(service_account_name=account["serviceAccountName"]),
    ).to_json()


def _added(world: World, subscription: Subscription, found: _Found, entry: Json | None) -> Verdict:
    if found.backing is None or entry is None:
        return unknown(Reason.RESOLVING, "its references have to be resolved first")
    uid = uid_of(subscription)
    raw = world.look(found.backing) or {}
    current = next((item for item in _current(raw) if item.get("uid") == uid), None)
    if current != entry:
        problem = _patch_failure(world, found.backing)
        if problem is not None:
            return false(Reason.PHYSICAL_CHANNEL_SYNC_FAILED, f"{found.backing}: {problem}")
        return unknown(Reason.RESOLVING, f"it is being entered into {found.backing}")
    entries = (raw.get("status") or {}).get("subscribers") or ()
    status: Json = next((item for item in entries if item.get("uid") == uid), {})
    if status.get("observedGeneration") != subscription.metadata.generation or status.get("ready") not in ("True", "False"):
        text = status.get("message") or f"{found.backing} has not taken it up yet"
        return unknown(Reason.SUBSCRIPTION_NOT_MARKED_READY_BY_CHANNEL, text)
    if status["ready"] == "True":
        return TRUE
    return false(
        Reason.SUBSCRIPTION_NOT_MARKED_READY_BY_CHANNEL, status.get("message") or f"{found.backing} says it is not ready"
    )


def _inform(world: World, subscription: Subscription, backing: ObjectKey | None, conditions: Conditions) -> None:
    topic = None if backing is None else known(world.status(backing)).topic
    options = lane_options(subscription.annotations)
    lanes.inform(world, conditions, uid_of(subscription), topic.topic if topic else None, options)


def _current(raw: Json) -> list[Json]:
    return [item for item in (raw.get("spec") or {}).get("subscribers") or () if isinstance(item, dict)]


def _patch(world: World, channel: KafkaChannel, entries: Mapping[str, Entry]) -> PatchObject | None:
    current = _current(world.look(key_of(channel)) or {})
    there = {str(item.get("uid")): item for item in current}
    wanted = [entries[uid].entry or item for uid, item in there.items() if uid in entries]
    wanted += [entry.entry for uid, entry in entries.items() if uid not in there and entry.entry is not None]
    if wanted == current:
        return None
    text = json.dumps({"spec": {"subscribers": wanted}}, sort_keys=True)
    return PatchObject(key_of(channel), uid_of(channel), text)


def _patch_failure(world: World, channel: ObjectKey) -> str | None:
    failures = world.observed.failures.items()
    return next(
        (failure.message for action, failure in failures if isinstance(action, PatchObject) and action.key == channel), None
    )


def _finalize(world: World, subscription: Subscription) -> None:
    """Wait until the channel has let go of it, then forget it."""
    if not has_finalizer(subscription):
        return
    key, uid = key_of(subscription), uid_of(subscription)
    holders = [channel for channel in world.all(KafkaChannel)[0] if _holds(world, channel, uid)]
    if holders:
        waiting = f"{key_of(holders[0])} has not let go of it yet"
    else:
        world.step(key, RemoveFinalizer(key, uid, FINALIZER))
        waiting = "it is being forgotten"
    deleting_status(world, subscription, DEPENDENTS, waiting)


def _holds(world: World, channel: KafkaChannel, uid: str) -> bool:
    entered = any(entry.uid == uid for entry in channel.spec.subscribers or ())
    return entered or uid in lane_records(world.status(key_of(channel)))
