"""What the standalone home decides for all its objects, from the settings of the process."""

from __future__ import annotations

from headrace.base import config
from headrace.base.errors import UsageError
from headrace.control.model import KafkaRef
from headrace.control.settings import Settings
from headrace.core.resources.duration import parse_duration
from headrace.core.resources.rules import Rules
from headrace.home.features import features

BROKER_CLASSES = frozenset({"Kafka", "kafka"})


def home_settings(settings: config.Settings, bootstrap: str) -> Settings:
    """The control plane's settings. Raises `UsageError` naming the setting that can't be used."""
    controller = settings.controller
    if controller.backoff_policy not in ("exponential", "linear"):
        raise UsageError("expected exponential or linear", subject=f"controller.backoff_policy {controller.backoff_policy!r}")
    _duration("controller.backoff_delay", controller.backoff_delay)
    return Settings(
        kafka=KafkaRef(bootstrap),
        instance=settings.instance,
        partitions=controller.partitions,
        replication=controller.replication,
        retention_ms=_duration("controller.retention", controller.retention),
        delivery={
            "retry": controller.retry,
            "backoffPolicy": controller.backoff_policy,
            "backoffDelay": controller.backoff_delay,
        },
        base_url=controller.address_url,
        features=features(settings.identity),
        broker_classes=BROKER_CLASSES,
    )


def home_rules() -> Rules:
    """The admission rules."""
    return Rules(broker_classes=BROKER_CLASSES)


def _duration(name: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(str(error), subject=f"{name} {text!r}") from None
