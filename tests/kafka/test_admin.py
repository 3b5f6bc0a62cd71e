"""Topics, offsets and groups of a real Kafka."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Consumer, Producer

from headrace.base.errors import Retriable, Terminal
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.support.waiting import eventually


def produce(kafka: KafkaSettings, topic: str, *values: str, partition: int = 0, timestamp: int = 0) -> None:
    producer = Producer(kafka.client(acks="all"))
    for value in values:
        producer.produce(topic, value.encode(), partition=partition, timestamp=timestamp)
    assert producer.flush(10) == 0


def test_a_topic_is_created_with_its_partitions_and_configuration(admin: Admin, topic: TopicFactory) -> None:
    name = topic(3, config={"cleanup.policy": "compact"})
    facts = admin.describe(name)
    assert facts is not None
    assert (facts.name, facts.partitions, facts.replication, facts.internal) == (name, 3, 1, False)
    assert [partition.in_sync for partition in facts.details] == [partition.replicas for partition in facts.details]
    assert name in admin.topics()


def test_creating_a_topic_that_exists_leaves_it_as_it_is(admin: Admin, topic: TopicFactory) -> None:
    name = topic(2)
    assert admin.create_topic(name, 5).partitions == 2


def test_a_topic_that_was_made_again_has_another_id(admin: Admin, topic: TopicFactory) -> None:
    name = topic()
    first = admin.describe(name)
    admin.delete_topic(name)
    second = admin.create_topic(name, 1)
    assert first is not None
    assert first.topic_id != second.topic_id


def test_an_unknown_topic_is_none_and_deleting_it_is_no_error(admin: Admin) -> None:
    assert admin.describe("no-such-topic") is None
    admin.delete_topic("no-such-topic")
    assert "no-such-topic" not in admin.topics()


def test_offsets_of_an_unknown_topic_are_an_error_that_names_it(admin: Admin) -> None:
    with pytest.raises(Terminal, match="topic no-such-topic: does not exist"):
        admin.end_offsets("no-such-topic")


def test_a_topic_name_that_kafka_refuses_is_a_terminal_error(admin: Admin) -> None:
    with pytest.raises(Terminal, match="topic a b"):
        admin.create_topic("a b", 1)


def test_partitions_are_added(admin: Admin, topic: TopicFactory) -> None:
    name = topic(1)
    assert admin.add_partitions(name, 4).partitions == 4
    with pytest.raises(Terminal):
        admin.add_partitions(name, 2)


def test_begin_end_and_time_offsets(admin: Admin, topic: TopicFactory, kafka: KafkaSettings) -> None:
    name = topic(2)
    produce(kafka, name, "a", "b", timestamp=1_000_000)
    produce(kafka, name, "c", timestamp=2_000_000)
    assert admin.begin_offsets(name) == {0: 0, 1: 0}
    assert admin.end_offsets(name) == {0: 3, 1: 0}
    assert admin.offsets_for_time(name, 1_500_000) == {0: 2, 1: 0}
    assert admin.offsets_for_time(name, 3_000_000) == {0: 3, 1: 0}


def test_group_offsets_are_set_read_and_deleted(admin: Admin, topic: TopicFactory, kafka: KafkaSettings) -> None:
    name, other, group = topic(3), topic(), f"g-{uuid.uuid4().hex}"
    assert admin.group_offsets(group, name) == {}
    assert admin.commit_group_offsets(group, name, {0: 5, 2: 7}) == {}
    assert admin.commit_group_offsets(group, other, {0: 1}) == {}
    assert admin.group_offsets(group, name) == {0: 5, 2: 7}
    admin.delete_group(group)
    assert admin.group_offsets(group, name) == {}
    admin.delete_group(group)


def test_many_groups_are_committed_at_once(admin: Admin, topic: TopicFactory) -> None:
    name = topic(2)
    groups = [f"g-{uuid.uuid4().hex}" for _ in range(20)]
    refused = admin.commit_many({group: {(name, 0): index, (name, 1): 0} for index, group in enumerate(groups)})
    assert refused == {group: {} for group in groups}
    assert admin.group_offsets(groups[7], name) == {0: 7, 1: 0}


def test_a_commit_to_a_group_with_members_is_refused_for_each_partition(
    admin: Admin, topic: TopicFactory, kafka: KafkaSettings
) -> None:
    name, group = topic(1), f"g-{uuid.uuid4().hex}"
    consumer = Consumer(kafka.client(group_id=group, auto_offset_reset="earliest"))
    try:
        consumer.subscribe([name])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), what="the group has a member")
        refused = admin.commit_group_offsets(group, name, {0: 1})
        assert refused[0].has_members, refused
        with pytest.raises(Terminal, match=f"group {group}"):
            admin.delete_group(group)
    finally:
        consumer.close()
    assert admin.commit_group_offsets(group, name, {0: 1}) == {}


def test_the_cluster_tells_its_id_and_brokers(admin: Admin, kafka: KafkaSettings) -> None:
    info = admin.cluster_info()
    assert info.cluster_id
    assert kafka.bootstrap_servers in info.brokers.values()


def test_a_kafka_that_is_not_there_is_a_retriable_error_that_says_what_to_check(free_port: object) -> None:
    nowhere = Admin(KafkaSettings("127.0.0.1:9"), timeout=0.5)
    with pytest.raises(Retriable, match=r"Check that Kafka runs"):
        nowhere.topics()
    with pytest.raises(Retriable, match=r"Kafka at 127\.0\.0\.1:9"):
        nowhere.cluster_info()
