"""How a receiver follows its contract, says what it has applied, and refuses what it can't do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base.errors import Retriable, UsageError
from headrace.core.contract import EgressConfig, Reference, Resource, dump
from headrace.core.heartbeat import ReceiverReport, decode_report
from headrace.core.names import Internal
from headrace.kafka.admin import Admin
from headrace.kafka.settings import Auth, KafkaSettings
from headrace.kafka.table import TableReader, TableWriter
from headrace.receiver import ReceiverConfig, build
from tests.conftest import TopicFactory
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, Bench, records, resource
from tests.support.waiting import eventually


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(partitions=1)


class Instance:
    """The internal topics of an instance of the test's own, its contract written and its heartbeats read."""

    def __init__(self, kafka: KafkaSettings, admin: Admin) -> None:
        self.name = f"t{uuid.uuid4().hex[:10]}"
        self.topics = Internal(self.name)
        self._admin = admin
        for topic in (self.topics.contract, self.topics.dataplane):
            admin.create_topic(topic, 1)
        self._writer = TableWriter(kafka, self.topics.contract)
        self._reader = TableReader(kafka, self.topics.dataplane, self._heard)
        self._reader.start()
        self.reports: list[ReceiverReport] = []

    def write(self, resource: Resource) -> int:
        return self._writer.put(resource.uid, dump(resource))

    def remove(self, uid: str) -> int:
        return self._writer.put(uid, None)

    def applied(self, offset: int) -> ReceiverReport:
        """The first report that says that the record at `offset` is in force."""
        return eventually(lambda: [one for one in self.reports if one.contract_offset >= offset])[0]

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
        for topic in (self.topics.contract, self.topics.dataplane):
            self._admin.delete_topic(topic)

    def _heard(self, key: str, value: bytes | None, offset: int) -> None:
        report = decode_report(key, value or b"")
        assert isinstance(report, ReceiverReport)
        self.reports.append(report)


@pytest.fixture
def instance(kafka: KafkaSettings, admin: Admin) -> Iterator[Instance]:
    made = Instance(kafka, admin)
    yield made
    made.close()


@pytest.fixture
def follower(receivers: Benches, kafka: KafkaSettings, instance: Instance) -> Bench:
    """A receiver that follows the contract topic of the instance."""
    bench = receivers(kafka=kafka, contract="kafka:", instance=instance.name, name="r1")
    return bench.start()


def test_a_change_of_the_contract_topic_is_in_force_when_the_heartbeat_says_so(
    follower: Bench, kafka: KafkaSettings, instance: Instance, name: str
) -> None:
    for number in range(20):
        path = f"/ns/b{number}"
        report = instance.applied(instance.write(resource(kafka, name, path)))
        assert follower.send(path).status == 202
    assert report.instance == "r1"
    assert len(report.ingresses) == 20
    offset = instance.remove(resource(kafka, name, "/ns/b3").uid)
    assert len(instance.applied(offset).ingresses) == 19
    assert follower.send("/ns/b3").status == 404
    assert follower.send("/ns/b4").status == 202


def test_a_receiver_reports_each_second_and_says_goodbye(follower: Bench, instance: Instance) -> None:
    eventually(lambda: len(instance.reports) >= 3, what="three reports")
    times = [report.at for report in instance.reports]
    assert all(500 < after - before < 5000 for before, after in zip(times[-2:], times[-1:], strict=False))
    assert not instance.reports[-1].stopping
    follower.close()
    eventually(lambda: instance.reports[-1].stopping, what="the last report says that it stops")


def test_a_receiver_is_ready_when_it_has_the_contract_and_reaches_kafka(follower: Bench) -> None:
    eventually(lambda: follower.get_ops("/readyz").status == 200, what="ready")
    assert follower.get_ops("/healthz").status == 200


def test_requests_before_the_contract_is_there_are_answered_503(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    bench = receivers().start()
    answer = bench.send()
    assert (answer.status, "just started" in answer.text) == (503, True)
    assert (bench.get_ops("/readyz").status, bench.get_ops("/healthz").status) == (503, 200)
    bench.serve(resource(kafka, name))
    assert bench.send().status == 202


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ingress_audience": "a"}, "audience"),
        ({"ingress_event_policies": ({"tokenMatchers": []},)}, "eventPolicies"),
        ({"multi_auth_secret": {"protocol": "SSL"}}, "multiAuthSecret"),
        ({"feature_flags": {"enableEventTypeAutocreate": True}}, "enableEventTypeAutocreate"),
        ({"auth_secret": Reference(namespace="ns", name="s")}, "secret/ns/s"),
        ({"topics": ()}, "topics"),
        ({"topics": ("a", "b")}, "topics"),
        ({"bootstrap_servers": "nowhere"}, "bootstrap servers"),
        ({"ingress_path": ""}, "neither a path nor a host"),
    ],
)
def test_what_is_not_supported_closes_its_ingress_and_no_other(
    receivers: Benches, kafka: KafkaSettings, name: str, changes: dict[str, object], named: str
) -> None:
    refused = resource(kafka, name, "/ns/refused", **changes)
    bench = receivers().start(refused, resource(kafka, name))
    assert bench.send().status == 202
    assert named in bench.receiver.table.closed[refused.uid]
    if refused.ingress is not None and refused.ingress.path:
        answer = bench.send("/ns/refused")
        assert (answer.status, named in answer.text) == (503, True)
        probe = {"K-Network-Probe": "probe"}
        assert bench.send("/ns/refused", method="GET", headers=probe, body=b"").status == 503


