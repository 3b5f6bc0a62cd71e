"""What a receiver answers, and what is in Kafka afterwards (design section 4, reference A2 and D2)."""

from __future__ import annotations

import json

import pytest

from headrace.core.contract import ContentMode
from headrace.kafka.settings import KafkaSettings
from tests.conftest import TopicFactory
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, Bench, read_all, records, resource, structured


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(partitions=1)


@pytest.fixture
def bench(receivers: Benches, kafka: KafkaSettings, name: str) -> Bench:
    return receivers().start(resource(kafka, name))


@pytest.mark.spec("DP-2", "DP-7", "DP-8", "CP-B3", "CP-R1", "CP-R5")
def test_an_event_in_binary_mode_is_in_kafka_when_it_is_accepted(bench: Bench, kafka: KafkaSettings, name: str) -> None:
    body = b'{ "as":\t"it was" }'
    headers = {
        **EVENT,
        "content-type": "application/json",
        "ce-subject": "s",
        "ce-time": "2026-02-03T04:05:06Z",
        "ce-extra": "x",
    }
    answer = bench.send(body=body, headers=headers)
    assert (answer.status, answer.body) == (202, b"")
    [record] = records(kafka, name, 1)
    assert record.value == body
    assert record.headers == {
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/test",
        "ce_type": b"test.event",
        "ce_subject": b"s",
        "ce_time": b"2026-02-03T04:05:06Z",
        "ce_extra": b"x",
        "content-type": b"application/json",
    }


@pytest.mark.spec("DP-3", "CP-B3")
def test_an_event_in_structured_mode_is_written_in_binary_mode(bench: Bench, kafka: KafkaSettings, name: str) -> None:
    body = structured(data={"n": 1}, subject="a")
    headers = {"content-type": "application/cloudevents+json; charset=utf-8"}
    assert bench.send(body=body, headers=headers).status == 202
    [record] = records(kafka, name, 1)
    assert json.loads(record.value or b"") == {"n": 1}
    assert record.headers["ce_type"] == b"test.event"
    assert record.headers["content-type"] == b"application/json"
    assert record.key == b"a"


def test_an_ingress_in_structured_mode_writes_json_events(receivers: Benches, kafka: KafkaSettings, name: str) -> None:
    bench = receivers().start(resource(kafka, name, ingress_content_mode=ContentMode.STRUCTURED))
    assert bench.send(headers={**EVENT, "content-type": "application/json", "ce-x": "a%20b"}, body=b"[1]").status == 202
    [record] = records(kafka, name, 1)
    assert record.headers["content-type"].startswith(b"application/cloudevents+json")
    assert json.loads(record.value or b"")["data"] == [1]
    assert json.loads(record.value or b"")["x"] == "a b"


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ({}, None),
        ({"ce-subject": "s"}, b"s"),
        ({"ce-subject": "s", "ce-partitionkey": "p"}, b"p"),
        ({"ce-partitionkey": "%C3%A9t%C3%A9"}, "été".encode()),
    ],
)
def test_the_key_is_the_partitionkey_else_the_subject_else_none(
    bench: Bench, kafka: KafkaSettings, name: str, attributes: dict[str, str], key: bytes | None
) -> None:
    assert bench.send(headers=EVENT | attributes).status == 202
    assert records(kafka, name, 1)[0].key == key


def test_a_key_lands_in_the_partition_where_kafkas_own_clients_put_it(
    receivers: Benches, kafka: KafkaSettings, topic: TopicFactory
) -> None:
    name = topic(partitions=10)
    bench = receivers().start(resource(kafka, name))
    # The vectors of Kafka's own test of murmur2 (UtilsTest): the partition is the hash without its sign, modulo 10.
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    expected = {key: (value & 0x7FFFFFFF) % 10 for key, value in hashes.items()}
    for number, key in enumerate(expected):
        assert bench.send(headers={**EVENT, "ce-id": str(number), "ce-partitionkey": key}).status == 202
    found = {(record.key or b"").decode(): record.partition for record in records(kafka, name, len(expected))}
    assert found == expected


def test_an_event_without_data_has_a_null_value(bench: Bench, kafka: KafkaSettings, name: str) -> None:
    assert bench.send(body=b"").status == 202
    assert records(kafka, name, 1)[0].value is None


def test_a_cloudevent_of_version_0_3_stays_one(bench: Bench, kafka: KafkaSettings, name: str) -> None:
    assert bench.send(headers={**EVENT, "ce-specversion": "0.3"}).status == 202
    assert records(kafka, name, 1)[0].headers["ce_specversion"] == b"0.3"


def test_tracing_headers_pass_through(bench: Bench, kafka: KafkaSettings, name: str) -> None:
    tracing = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b", "baggage": "k=v"}
    assert bench.send(headers=EVENT | tracing).status == 202
    found = records(kafka, name, 1)[0].headers
    assert {name: found[name].decode() for name in tracing} == tracing


@pytest.mark.parametrize("path", ["/ns/name", "/ns/name/", "/ns/name?query=1"])
def test_one_slash_at_the_end_and_a_query_do_not_matter(bench: Bench, path: str) -> None:
    assert bench.send(path).status == 202


