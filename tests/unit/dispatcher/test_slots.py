"""No query and no job starts that Spark has no slots for."""

from __future__ import annotations

import pytest

from headrace.dispatcher.slots import InsufficientSlots, SlotBook


def test_a_claim_that_does_not_fit_changes_nothing() -> None:
    book = SlotBook(10)
    book.claim("a", 6)
    with pytest.raises(InsufficientSlots, match="needs 5 slots and 4 of 10 are free"):
        book.claim("b", 5)
    assert book.claimed == 6
    book.claim("b", 4)


def test_a_second_claim_of_one_name_replaces_the_first() -> None:
    book = SlotBook(10)
    book.claim("a", 6)
    book.claim("a", 9)
    assert book.claimed == 9


def test_queries_leave_the_slots_of_jobs_alone() -> None:
    book = SlotBook(10, reserve=4)
    with pytest.raises(InsufficientSlots):
        book.claim("query", 7)
    book.claim("query", 6)
    book.claim("job", 4, job=True)


def test_what_was_released_can_be_claimed_again() -> None:
    book = SlotBook(4)
    book.claim("a", 4)
    book.release("a")
    book.release("a")
    book.claim("b", 4)


def test_executors_that_left_show_as_overdrawn() -> None:
    book = SlotBook(4)
    book.claim("a", 2)
    book.claim("b", 2)
    assert not book.overdrawn("a")
    assert not book.overdrawn("b")
    book.resize(3)
    assert not book.overdrawn("a")
    assert book.overdrawn("b")
    assert not book.overdrawn("c")
    assert book.free == 0
    book.release("b")
    assert book.free == 1


def test_executors_that_came_are_counted_and_others_are_not() -> None:
    book = SlotBook(0)
    for total in (4, 4, 8, 4, 8):
        book.resize(total)
    assert book.growths == 3
