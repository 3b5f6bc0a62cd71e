"""From settings to the configuration of a part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base.config import Identity, Receiver, Settings
from headrace.base.errors import UsageError
from headrace.cli.wiring import receiver_config, span
from headrace.kafka.settings import KafkaSettings

KAFKA = KafkaSettings("127.0.0.1:9092")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500 ms", 0.5), ("10 milliseconds", 0.01), ("2s", 2), ("3 minutes", 180), ("1 hour", 3600), ("1.5 h", 5400)],
)
def test_spans_are_read_as_spark_writes_them(text: str, seconds: float) -> None:
    assert span(text, "x") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "ms", "-1 s", "1 day", "1 s 2"])
def test_other_spans_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="expected a span"):
        span(text, "dispatcher.batch_interval")


def test_the_limits_of_a_receiver_are_those_of_the_settings() -> None:
    own = Receiver(port=1, body_limit=10, queue_mb=2, queue_events=3, produce_timeout_ms=4)
    config = receiver_config(replace(Settings(), receiver=own, instance="i"), KAFKA, "")
    assert (config.port, config.instance, config.contract) == (1, "i", "kafka:")
    assert (config.limits.body, config.limits.bytes, config.limits.events) == (10, 2 << 20, 3)
    assert config.production.timeout_ms == 4
    assert config.tls is None


def test_half_a_tls_setting_is_refused() -> None:
    with pytest.raises(UsageError, match="go together"):
        receiver_config(replace(Settings(), receiver=Receiver(tls_cert="x")), KAFKA, "")


def test_a_port_for_tls_without_a_certificate_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a certificate"):
        receiver_config(replace(Settings(), receiver=Receiver(tls_port=8443)), KAFKA, "")


def test_a_receiver_takes_tokens_of_the_issuer_that_is_set_and_else_of_none() -> None:
    assert receiver_config(Settings(), KAFKA, "").issuer is None
    identity = Identity(issuer="https://i", issuer_ca_file="ca", issuer_token_file="own")
    issuer = receiver_config(replace(Settings(), identity=identity), KAFKA, "").issuer
    assert issuer is not None
    assert (issuer.url, issuer.ca_file, issuer.token_file) == ("https://i", Path("ca"), Path("own"))
