"""Kafka's errors as ours: what can be tried again, what can't, and what to do about it."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from headrace.base.errors import HeadraceError, Retriable, Terminal

_HINTS = {
    KafkaError._AUTHENTICATION: "Check user, password and mechanism of the auth file",
    KafkaError.SASL_AUTHENTICATION_FAILED: "Check user, password and mechanism of the auth file",
    KafkaError._SSL: "Check ca.crt, user.crt and user.key of the auth file",
    KafkaError._ALL_BROKERS_DOWN: "Check that Kafka runs and that its address is right",
    KafkaError._TRANSPORT: "Check that Kafka runs and that its address is right",
    KafkaError._RESOLVE: "Check the address of Kafka",
    KafkaError._TIMED_OUT: "Check that Kafka runs and that its address is right",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Grant this user the rights on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Grant this user the rights on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Grant this user the rights on the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Grant this user WRITE on the transactional id",
}
_PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._QUEUE_FULL,
    KafkaError._WAIT_COORD,
    KafkaError._WAIT_CACHE,
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.STALE_BROKER_EPOCH,
}


def kafka_error(error: KafkaError | KafkaException, subject: str) -> HeadraceError:
    """The error to raise for what a client reported about `subject`: `Retriable` when waiting may help, else `Terminal`."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    if not isinstance(cause, KafkaError):
        return Terminal(str(cause), subject=subject)
    text = f"{cause.str() or 'failed'} ({cause.name()})"
    hint = _HINTS.get(cause.code(), "")
    if cause.code() in _PASSING or cause.retriable():
        return Retriable(text, subject=subject, hint=hint)
    return Terminal(text, subject=subject, hint=hint)
