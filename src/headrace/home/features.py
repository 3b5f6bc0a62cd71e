"""Knative's features, as the settings of the process have them."""

from __future__ import annotations

from headrace.base import config
from headrace.base.errors import UsageError
from headrace.core.resources.features import AUTHORIZATION_MODES, Features


def features(identity: config.Identity) -> Features:
    """The features in force. Raises `UsageError` for a mode that there is not."""
    if identity.default_authorization_mode not in AUTHORIZATION_MODES:
        raise UsageError(
            f"expected one of {', '.join(AUTHORIZATION_MODES)}",
            subject=f"identity.default_authorization_mode {identity.default_authorization_mode!r}",
        )
    return Features(authentication_oidc=identity.authentication, default_authorization_mode=identity.default_authorization_mode)
