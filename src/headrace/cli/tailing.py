"""`tail`: the events of a topic as they come in."""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from headrace.base.errors import Terminal
from headrace.cli.eventform import print_event
from headrace.cli.output import error_console
from headrace.cli.targets import Topic
from headrace.core.events.kafka import decode_record
from headrace.core.events.model import InvalidEvent
from headrace.kafka.admin import Admin
from headrace.kafka.failures import kafka_error


def tail_topic(topic: Topic, *, from_beginning: bool, count: int, as_json: bool) -> None:
    """Print until interrupted, or `count` events have come. Joins no consumer group."""
    facts = Admin(topic.kafka).describe(topic.name)
    if facts is None:
        raise Terminal("does not exist", subject=f"topic {topic.name}")
    consumer = Consumer(topic.kafka.client(**{"group.id": "headrace-tail", "enable.auto.commit": False, "log_level": 2}))
    start = OFFSET_BEGINNING if from_beginning else OFFSET_END
    consumer.assign([TopicPartition(topic.name, partition, start) for partition in range(facts.partitions)])
    error_console().print(f"events of topic {topic.name} ({facts.partitions} partitions; Ctrl-C ends)", markup=False)
    seen = 0
    try:
        while not count or seen < count:
            message = consumer.poll(0.5)
            if message is not None:
                seen += _show(message, as_json=as_json)
    except KafkaException as error:
        raise kafka_error(error, f"topic {topic.name}") from error
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


def _show(message: Message, *, as_json: bool) -> int:
    """Print one record; 1 if it was one."""
    error = message.error()
    if error is not None:
        if not error.retriable():
            raise KafkaException(error)
        return 0
    place = f"partition {message.partition()} offset {message.offset()}"
    headers: list[Any] = list(message.headers() or [])
    try:
        print_event(decode_record(headers, message.value(), message.key()), place, as_json=as_json)
    except InvalidEvent as invalid:
        error_console().print(f"not a CloudEvent at {place}: {invalid}", style="yellow", markup=False)
    return 1
