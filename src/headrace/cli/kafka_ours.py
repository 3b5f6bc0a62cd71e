"""Groups that are not to be touched by hand, because Headrace keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.errors import Terminal
from headrace.cli.settings import loaded

if TYPE_CHECKING:
    from headrace.kafka.ownership import OwnGroup
    from headrace.kafka.settings import KafkaSettings


def instance_name(instance: str | None) -> str:
    """The instance that the flag or the settings name."""
    return loaded(None, {"instance": instance}).settings.instance


def own_group(settings: KafkaSettings, group: str, instance: str | None) -> OwnGroup | None:
    """What Headrace keeps the group for, None for a group of somebody else's."""
    from headrace.kafka.ownership import own_groups

    return own_groups(settings, instance_name(instance)).get(group)


def refuse_ours(settings: KafkaSettings, group: str, instance: str | None, why: str, hint: str) -> None:
    """Raise `Terminal` when the group is one of ours."""
    own = own_group(settings, group, instance)
    if own is not None:
        raise Terminal(
            f"is kept by Headrace for {own.subject} in namespace {own.namespace}: {why}", subject=f"group {group}", hint=hint
        )