def test_an_ingress_opens_again_when_its_contract_is_right(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    bench = receivers().start(resource(kafka, name, multi_auth_secret={"protocol": "SSL"}))
    assert bench.send().status == 503
    bench.write(resource(kafka, name))
    eventually(lambda: bench.send().status == 202, what="open")


def test_of_two_with_one_address_the_first_keeps_it(receivers: Benches, kafka: KafkaSettings, topic: TopicFactory) -> None:
    first, second = topic(), topic()
    bench = receivers().start(resource(kafka, first))
    bench.serve(resource(kafka, second), resource(kafka, first))
    assert bench.send().status == 202
    assert len(records(kafka, first, 1)) == 1
    assert "belongs to" in bench.receiver.table.closed[resource(kafka, second).uid]
    bench.serve(resource(kafka, second))
    assert bench.send().status == 202
    assert len(records(kafka, second, 1)) == 1


def test_fields_that_mean_nothing_here_or_are_unknown_do_not_matter(
    receivers: Benches, kafka: KafkaSettings, name: str
) -> None:
    odd = resource(kafka, name, unknown={"new": 1}, egress_config=EgressConfig(retry=3), feature_flags={"other": True})
    assert receivers().start(odd).send().status == 202


def test_the_peers_contract_runs(receivers: Benches, kafka: KafkaSettings, name: str, tmp_path: Path) -> None:
    contract = f"""{{"generation":"7","resources":[{{"uid":"b-uid","topics":["{name}"],
        "bootstrapServers":"{kafka.bootstrap_servers}","ingress":{{"path":"/ns/default"}},
        "reference":{{"uuid":"b-uid","namespace":"ns","name":"default","kind":"Broker","groupVersion":"eventing.knative.dev/v1"}},
        "absentAuth":{{}},"featureFlags":{{}}}}],"trustBundles":[]}}"""
    file = tmp_path / "peer.json"
    file.write_text(contract)
    bench = receivers(contract=f"file:{file}").start()
    eventually(lambda: not bench.receiver.missing())
    assert bench.send("/ns/default").status == 202


def test_a_secret_that_can_not_be_had_yet_is_asked_for_again(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    asked: list[float] = []

    def secrets(reference: Reference) -> Auth:
        asked.append(time.monotonic())
        if len(asked) < 2:
            raise Retriable("not there yet", subject=f"secret/{reference.namespace}/{reference.name}")
        return Auth.none()

    bench = receivers(secrets=secrets).start(resource(kafka, name, auth_secret=Reference(namespace="ns", name="s")))
    eventually(lambda: bench.send().status == 202, what="open")
    assert len(asked) == 2


def test_ingresses_of_one_kafka_share_its_producer(receivers: Benches, kafka: KafkaSettings, topic: TopicFactory) -> None:
    bench = receivers().start(resource(kafka, topic(), "/a"), resource(kafka, topic(), "/b"))
    assert bench.send("/a").status == bench.send("/b").status == 202
    assert len({one.producer for one in bench.receiver.table.ingresses.values()}) == 1


def test_metrics_count_requests_by_ingress_type_and_answer(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    bench = receivers().start(resource(kafka, name))
    for _ in range(3):
        bench.send()
    bench.send(headers={**EVENT, "ce-id": ""})
    bench.send("/none")
    page = bench.get_ops("/metrics").text
    series = "kn_eventing_dispatch_latency_milliseconds_count"
    of = 'kind="broker",name="name",namespace="ns"'
    assert f'{series}{{cloudevents_type="test.event",http_response_status_code="202",{of}}} 3.0' in page
    assert f'{series}{{cloudevents_type="",http_response_status_code="400",{of}}} 1.0' in page
    assert f'{series}{{cloudevents_type="",http_response_status_code="404",kind="",name="",namespace=""}} 1.0' in page
    assert "headrace_receiver_events_waiting" in page


@pytest.mark.parametrize("contract", ["", "kafka:", "kafka:topic", "file:", "http://x"])
def test_a_contract_source_that_is_none_is_refused(contract: str) -> None:
    config = ReceiverConfig(kafka=None, contract=contract, port=0, ops_port=0)
    with pytest.raises(UsageError, match="not a contract source"):
        build(config)


def test_a_port_that_is_taken_is_refused(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    bench = receivers().start(resource(kafka, name))
    config = replace(bench.config, port=bench.port)
    with pytest.raises(Exception, match="cannot listen: Address already in use"):
        build(config)
