"""Bounds on requests under way, and circuits."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.clock import VirtualClock
from headrace.dispatcher.worker import gate as gates
from headrace.dispatcher.worker.gate import Gate
from headrace.dispatcher.worker.subscription import Host

A, B, C = (("http", name, 80) for name in "abc")


def started(gate: Gate[str]) -> list[str]:
    """All that may start now."""
    found = []
    while (item := gate.next()) is not None:
        found.append(item)
    return found


def test_a_new_host_begins_with_few_and_earns_more_with_each_answer() -> None:
    gate: Gate[str] = Gate(per_host=20, in_all=100, clock=VirtualClock())
    entered = sum(gate.enter(A, f"a{number}") for number in range(40))
    assert entered == gates.FIRST_ALLOWED
    for _ in range(10):
        gate.leave(A, True)
        started(gate)
    assert gate.under_way == 20


def test_who_waits_is_served_in_order_and_hosts_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "LEAST_ALLOWED", 0)
    gate: Gate[str] = Gate(per_host=1, in_all=2, clock=VirtualClock())
    for host, name in ((A, "a"), (B, "b"), (C, "c")):
        for number in range(3):
            gate.enter(host, f"{name}{number}")
    order = []
    for host in (A, B, C, A, B, C, A, B, C):
        gate.leave(host, True)
        order += started(gate)
    assert [name for name in order if name[0] == "a"] == ["a1", "a2"]
    assert [name for name in order if name[0] == "c"] == ["c0", "c1", "c2"]
    assert set(order[:4]) & {"b1"}
    assert len(order) == 7


def test_what_is_forgotten_does_not_start() -> None:
    gate: Gate[str] = Gate(per_host=1, in_all=2, clock=VirtualClock())
    assert [gate.enter(A, name) for name in ("one", "two", "three")] == [True, False, False]
    gate.forget(A, "two")
    gate.forget(A, "unknown")
    gate.leave(A, None)
    assert started(gate) == ["three"]


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.sampled_from(["enter", "enter", "good", "bad"])), max_size=200))
def test_bounds_hold_and_nobody_is_lost(script: list[tuple[Host, str]]) -> None:
    clock = VirtualClock()
    gate: Gate[tuple[Host, int]] = Gate(per_host=8, in_all=10, clock=clock)
    flying: Counter[Host] = Counter()
    waiting: list[tuple[Host, int]] = []
    for number, (host, step) in enumerate(script):
        if step == "enter":
            if gate.enter(host, (host, number)):
                flying[host] += 1
            else:
                waiting.append((host, number))
        elif flying[host]:
            flying[host] -= 1
            gate.leave(host, step == "good")
        while (item := gate.next()) is not None:
            waiting.remove(item)
            flying[item[0]] += 1
        assert gate.under_way == sum(flying.values())
        assert all(count <= 8 for count in flying.values())
        assert sum(count for count in flying.values() if count > gates.LEAST_ALLOWED) <= 10
    for _ in range(1000):
        clock.advance(1.0)
        for host in (A, B, C):
            if flying[host]:
                flying[host] -= 1
                gate.leave(host, True)
        while (item := gate.next()) is not None:
            waiting.remove(item)
            flying[item[0]] += 1
        if not waiting and not sum(flying.values()):
            break
    assert waiting == []


def test_hosts_that_hang_leave_a_few_requests_to_any_other() -> None:
    gate: Gate[str] = Gate(per_host=10, in_all=20, clock=VirtualClock())
    for host in (A, B):
        assert sum(gate.enter(host, "hanging") for _ in range(10)) == 10
    entered = [gate.enter(C, f"c{number}") for number in range(10)]
    assert entered.count(True) == gates.LEAST_ALLOWED
    assert started(gate) == []
    gate.leave(C, True)
    assert started(gate) == [f"c{gates.LEAST_ALLOWED}"]
    gate.leave(A, None)
    gate.leave(A, None)
    assert started(gate) == []
    for _ in range(5):
        gate.leave(B, None)
    assert len(started(gate)) == 3


# -- circuits ---------------------------------------------------------------------------------------------------------


def broken(clock: VirtualClock) -> Gate[str]:
    """A gate whose host A has failed for long enough."""
    gate: Gate[str] = Gate(per_host=50, in_all=100, clock=clock)
    for _ in range(gates.FAILURES):
        clock.advance(1.0)
        assert gate.enter(A, "x")
        gate.leave(A, False)
    return gate


def test_a_few_failures_or_many_within_moments_open_no_circuit() -> None:
    clock = VirtualClock()
    gate: Gate[str] = Gate(per_host=50, in_all=100, clock=clock)
    for _ in range(100):
        assert gate.enter(A, "x")
        gate.leave(A, False)
    assert gate.enter(A, "next")
    other: Gate[str] = Gate(per_host=50, in_all=100, clock=clock)
    for _ in range(gates.FAILURES - 1):
        assert other.enter(A, "x")
        other.leave(A, False)
        clock.advance(100)
    assert other.enter(A, "next")


def test_an_answer_in_between_begins_the_count_anew() -> None:
    clock = VirtualClock()
    gate: Gate[str] = Gate(per_host=50, in_all=100, clock=clock)
    for number in range(3 * gates.FAILURES):
        assert gate.enter(A, "x")
        gate.leave(A, number % gates.FAILURES == 0)
        clock.advance(10)
    assert gate.enter(A, "next")


def test_an_open_circuit_lets_one_probe_pass_less_and_less_often() -> None:
    clock = VirtualClock()
    gate = broken(clock)
    for number in range(6):
        assert not gate.enter(A, f"w{number}")
    pauses = []
    for number in range(5):
        due = gate.next_probe
        assert due is not None
        assert started(gate) == []
        pauses.append(due - clock.monotonic())
        clock.advance(pauses[-1])
        assert started(gate) == [f"w{number}"]
        gate.leave(A, False)
    first = gates.FIRST_PROBE
    assert pauses == [pytest.approx(pause) for pause in (first, 2 * first, 4 * first, gates.LATEST_PROBE, gates.LATEST_PROBE)]
    assert not gate.enter(A, "next")


def test_a_probe_that_is_answered_closes_the_circuit_and_lets_a_few_pass() -> None:
    clock = VirtualClock()
    gate = broken(clock)
    for number in range(20):
        gate.enter(A, f"w{number}")
    clock.advance(10)
    started(gate)
    gate.leave(A, True)
    assert len(started(gate)) == gates.LEAST_ALLOWED
    gate.leave(A, True)
    assert len(started(gate)) == 2


def test_a_circuit_concerns_its_own_host_only() -> None:
    gate = broken(VirtualClock())
    assert gate.enter(B, "b")


@pytest.mark.parametrize("answered", [None, False])
def test_a_probe_that_is_broken_off_is_followed_by_another(answered: bool | None) -> None:
    clock = VirtualClock()
    gate = broken(clock)
    gate.enter(A, "one")
    gate.enter(A, "two")
    clock.advance(10)
    first = started(gate)
    assert len(first) + gate.under_way >= 1
    gate.leave(A, answered)
    clock.advance(10)
    assert started(gate)
