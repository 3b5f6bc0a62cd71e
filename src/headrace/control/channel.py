"""Channel: a KafkaChannel of the same name does the work; its address and subscribers are mirrored."""

from __future__ import annotations

import json
from typing import Any

from headrace.control.conditions import TRUE, Conditions, Verdict, condition_in, false, true, unknown, verdict_of
from headrace.control.identity import owner_reference
from headrace.control.ingress import deleting_status
from headrace.control.mirror import mirrored
from headrace.control.model import AddFinalizer, CreateObject, DeleteObject, ObjectKey, RemoveFinalizer
from headrace.control.world import FINALIZER, World, has_finalizer, is_deleting, key_of, uid_of
from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.annotations import SUBSCRIBABLE
from headrace.core.resources.channel import Channel, ChannelTemplate
from headrace.core.resources.kafkachannel import KafkaChannel
from headrace.core.resources.registry import split_api_version

Json = dict[str, Any]
DEPENDENTS = (
    ConditionType.BACKING_CHANNEL_READY,
    ConditionType.ADDRESSABLE,
    ConditionType.DEAD_LETTER_SINK_RESOLVED,
    ConditionType.EVENT_POLICIES_READY,
)
_MIRRORED = (
    "address",
    "addresses",
    "subscribers",
    "policies",
    "deadLetterSinkUri",
    "deadLetterSinkCACerts",
    "deadLetterSinkAudience",
)


def backing_key(channel: Channel) -> ObjectKey:
    """The KafkaChannel behind a Channel."""
    return ObjectKey(KafkaChannel.GROUP, KafkaChannel.KIND, channel.metadata.namespace or "", channel.metadata.name)


def reconcile_channel(world: World, channel: Channel) -> None:
    """Status of one Channel, and the object behind it."""
    key = key_of(channel)
    if is_deleting(channel):
        _finalize(world, channel)
        return
    if not has_finalizer(channel):
        world.step(key, AddFinalizer(key, uid_of(channel), FINALIZER))
    conditions = Conditions(world.observed_status(key), channel.metadata.generation, world.now, any_generation=True)
    template = channel.spec.channel_template
    backing: Json | None = None
    if (
        template is None
        or template.kind != KafkaChannel.KIND
        or split_api_version(template.api_version)[0] != KafkaChannel.GROUP
    ):
        kind = "no kind" if template is None else f"{template.kind} in {template.api_version}"
        text = f"spec.channelTemplate names {kind}; only a {KafkaChannel.KIND} can back a Channel here"
        verdict = false(Reason.CHANNEL_TEMPLATE_NOT_SUPPORTED, text)
    else:
        backing, verdict = _backing(world, channel, template)
    status = (backing or {}).get("status") or {}
    conditions.set(ConditionType.BACKING_CHANNEL_READY, verdict)
    conditions.set(ConditionType.ADDRESSABLE, _addressable(status, verdict))
    conditions.set(ConditionType.DEAD_LETTER_SINK_RESOLVED, _dead_letters(channel, status))
    conditions.set(ConditionType.EVENT_POLICIES_READY, _policies(status))
    out: Json = {
        "observedGeneration": channel.metadata.generation,
        "conditions": conditions.build(DEPENDENTS),
        **{name: status[name] for name in _MIRRORED if name in status},
    }
    if backing is not None:
        out["channel"] = {
            "apiVersion": backing["apiVersion"],
            "kind": KafkaChannel.KIND,
            "namespace": key.namespace,
            "name": key.name,
        }
    world.set_status(key, out)


def _backing(world: World, channel: Channel, template: ChannelTemplate) -> tuple[Json | None, Verdict]:
    key = backing_key(channel)
    raw = world.look(key)
    if raw is not None:
        if not _is_owned(raw, channel):
            return None, false(Reason.BACKING_CHANNEL_NOT_OWNED, f"{key} exists and belongs to somebody else")
        return raw, mirrored(raw.get("status") or {}, Reason.BACKING_CHANNEL_NOT_READY, str(key))
    if not world.is_looked_up(key):
        return None, unknown(Reason.REFERENCE_NOT_LOOKED_UP, f"{key} was not looked up yet")
    create = CreateObject(key, json.dumps(_manifest(channel, template), sort_keys=True))
    if has_finalizer(channel):
        world.step(key_of(channel), create)
    failure = world.failure(create)
    if failure is not None:
        return None, false(Reason.BACKING_CHANNEL_CREATION_FAILED, f"{key}: {failure}")
    return None, unknown(Reason.BACKING_CHANNEL_NOT_READY, f"{key} is being created")


def _manifest(channel: Channel, template: ChannelTemplate) -> Json:
    spec = dict(template.spec or {})
    if channel.spec.delivery is not None:
        spec["delivery"] = channel.spec.delivery.to_json()
    return {
        "apiVersion": template.api_version,
        "kind": template.kind,
        "metadata": {
            "name": channel.metadata.name,
            "namespace": channel.metadata.namespace,
            "annotations": {SUBSCRIBABLE: "v1"},
            "ownerReferences": [owner_reference(channel)],
        },
        "spec": spec,
    }


def _is_owned(raw: Json, channel: Channel) -> bool:
    owners = (raw.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("uid") == uid_of(channel) for owner in owners)


def _addressable(status: Json, backing: Verdict) -> Verdict:
    if "address" in status:
        return TRUE
    return Verdict(backing.status if not backing.ok else "Unknown", backing.reason or Reason.INGRESS_NOT_READY, backing.message)


def _dead_letters(channel: Channel, status: Json) -> Verdict:
    if channel.spec.delivery is None or channel.spec.delivery.dead_letter_sink is None:
        return true(Reason.DEAD_LETTER_SINK_NOT_CONFIGURED, "no dead letter sink is configured")
    if "deadLetterSinkUri" in status:
        return TRUE
    parsed = condition_in(status, ConditionType.CONFIG_PARSED)
    if parsed.get("status") == "False":
        return false(Reason.DEAD_LETTER_SINK_NOT_RESOLVED, parsed.get("message", ""))
    return unknown(Reason.BACKING_CHANNEL_NOT_READY, "the channel behind has not resolved it yet")


def _policies(status: Json) -> Verdict:
    found = condition_in(status, ConditionType.EVENT_POLICIES_READY)
    if not found:
        return unknown(Reason.BACKING_CHANNEL_NOT_READY, "the channel behind has not looked at them yet")
    return verdict_of(found)


def _finalize(world: World, channel: Channel) -> None:
    if not has_finalizer(channel):
        return
    key = key_of(channel)
    raw = world.look(backing_key(channel))
    if raw is None or not _is_owned(raw, channel):
        world.step(key, RemoveFinalizer(key, uid_of(channel), FINALIZER))
        waiting = "it is being forgotten"
    else:
        meta = raw.get("metadata") or {}
        if not meta.get("deletionTimestamp"):
            world.step(key, DeleteObject(backing_key(channel), str(meta.get("uid", ""))))
        waiting = f"{backing_key(channel)} is being deleted"
    deleting_status(world, channel, DEPENDENTS, waiting)