@pytest.mark.parametrize("path", ["/", "/ns", "/ns/name//", "/ns/name/more", "/NS/name", "//ns/name"])
def test_an_unknown_path_is_answered_404(bench: Bench, path: str) -> None:
    assert bench.send(path).status == 404


@pytest.mark.spec("CP-C3")
@pytest.mark.parametrize("host", ["c-kn-channel.ns.svc.cluster.local", "C-kn-channel.ns.svc.cluster.LOCAL:8080"])
def test_a_channel_is_found_by_its_host(receivers: Benches, kafka: KafkaSettings, name: str, host: str) -> None:
    bench = receivers().start(resource(kafka, name, "/channels/ns/c", ingress_host="c-kn-channel.ns.svc.cluster.local"))
    assert bench.send("/", headers={**EVENT, "host": host}).status == 202
    assert bench.send("/channels/ns/c").status == 202
    assert bench.send("/", headers={**EVENT, "host": "d-kn-channel.ns.svc.cluster.local"}).status == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "QUERY"])
def test_other_methods_are_answered_405_with_those_allowed(bench: Bench, method: str) -> None:
    answer = bench.send(method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.spec("DP-6")
def test_options_names_post(bench: Bench) -> None:
    answer = bench.send(method="OPTIONS", body=b"")
    assert (answer.status, answer.headers["allow"]) == (200, "POST, OPTIONS")
    assert bench.send("/other", method="OPTIONS", body=b"").status == 404


def test_a_probe_of_the_control_plane_is_answered_with_its_hash(bench: Bench) -> None:
    probe = {"K-Network-Probe": "probe", "K-Network-Hash": "abc"}
    answer = bench.send(method="GET", headers=probe, body=b"")
    assert (answer.status, answer.headers["k-network-hash"]) == (200, "abc")
    assert bench.send("/other", method="GET", headers=probe, body=b"").status == 404


@pytest.mark.spec("DP-1")
def test_an_upgrade_that_is_not_known_is_ignored(bench: Bench) -> None:
    assert bench.send(headers={**EVENT, "connection": "upgrade", "upgrade": "websocket"}).status == 202
    assert bench.send(headers={**EVENT, "connection": "upgrade", "upgrade": "h2c"}).status == 202


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"ce-id": ""}, "id"),
        ({"ce-specversion": "2.0"}, "specversion"),
        ({"ce-source": "a b"}, "source"),
        ({"ce-time": "yesterday"}, "time"),
        ({"ce-time": "2026-02-30T00:00:00Z"}, "time"),
        ({"ce-bad-name": "x"}, "bad-name"),
        ({"ce-x": "%C0%A0"}, "x"),
        ({"ce-x": "%zz"}, "x"),
        ({"ce-datacontenttype": "text/plain"}, "datacontenttype"),
        ({"content-type": "no media type"}, "datacontenttype"),
        ({"ce-subject": ""}, "subject"),
        ({"content-type": "application/cloudevents+avro"}, "avro"),
    ],
)
def test_what_is_no_event_is_answered_400_and_says_what_is_wrong(
    bench: Bench, kafka: KafkaSettings, name: str, change: dict[str, str], named: str
) -> None:
    answer = bench.send(headers=EVENT | change)
    assert answer.status == 400
    assert named in answer.text
    assert read_all(kafka, name) == []


def test_a_missing_attribute_is_answered_400(bench: Bench) -> None:
    for missing in EVENT:
        answer = bench.send(headers={name: value for name, value in EVENT.items() if name != missing})
        assert (answer.status, missing.removeprefix("ce-") in answer.text) == (400, True)


def test_a_header_outside_ascii_is_answered_400(bench: Bench) -> None:
    request = "POST /ns/name HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n"
    request += "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())
    assert bench.raw(request.encode() + b"ce-subject: \xc3\xa9\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert bench.raw(request.encode() + b"x-other: \xc3\xa9\r\n\r\n").startswith(b"HTTP/1.1 202 ")
    # One line too many and one that is not seen must not cancel each other out.
    assert bench.raw(request.encode() + b"a: 1\r\na: 2\r\nce-subject: \xc3\xa9\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_an_attribute_that_comes_twice_is_answered_400(bench: Bench) -> None:
    request = "POST /ns/name HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n"
    request += "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())
    assert bench.raw(f"{request}ce-id: 2\r\n\r\n".encode()).startswith(b"HTTP/1.1 400 ")


def test_a_batch_is_taken_whole(bench: Bench, kafka: KafkaSettings, name: str) -> None:
    batch = json.dumps([json.loads(structured(id=str(number))) for number in range(5)]).encode()
    headers = {"content-type": "application/cloudevents-batch+json"}
    assert bench.send(body=batch, headers=headers).status == 202
    assert [record.headers["ce_id"] for record in records(kafka, name, 5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_batch_with_one_bad_event_is_refused_whole(bench: Bench, kafka: KafkaSettings, name: str) -> None:
    batch = b"[" + structured(id="1") + b"," + structured(id="") + b"]"
    headers = {"content-type": "application/cloudevents-batch+json"}
    assert bench.send(body=batch, headers=headers).status == 400
    assert bench.send(body=b"[]", headers=headers).status == 202
    assert read_all(kafka, name) == []
