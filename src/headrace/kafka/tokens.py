"""Tokens for Amazon MSK, signed by Amazon's own package, which is needed for this only."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from headrace.base.errors import Terminal
from headrace.kafka.auth import Auth

_PACKAGE = "aws-msk-iam-sasl-signer-python"


def msk_token(auth: Auth) -> Callable[[str], tuple[str, float]]:
    """The callback that gives librdkafka a token and the second (Unix time) at which it expires.

    Raises `Terminal` when the signer's package is not installed.
    """
    try:
        provider = importlib.import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError:
        raise Terminal(
            f"tokenProvider {auth.token_provider} needs the Python package {_PACKAGE}",
            subject="Kafka auth",
            hint=f"Install it beside Headrace: pip install {_PACKAGE}",
        ) from None

    def token(_config: str) -> tuple[str, float]:
        if auth.role_arn:
            text, expires_ms = provider.generate_auth_token_from_role_arn(auth.aws_region, auth.role_arn)
        else:
            text, expires_ms = provider.generate_auth_token(auth.aws_region)
        return str(text), float(expires_ms) / 1000

    return token
