"""The demo's ledger: nothing that is missing, repeated or wrong goes unseen."""

from __future__ import annotations

from headrace.cli.ledger import Ledger, quantile


def test_every_event_once_is_exact() -> None:
    ledger = Ledger()
    for number in range(100):
        ledger.sent(str(number), ("all", "some") if number % 2 else ("all",), at=float(number))
    assert ledger.outstanding() == 150
    for number in range(100):
        assert ledger.arrived(str(number), "all", at=number + 0.002) == (number + 0.002 - number) * 1000
        if number % 2:
            ledger.arrived(str(number), "some", at=number + 0.004)
    assert ledger.outstanding() == 0
    everything, some = ledger.tallies()
    assert everything.exact
    assert some.exact
    assert (everything.expected, some.expected) == (100, 50)
    assert round(some.p50_ms) == 4


def test_a_missing_a_repeated_and_a_wrong_delivery_are_each_seen() -> None:
    ledger = Ledger()
    for event_id in "ab":
        ledger.sent(event_id, ("one",), at=0.0)
    ledger.arrived("a", "one", at=1.0)
    assert not ledger.tallies()[0].exact
    assert ledger.tallies()[0].received == 1
    ledger.arrived("b", "one", at=1.0)
    assert ledger.tallies()[0].exact
    ledger.arrived("a", "one", at=2.0)
    assert (ledger.tallies()[0].repeated, ledger.tallies()[0].exact) == (1, False)
    assert ledger.arrived("foreign", "two", at=1.0) is None
    assert (ledger.tallies()[1].unexpected, ledger.tallies()[1].exact) == (1, False)


def test_a_delivery_to_somebody_who_should_not_get_it_is_unexpected() -> None:
    ledger = Ledger()
    ledger.sent("a", ("one",), at=0.0)
    ledger.arrived("a", "one", at=1.0)
    ledger.arrived("a", "two", at=1.0)
    assert [tally.exact for tally in ledger.tallies()] == [True, False]


def test_a_quantile_of_few_values_is_one_of_them() -> None:
    assert quantile([], 0.5) == 0.0
    assert quantile([1.0], 0.99) == 1.0
    assert quantile([float(value) for value in range(100)], 0.99) == 99.0
