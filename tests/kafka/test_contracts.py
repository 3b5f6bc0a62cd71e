"""The contract topic as a reader sees it: ready at its end, changed by records, never drained by silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headrace.base.clock import Deadline
from headrace.core.contract import Contract, Ingress, Resource
from headrace.core.contractlog import records_of, run_record
from headrace.kafka.admin import Admin
from headrace.kafka.contracts import TopicContract
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import TableWriter
from tests.conftest import TopicFactory
from tests.support.waiting import eventually

CONTRACT = Contract(
    generation=7,
    resources=(
        Resource(uid="a", topics=("ta",), bootstrap_servers="k:9092", ingress=Ingress(path="/ns/a")),
        Resource(uid="b", topics=("tb",), bootstrap_servers="k:9092", ingress=Ingress(path="/ns/b")),
    ),
    trust_bundles=("PEM",),
)


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(config={"cleanup.policy": "compact"})


@pytest.fixture
def writer(kafka: KafkaSettings, name: str) -> Iterator[TableWriter]:
    made = TableWriter(kafka, name, transactional_id=name)
    made.init()
    yield made
    made.close()


@pytest.fixture
def follow(kafka: KafkaSettings, name: str) -> Iterator[Callable[[], tuple[TopicContract, list[int]]]]:
    """Each call follows the topic and gives the source with the offsets at which it told of a change."""
    sources: list[TopicContract] = []

    def start() -> tuple[TopicContract, list[int]]:
        told: list[int] = []
        source = TopicContract(kafka, "unused", lambda: told.append(source.state.offset), topic=name)
        sources.append(source)
        source.start()
        return source, told

    yield start
    for source in sources:
        source.close()


Follow = Callable[[], tuple[TopicContract, list[int]]]


def test_a_contract_that_is_there_is_known_when_the_source_is_ready(writer: TableWriter, follow: Follow) -> None:
    last = writer.put_all(records_of(CONTRACT).items())
    source, _ = follow()
    eventually(lambda: source.ready, 20, "the source is ready")
    source.wait_ready(Deadline(0))
    eventually(lambda: source.state.offset == last, 20, "all records are applied")
    state = source.state
    assert (state.generation, state.trust_bundles, set(state.resources)) == (7, ("PEM",), {"a", "b"})
    assert state.applied["a"] <= last


def test_changes_are_told_and_a_state_that_was_taken_does_not_change(writer: TableWriter, follow: Follow) -> None:
    source, told = follow()
    source.wait_ready(Deadline(20))
    writer.put_all(records_of(CONTRACT).items())
    eventually(lambda: len(source.state.resources) == 2, 20, "both resources are known")
    before = source.state
    key, value = run_record("ta", "run-1", 0)
    writer.put_all([("a", None), (key, value)])
    eventually(lambda: source.state.runs == {"ta": "run-1"}, 20, "the run is known")
    assert set(source.state.resources) == {"b"}
    assert set(before.resources) == {"a", "b"}
    assert told == sorted(told)
    assert told[-1] == source.state.offset


def test_a_record_that_cannot_be_read_leaves_the_one_before_it_in_force(writer: TableWriter, follow: Follow) -> None:
    source, _ = follow()
    writer.put_all(records_of(CONTRACT).items())
    offset = writer.put("a", b"{not json")
    eventually(lambda: source.state.offset >= offset, 20, "the bad record is passed")
    assert source.state.resources["a"].ingress == Ingress(path="/ns/a")


def test_a_topic_that_was_made_again_takes_the_old_contract_away(
    kafka: KafkaSettings, admin: Admin, writer: TableWriter, follow: Follow, name: str
) -> None:
    writer.put_all(records_of(CONTRACT).items())
    source, _ = follow()
    eventually(lambda: len(source.state.resources) == 2, 20, "both resources are known")
    admin.delete_topic(name)
    admin.create_topic(name, 1, config={"cleanup.policy": "compact"})
    eventually(lambda: source.state.resources == {}, 60, "nothing of the old topic is left")
