"""Features as the settings have them."""

from __future__ import annotations

import pytest

from headrace.base.config import Identity
from headrace.base.errors import UsageError
from headrace.core.resources.features import Features
from headrace.home.features import features


def test_authentication_is_off_unless_it_is_switched_on() -> None:
    assert features(Identity()) == Features()
    on = features(Identity(authentication=True, default_authorization_mode="deny-all"))
    assert (on.authentication_oidc, on.default_authorization_mode) == (True, "deny-all")


def test_a_mode_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"identity.default_authorization_mode 'some': expected one of .*deny-all"):
        features(Identity(default_authorization_mode="some"))
