"""Which topics this dispatcher serves, and with which lanes: the contract, seen from the driver. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.base.errors import HeadraceError, Terminal
from headrace.core.contract import Egress, Reference, Resource
from headrace.dispatcher.config import Only, Secrets
from headrace.kafka.settings import Auth, KafkaSettings

ClosedReason = Callable[[Resource, Egress], str]
"""Why an egress can't be served, or empty."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One egress of a topic."""

    resource: Resource
    egress: Egress

    @property
    def uid(self) -> str:
        return self.egress.uid

    @property
    def initialised(self) -> bool:
        """Whether the control plane wrote initial positions."""
        return self.egress.headrace.get("initialised") is True


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to serve. `lanes` by uid are the open ones, `closed` those that are refused, with the reason. `problem`: why none can be."""

    topic: str
    settings: KafkaSettings | None
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def select(
    resources: Iterable[Resource], only: tuple[Only, ...], kafka: KafkaSettings, secrets: Secrets, closed_reason: ClosedReason
) -> dict[str, TopicPlan]:
    """The plan of each topic that has egresses and is selected by `only` (empty: all), by topic name.

    Two topics of one name in different Kafkas can't be told apart in run and report keys: the second is refused.
    """
    known = list(resources)
    wanted = selected_topics(known, only)
    places: dict[str, Resource] = {}
    plans: dict[str, TopicPlan] = {}
    for resource in known:
        for topic in resource.topics if resource.egresses else ():
            if wanted is not None and topic not in wanted:
                continue
            first = places.setdefault(topic, resource)
            plan = plans.get(topic) or _plan(topic, resource, kafka, secrets)
            plans[topic] = _with(plan, resource, first, closed_reason)
    return plans


def selected_topics(resources: Iterable[Resource], only: tuple[Only, ...]) -> set[str] | None:
    """The topics that `only` names; None when it is empty, which selects all."""
    if not only:
        return None
    return {topic for resource in resources if _named(resource, only) for topic in resource.topics}


def _named(resource: Resource, only: tuple[Only, ...]) -> bool:
    references = [resource.reference, *(egress.reference for egress in resource.egresses)]
    return any(_is(reference, one) for reference in references for one in only)


def _is(reference: Reference, one: Only) -> bool:
    return reference.kind == one.kind and one.namespace in ("*", reference.namespace) and one.name in ("*", reference.name)


def _plan(topic: str, resource: Resource, kafka: KafkaSettings, secrets: Secrets) -> TopicPlan:
    try:
        return TopicPlan(topic, settings_of(resource, kafka, secrets))
    except HeadraceError as error:
        return TopicPlan(topic, None, problem=str(error))


def _with(plan: TopicPlan, resource: Resource, first: Resource, closed_reason: ClosedReason) -> TopicPlan:
    lanes, closed = dict(plan.lanes), dict(plan.closed)
    elsewhere = _servers(resource.bootstrap_servers) != _servers(first.bootstrap_servers)
    for egress in resource.egresses:
        reason = plan.problem or closed_reason(resource, egress)
        if elsewhere:
            reason = f"a topic of this name is served at {first.bootstrap_servers} already"
        if reason:
            closed[egress.uid] = reason
        else:
            lanes[egress.uid] = Lane(resource, egress)
    return TopicPlan(plan.topic, plan.settings, lanes, closed, plan.problem)


def settings_of(resource: Resource, kafka: KafkaSettings, secrets: Secrets) -> KafkaSettings:
    """How to reach the Kafka of `resource`. Raises `Terminal` (or what `secrets` raises) when its identity can't be had."""
    if resource.multi_auth_secret:
        raise Terminal("multiAuthSecret is not supported", subject=f"resource {resource.uid}", hint="Use authSecret")
    here = _servers(resource.bootstrap_servers) in (frozenset(), _servers(kafka.bootstrap_servers))
    own = kafka.auth if here else Auth.none()
    auth = own if resource.auth_secret is None else secrets(resource.auth_secret)
    return KafkaSettings(kafka.bootstrap_servers if here else resource.bootstrap_servers, auth)


def _servers(text: str) -> frozenset[str]:
    return frozenset(server.strip() for server in text.split(",") if server.strip())
