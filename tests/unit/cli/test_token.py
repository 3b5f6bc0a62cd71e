"""Whose token is meant."""

from __future__ import annotations

import pytest

from headrace.base.errors import UsageError
from headrace.cli.token import account_of


def test_a_subject_names_a_service_account() -> None:
    assert account_of("system:serviceaccount:ns:me") == ("ns", "me")


@pytest.mark.parametrize(
    "text", ["", "me", "ns/me", "system:serviceaccount:", "system:serviceaccount:ns", "system:serviceaccount::a"]
)
def test_another_subject_is_a_usage_error_that_says_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="expected system:serviceaccount:NAMESPACE:NAME"):
        account_of(text)
