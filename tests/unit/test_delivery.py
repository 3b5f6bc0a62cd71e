"""The rules of one delivery."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.contract import BackoffPolicy, EgressConfig
from headrace.core.delivery import (
    DEFAULT_TIMEOUT_MS,
    HOPS,
    MAX_WAIT_MS,
    FailedDelivery,
    RetryPolicy,
    Verdict,
    dead_letter,
    dead_letter_extensions,
    judge,
    next_hop,
    parse_retry_after,
    timeout_ms,
)
from headrace.core.events.attributes import NAME, check_text
from headrace.core.events.model import Event

NOW = 1_700_000_000.0
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "note": "x"}, b"data")


@pytest.mark.spec("DP-9")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
def test_2xx_is_delivered(status: int) -> None:
    assert judge(status) is Verdict.DELIVERED


@pytest.mark.spec("DP-10")
@pytest.mark.parametrize("status", [404, 408, 409, 429, 500, 501, 502, 503, 504, 599])
def test_404_408_409_429_and_5xx_are_retried(status: int) -> None:
    assert judge(status) is Verdict.RETRY


@pytest.mark.spec("DP-11")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 405, 406, 410, 413, 415, 422, 451, 499])
def test_other_4xx_are_refused(status: int) -> None:
    assert judge(status) is Verdict.REFUSED


@pytest.mark.spec("DP-12")
@pytest.mark.parametrize("status", [100, 101, 103, 199, 300, 301, 302, 304, 307, 308, 399])
def test_1xx_and_3xx_are_refused(status: int) -> None:
    assert judge(status) is Verdict.REFUSED


@pytest.mark.spec("DP-13")
@pytest.mark.parametrize("status", [0, 99, 600, 999])
def test_codes_outside_the_table_are_retried(status: int) -> None:
    assert judge(status) is Verdict.RETRY


@pytest.mark.spec("CP-E2")
@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (BackoffPolicy.EXPONENTIAL, [400, 800, 1600, 3200, None]),
        (BackoffPolicy.LINEAR, [200, 400, 600, 800, None]),
    ],
)
def test_waits_grow_as_the_policy_says_and_end_after_retry_attempts(policy: BackoffPolicy, waits: list[int | None]) -> None:
    retry = RetryPolicy(4, policy, 200)
    assert [retry.wait_ms(attempts) for attempts in range(1, 6)] == waits


def test_without_a_delay_the_next_attempt_follows_at_once() -> None:
    assert [RetryPolicy(2).wait_ms(attempts) for attempts in (1, 2, 3)] == [0, 0, None]


@given(
    st.sampled_from(BackoffPolicy),
    st.sampled_from([0, 1, 250, 10_000, 86_399_999, 90_000_000]),
    st.integers(1, 40),
    st.integers(0, 1 << 40),
)
def test_the_time_of_the_next_attempt_outlives_whoever_made_the_last_one(
    backoff: BackoffPolicy, delay: int, attempts: int, now: int
) -> None:
    policy = RetryPolicy(40, backoff, delay)
    waits = [policy.wait_ms(number) or 0 for number in range(1, attempts + 1)]
    since = policy.base_ms(attempts, now + waits[-1])
    assert since == now - sum(waits[:-1])
    assert policy.left_ms(attempts, since, now) == waits[-1]
    assert policy.left_ms(attempts, since, now + waits[-1] // 2) == waits[-1] - waits[-1] // 2
    assert policy.left_ms(attempts, since, now + waits[-1] + 1) == 0
    assert policy.left_ms(attempts, since, now - 1_000_000) == waits[-1]


def test_without_a_failure_or_without_an_attempt_left_nothing_is_waited_for() -> None:
    policy = RetryPolicy(3, BackoffPolicy.LINEAR, 1000)
    assert policy.left_ms(0, 0, 50) == 0
    assert policy.left_ms(4, 50, 50) == 0


def test_no_wait_is_longer_than_a_day() -> None:
    assert RetryPolicy(10_000, BackoffPolicy.EXPONENTIAL, 200).wait_ms(9_000) == MAX_WAIT_MS
    assert RetryPolicy(10_000, BackoffPolicy.LINEAR, 10**12).wait_ms(9_000) == MAX_WAIT_MS


def test_a_policy_comes_from_the_egress() -> None:
    config = EgressConfig(retry=3, backoff_policy=BackoffPolicy.LINEAR, backoff_delay=70, headrace={"retryAfterMax": 5000})
    assert RetryPolicy.of(config) == RetryPolicy(3, BackoffPolicy.LINEAR, 70, 5000)
    assert RetryPolicy.of(EgressConfig()) == RetryPolicy()


@pytest.mark.parametrize(
    ("longest", "status", "header", "wait"),
    [
        (None, 429, "60", 400),
        (30_000, 429, "5", 5_000),
        (30_000, 503, "5", 5_000),
        (30_000, 500, "5", 400),
        (30_000, 429, "600", 30_000),
        (30_000, 429, "0", 400),
        (30_000, 429, None, 400),
        (30_000, 429, "soon", 400),
        (30_000, 503, "Tue, 14 Nov 2023 22:13:30 GMT", 10_000),
        (30_000, 503, "Tue, 14 Nov 2000 22:13:30 GMT", 400),
        (0, 429, "60", 400),
    ],
)
def test_retry_after_stretches_the_wait_within_its_maximum(
    longest: int | None, status: int, header: str | None, wait: int
) -> None:
    policy = RetryPolicy(5, BackoffPolicy.EXPONENTIAL, 200, longest)
    assert policy.wait_after(1, status, header, NOW) == wait


def test_retry_after_gives_no_attempt_beyond_the_last() -> None:
    assert RetryPolicy(0, retry_after_max_ms=1000).wait_after(1, 429, "1", NOW) is None


@given(st.text(max_size=40))
def test_any_retry_after_value_is_read_or_ignored(text: str) -> None:
    seconds = parse_retry_after(text, NOW)
    assert seconds is None or seconds >= 0


@pytest.mark.spec("CP-E6")
def test_a_dead_letter_without_a_response_names_only_the_destination() -> None:
    failed = FailedDelivery("http://sub/", reason="connection refused")
    assert dead_letter_extensions(failed) == {"knativeerrordest": "http://sub/"}


@pytest.mark.spec("CP-E6")
def test_a_dead_letter_with_a_response_names_code_and_data() -> None:
    failed = FailedDelivery("http://sub/", 422, (), b"<html>no</html>")
    assert dead_letter_extensions(failed) == {
        "knativeerrordest": "http://sub/",
        "knativeerrorcode": "422",
        "knativeerrordata": base64.b64encode(b"<html>no</html>").decode(),
    }
    assert "knativeerrordata" not in dead_letter_extensions(FailedDelivery("http://sub/", 422))


@pytest.mark.parametrize("size", [1023, 1024, 1025, 5000])
def test_error_data_is_the_first_1024_bytes_of_the_body(size: int) -> None:
    body = bytes(index % 251 for index in range(size))
    text = dead_letter_extensions(FailedDelivery("d", 500, (), body))["knativeerrordata"]
    assert base64.b64decode(text) == body[:1024]


@pytest.mark.parametrize(
    ("header", "value", "extension"),
    [
        ("Kne-Test", "foo", {"test": "foo"}),
        ("KNE-Reason2", "a b", {"reason2": "a b"}),
        ("Kne-A-B", "x", {}),
        ("Kne-", "x", {}),
        ("Kne-\u00e9", "x", {}),
        ("Kne-Empty", "", {}),
        ("Kne-Bad", "\x85", {}),
        ("Kne-Id", "stolen", {}),
        ("Kne-Data", "x", {}),
        ("Kne-Knativeerrorcode", "200", {}),
        ("Other", "x", {}),
    ],
)
def test_kne_headers_become_extensions_where_they_can(header: str, value: str, extension: dict[str, str]) -> None:
    got = dead_letter_extensions(FailedDelivery("d", 400, ((header, value),)))
    assert got == {"knativeerrordest": "d", "knativeerrorcode": "400", **extension}


@given(st.lists(st.tuples(st.text(max_size=12).map("kne-".__add__), st.text(max_size=12)), max_size=4))
def test_whatever_the_headers_a_dead_letter_is_a_valid_event(headers: list[tuple[str, str]]) -> None:
    made = dead_letter(EVENT, FailedDelivery("http://d", 500, tuple(headers)))
    for name, value in made.attributes.items():
        assert NAME.fullmatch(name)
        if all(ord(character) < 256 for character in value):
            check_text(name, value)
    assert {name: made.attributes[name] for name in ("specversion", "id", "source", "type")} == {
        name: EVENT.attributes[name] for name in ("specversion", "id", "source", "type")
    }


@pytest.mark.spec("CP-R5")
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_dead_letter_keeps_version_data_and_attributes(version: str) -> None:
    event = Event({**EVENT.attributes, "specversion": version}, b"data", (("traceparent", "00-a"),))
    made = dead_letter(event, FailedDelivery("http://d", 500))
    assert made.data == b"data"
    assert made.passthrough == event.passthrough
    assert made.attributes == {**event.attributes, "knativeerrordest": "http://d", "knativeerrorcode": "500"}


@pytest.mark.spec("CP-R9")
@pytest.mark.parametrize(
    ("limit", "before", "after"),
    [(0, "9", "absent"), (3, None, "1"), (3, "1", "2"), (3, "2", "3"), (3, "3", None), (3, "junk", "1"), (1, "1" * 30, "1")],
)
def test_hops_are_counted_only_with_a_limit(limit: int, before: str | None, after: str | None) -> None:
    delivered: dict[str, Any] = {} if before is None else {HOPS: before}
    got = next_hop(delivered, EVENT, limit)
    if after is None:
        assert got is None
    else:
        assert got is not None
        assert got.attributes.get(HOPS, "absent") == after


def test_the_timeout_defaults_to_ten_minutes() -> None:
    assert timeout_ms(EgressConfig()) == DEFAULT_TIMEOUT_MS == 600_000
    assert timeout_ms(EgressConfig(timeout=250)) == 250
