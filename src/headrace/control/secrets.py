"""Secrets are kept while a topic needs them: deleting a Broker must still be able to open its Kafka.

Each Broker and KafkaChannel with a topic of its own puts a finalizer with its uid on the Secret, and takes it off at its end.
"""

from __future__ import annotations

from headrace.control.model import Action, AddFinalizer, KafkaRef, ObjectKey, RemoveFinalizer
from headrace.control.world import World
from headrace.core.resources.config import Secret

PREFIX = "kafka.headrace.dev/"


def guard_secret(world: World, kafka: KafkaRef, uid: str) -> None:
    """Put the finalizer of the object with this uid on the connection's Secret, if it is there and stays."""
    raw = None if kafka.secret is None else world.look(kafka.secret)
    if raw is None or kafka.secret is None:
        return
    meta = raw.get("metadata") or {}
    name = PREFIX + uid
    if name not in (meta.get("finalizers") or ()) and not meta.get("deletionTimestamp"):
        world.step(kafka.secret, AddFinalizer(kafka.secret, str(meta.get("uid", "")), name))


def release_secret(world: World, kafka: KafkaRef | None, uid: str) -> tuple[Action, ...]:
    """The action that takes the finalizer off again; none if it is not there."""
    raw = None if kafka is None or kafka.secret is None else world.look(kafka.secret)
    if raw is None or kafka is None or kafka.secret is None:
        return ()
    meta = raw.get("metadata") or {}
    if PREFIX + uid not in (meta.get("finalizers") or ()):
        return ()
    return (RemoveFinalizer(kafka.secret, str(meta.get("uid", "")), PREFIX + uid),)


def sweep_secrets(world: World, owners: set[str]) -> None:
    """Take off finalizers whose object is gone; `owners` are the uids of all Brokers and KafkaChannels there are."""
    secrets, _ = world.all(Secret)
    for secret in secrets:
        for name in secret.metadata.finalizers or ():
            if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in owners:
                key = ObjectKey("", "Secret", secret.metadata.namespace or "", secret.metadata.name)
                world.step(key, RemoveFinalizer(key, secret.metadata.uid or "", name))
