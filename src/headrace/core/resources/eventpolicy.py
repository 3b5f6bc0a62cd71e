"""EventPolicy, eventing.knative.dev/v1alpha1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from headrace.core.resources.base import Json, Model, Status
from headrace.core.resources.filters import SubscriptionsAPIFilter
from headrace.core.resources.invalid import FieldError, at, invalid_value, missing, one_of
from headrace.core.resources.kinds import Kind, existing, namespace_of
from headrace.core.resources.rules import Rules


class PolicyReference(Model):
    """An object by kind and name."""

    api_version: str = ""
    """Its API version."""
    kind: str = ""
    """Its kind."""
    name: str = ""
    """Its name."""

    def check(self, path: tuple[str | int, ...]) -> Iterator[FieldError]:
        """All three are needed."""
        for name, value in (("kind", self.kind), ("apiVersion", self.api_version), ("name", self.name)):
            if not value:
                yield missing(at(*path, name))


class PolicyFromReference(PolicyReference):
    """An object by kind, name and namespace."""

    namespace: str | None = None
    """Its namespace; that of the policy if not given."""


class LabelRequirement(Model):
    """One condition on labels."""

    key: str
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How it is compared."""
    values: list[str] | None = None
    """With what, for `In` and `NotIn`."""


class PolicySelector(Model):
    """Objects of one kind by their labels."""

    api_version: str = ""
    """API version of the objects."""
    kind: str = ""
    """Kind of the objects."""
    match_labels: dict[str, str] | None = None
    """Labels that all have to be there with these values."""
    match_expressions: list[LabelRequirement] | None = None
    """Conditions that all have to hold."""


class PolicyTo(Model):
    """Whom a policy is about: an object or several."""

    ref: PolicyReference | None = None
    """One object."""
    selector: PolicySelector | None = None
    """All objects with these labels."""


class PolicyFrom(Model):
    """Who may send: an object, by its identity, or an identity."""

    ref: PolicyFromReference | None = None
    """An object that sends under an identity of its own."""
    sub: str | None = None
    """An OIDC subject; a `*` at its end stands for any rest."""


class EventPolicySpec(Model):
    """What is wanted of an EventPolicy."""

    to: list[PolicyTo] | None = None
    """What it is about; all of the namespace if empty."""
    from_: list[PolicyFrom] | None = None
    """Who may send."""
    filters: list[SubscriptionsAPIFilter] | None = None
    """Which events they may send: those that pass all of these."""


class EventPolicyStatus(Status):
    """The state of an EventPolicy."""

    from_: list[str] | None = None
    """The OIDC subjects that may send."""


class EventPolicy(Kind):
    """Says who may send which events to which Brokers and channels."""

    GROUP: ClassVar[str] = "eventing.knative.dev"
    KIND: ClassVar[str] = "EventPolicy"

    spec: EventPolicySpec = EventPolicySpec()
    """What is wanted."""
    status: EventPolicyStatus | None = None
    """What is."""

    @classmethod
    def default(cls, raw: Json, old: Json | None, rules: Rules) -> None:
        """The namespaces of `spec.from`."""
        sources = (existing(raw, "spec") or {}).get("from")
        for source in sources if isinstance(sources, list) else ():
            ref = existing(source, "ref") if isinstance(source, dict) else None
            if ref is not None and not ref.get("namespace"):
                ref["namespace"] = namespace_of(raw)

    def check(self, rules: Rules) -> Iterator[FieldError]:
        """Each source and target is one thing; `*` is at the end only; sound filters."""
        for index, source in enumerate(self.spec.from_ or ()):
            path = ("spec", "from", index)
            given = (source.ref is not None) + bool(source.sub)
            if given != 1:
                yield one_of(given, at(*path, "ref"), at(*path, "sub"))
            if source.ref is not None:
                yield from source.ref.check((*path, "ref"))
            if source.sub and "*" in source.sub[:-1]:
                yield invalid_value(source.sub, at(*path, "sub"), "'*' is only allowed as suffix")
        for index, target in enumerate(self.spec.to or ()):
            path = ("spec", "to", index)
            given = (target.ref is not None) + (target.selector is not None)
            if given != 1:
                yield one_of(given, at(*path, "ref"), at(*path, "selector"))
            if target.ref is not None:
                yield from target.ref.check((*path, "ref"))
        for index, item in enumerate(self.spec.filters or ()):
            yield from item.check(("spec", "filters", index))

    def check_create(self, rules: Rules) -> Iterator[FieldError]:
        """Nobody shall think that a policy protects anything while nothing is checked."""
        if not rules.features.authentication_oidc:
            yield FieldError("oidc-authentication feature not enabled", (), "switch the feature authentication-oidc on")

    def check_update(self, old: Self, rules: Rules) -> Iterator[FieldError]:
        """As at creation, when the spec changes."""
        if self.spec != old.spec:
            yield from self.check_create(rules)
