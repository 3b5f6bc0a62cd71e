"""Channel, messaging.knative.dev/v1: a channel of the installation's default kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from headrace.core.resources.annotations import SUBSCRIBABLE
from headrace.core.resources.base import Json, Model, read
from headrace.core.resources.duck import ChannelableStatus, DeliverySpec, KReference, Subscriber, default_namespaces
from headrace.core.resources.invalid import FieldError, Invalid, disallowed, missing
from headrace.core.resources.kafkachannel import KafkaChannel, KafkaChannelSpec
from headrace.core.resources.kinds import Kind, existing, immutable, namespace_of, section
from headrace.core.resources.rules import Rules


class ChannelTemplate(Model):
    """The kind of channel that does the work."""

    api_version: str = ""
    """Its API version."""
    kind: str = ""
    """Its kind."""
    spec: Json | None = None
    """Its spec."""


class ChannelSpec(Model):
    """What is wanted of a Channel."""

    channel_template: ChannelTemplate | None = None
    """What backs it. Defaulted; immutable."""
    delivery: DeliverySpec | None = None
    """Delivery of its Subscriptions that have none of their own. Immutable."""
    subscribers: list[Subscriber] | None = None
    """Not for users: Subscriptions are entered at the channel that backs it."""


class ChannelStatus(ChannelableStatus):
    """The state of a Channel."""

    channel: KReference | None = None
    """The channel that backs it."""


class Channel(Kind):
    """A channel whose implementation the installation chooses: here a KafkaChannel of the same name."""

    GROUP: ClassVar[str] = "messaging.knative.dev"
    KIND: ClassVar[str] = "Channel"

    spec: ChannelSpec = ChannelSpec()
    """What is wanted."""
    status: ChannelStatus | None = None
    """What is."""

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """The template (that of the old object, if any)."""
        section(raw, "metadata", "annotations").setdefault(SUBSCRIBABLE, "v1")
        template = existing(old or {}, "spec", "channelTemplate") or dict(rules.channel_template)
        section(raw, "spec").setdefault("channelTemplate", template)
        default_namespaces(existing(raw, "spec", "delivery", "deadLetterSink"), namespace_of(raw))

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """A template with kind and version, no subscribers, a sound delivery."""
        template = self.spec.channel_template
        if template is None:
            yield missing("spec.channelTemplate")
        else:
            for name, value in (("kind", template.kind), ("apiVersion", template.api_version)):
                if not value:
                    yield missing(f"spec.channelTemplate.{name}")
            if template.kind == KafkaChannel.KIND:
                yield from _check_kafka(template, rules)
        if self.spec.subscribers:
            yield disallowed("spec.subscribers", details="make a Subscription instead")
        if self.spec.delivery is not None:
            yield from self.spec.delivery.check(("spec", "delivery"), rules.features)

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """Everything stays."""
        before, after = (spec.model_dump(exclude_none=True, exclude={"subscribers"}) for spec in (old.spec, self.spec))
        yield from immutable("spec", before, after)


def _check_kafka(template: ChannelTemplate, rules: Rules) -> Iterator[FieldError]:
    path = ("spec", "channelTemplate", "spec")
    try:
        spec = read(KafkaChannelSpec, template.spec or {}, *path)
    except Invalid as error:
        yield from error.errors
        return
    if spec.subscribers:
        yield disallowed("spec.channelTemplate.spec.subscribers")
    yield from spec.check(path, rules)
