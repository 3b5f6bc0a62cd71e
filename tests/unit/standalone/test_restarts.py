"""When a dead part is started again."""

from __future__ import annotations

from headrace.standalone.restarts import Restarts


def test_the_wait_doubles_with_each_death_up_to_half_a_minute() -> None:
    restarts = Restarts()
    waits = []
    now = 0.0
    for _ in range(8):
        # Deaths a minute apart: never five within two minutes.
        now += 60
        waits.append(restarts.died(now, started=now - 1))
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


def test_the_fifth_death_within_two_minutes_gives_up() -> None:
    restarts = Restarts()
    assert [restarts.died(at, started=at - 1) for at in (0.0, 20.0, 40.0, 60.0, 119.9)] == [1, 2, 4, 8, None]


def test_five_deaths_in_more_than_two_minutes_go_on() -> None:
    restarts = Restarts()
    assert [restarts.died(at, started=at - 1) for at in (0.0, 20.0, 40.0, 60.0, 120.0)] == [1, 2, 4, 8, 16]


def test_a_part_that_lived_for_two_minutes_starts_with_the_shortest_wait_again() -> None:
    restarts = Restarts()
    restarts.died(1.0, started=0.0)
    restarts.died(4.0, started=2.0)
    assert restarts.died(200.0, started=80.0) == 1
    assert restarts.total == 3
