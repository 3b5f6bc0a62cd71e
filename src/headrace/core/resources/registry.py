"""Every kind that Headrace serves: names, versions, columns. The REST API, the command line and the CRDs are made from it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.core.resources.base import Json
from headrace.core.resources.broker import Broker
from headrace.core.resources.channel import Channel
from headrace.core.resources.config import ConfigMap, Secret
from headrace.core.resources.eventpolicy import EventPolicy
from headrace.core.resources.invalid import FieldError, Invalid, missing
from headrace.core.resources.kafkachannel import KafkaChannel
from headrace.core.resources.kinds import Kind
from headrace.core.resources.subscription import Subscription
from headrace.core.resources.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `get`: its JSONPath, and its type as CRDs name it (`string`, `date`, ...)."""

    name: str
    path: str
    type: str = "string"


@dataclass(frozen=True, slots=True)
class KindInfo:
    """One kind. `versions`: all that are served, `storage` the one that is kept. `labels`: those of its CRD."""

    model: type[Kind]
    plural: str
    versions: tuple[str, ...] = ("v1",)
    storage: str = "v1"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    columns: tuple[Column, ...] = ()
    has_status: bool = True

    @property
    def group(self) -> str:
        """API group; empty for v1."""
        return self.model.GROUP

    @property
    def kind(self) -> str:
        """Name of the kind."""
        return self.model.KIND

    @property
    def singular(self) -> str:
        """Name of one object on the command line."""
        return self.kind.lower()

    @property
    def qualified(self) -> str:
        """`plural.group`: the name of its CRD."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        """`group/version`, or the version alone."""
        return f"{self.group}/{version}" if self.group else version

    @property
    def stored_api_version(self) -> str:
        """The `apiVersion` of stored objects."""
        return self.api_version(self.storage)


_READY = '.status.conditions[?(@.type=="Ready")]'
READY = Column("Ready", f"{_READY}.status")
REASON = Column("Reason", f"{_READY}.reason")
AGE = Column("Age", ".metadata.creationTimestamp", "date")
URL = Column("URL", ".status.address.url")
_INSTALL = ("knative.dev/crd-install", "true")
_ADDRESSABLE = ("duck.knative.dev/addressable", "true")
_SUBSCRIBABLE = ("messaging.knative.dev/subscribable", "true")
_EVENTING = ("all", "knative", "eventing")
_MESSAGING = ("all", "knative", "messaging")

BROKER = KindInfo(
    Broker,
    "brokers",
    categories=_EVENTING,
    labels=(_INSTALL, _ADDRESSABLE),
    columns=(URL, AGE, READY, REASON, Column("Class", r".metadata.annotations.eventing\.knative\.dev/broker\.class")),
)
TRIGGER = KindInfo(
    Trigger,
    "triggers",
    categories=_EVENTING,
    labels=(_INSTALL,),
    columns=(Column("Broker", ".spec.broker"), Column("Subscriber_URI", ".status.subscriberUri"), AGE, READY, REASON),
)
KAFKA_CHANNEL = KindInfo(
    KafkaChannel,
    "kafkachannels",
    versions=("v1beta1", "v1"),
    storage="v1beta1",
    short_names=("kc",),
    categories=(*_MESSAGING, "channel"),
    labels=(_INSTALL, _SUBSCRIBABLE, _ADDRESSABLE),
    columns=(READY, REASON, URL, AGE),
)
CHANNEL = KindInfo(
    Channel,
    "channels",
    short_names=("ch",),
    categories=(*_MESSAGING, "channel"),
    labels=(_INSTALL, _SUBSCRIBABLE, _ADDRESSABLE),
    columns=(URL, AGE, READY, REASON),
)
SUBSCRIPTION = KindInfo(
    Subscription,
    "subscriptions",
    short_names=("sub",),
    categories=_MESSAGING,
    labels=(_INSTALL,),
    columns=(AGE, READY, REASON),
)
EVENT_POLICY = KindInfo(
    EventPolicy,
    "eventpolicies",
    versions=("v1alpha1",),
    storage="v1alpha1",
    categories=_EVENTING,
    labels=(_INSTALL,),
    columns=(READY, REASON),
)
CONFIG_MAP = KindInfo(ConfigMap, "configmaps", short_names=("cm",), columns=(AGE,), has_status=False)
SECRET = KindInfo(Secret, "secrets", columns=(Column("Type", ".type"), AGE), has_status=False)

KINDS: tuple[KindInfo, ...] = (BROKER, TRIGGER, KAFKA_CHANNEL, CHANNEL, SUBSCRIPTION, EVENT_POLICY, CONFIG_MAP, SECRET)


def split_api_version(api_version: str) -> tuple[str, str]:
    """Group and version: `eventing.knative.dev/v1` -> (`eventing.knative.dev`, `v1`); `v1` -> (empty, `v1`)."""
    group, slash, version = api_version.partition("/")
    return (group, version) if slash else ("", group)


def by_kind(group: str, kind: str) -> KindInfo | None:
    """The kind of this group and name."""
    return next((info for info in KINDS if info.group == group and info.kind == kind), None)


def by_plural(group: str, version: str, plural: str) -> KindInfo | None:
    """The kind under a REST path."""
    return next(
        (info for info in KINDS if info.group == group and version in info.versions and info.plural == plural),
        None,
    )


def by_word(word: str) -> list[KindInfo]:
    """The kinds that a word of the command line means: a name, plural, short name (all with or without group) or category."""
    name, _, group = word.lower().partition(".")
    named = [
        info for info in KINDS if name in (info.singular, info.plural, *info.short_names) and (not group or info.group == group)
    ]
    return named or [info for info in KINDS if word.lower() in info.categories]


def words() -> list[str]:
    """Every word that `by_word` takes, without groups: for help texts and completion."""
    return sorted({word for info in KINDS for word in (info.singular, info.plural, *info.short_names)})


def kind_of(raw: Json) -> KindInfo:
    """The kind of an object. Raises `Invalid` if apiVersion or kind is missing or not served; the text names what is."""
    if not isinstance(raw, dict):
        raise Invalid([FieldError("expected an object with apiVersion and kind", ())])
    given = {name: raw.get(name) for name in ("apiVersion", "kind")}
    absent = [name for name, value in given.items() if not isinstance(value, str) or not value]
    if absent:
        raise Invalid([missing(*absent)])
    group, version = split_api_version(str(given["apiVersion"]))
    info = by_kind(group, str(given["kind"]))
    if info is None or version not in info.versions:
        raise Invalid(
            [FieldError(f'no matches for kind "{given["kind"]}" in version "{given["apiVersion"]}"', (), _served(raw))]
        )
    return info


def _served(raw: Json) -> str:
    kind = str(raw["kind"])
    same = [info for info in KINDS if info.kind.lower() == kind.lower()]
    if same:
        return f"this kind is served as {' or '.join(_manifest_names(same))}"
    close = difflib.get_close_matches(kind, [info.kind for info in KINDS], n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"the kinds served are {', '.join(sorted(info.kind for info in KINDS))}"


def _manifest_names(infos: Iterable[KindInfo]) -> Iterator[str]:
    for info in infos:
        for version in info.versions:
            yield f"{info.kind} in {info.api_version(version)}"
