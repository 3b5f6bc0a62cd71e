"""EventPolicies: who may send to which ingress, as the contract has it (reference A2, A10; KE's authorization).

Nothing of this counts while the feature authentication-oidc is off: then no ingress has an audience.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.control.conditions import TRUE, Conditions, Verdict, condition_in, false, true
from headrace.control.model import ObjectKey
from headrace.control.world import World, key_of
from headrace.core.filters import to_contract
from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.channel import Channel
from headrace.core.resources.eventpolicy import EventPolicy, LabelRequirement, PolicySelector, PolicyTo
from headrace.core.resources.kinds import Kind
from headrace.core.resources.registry import split_api_version
from headrace.core.resources.syntax import compiled_filters

Json = dict[str, Any]
DEPENDENTS = (ConditionType.AUTHENTICATION_ENABLED, ConditionType.SUBJECTS_RESOLVED)


@dataclass(frozen=True, slots=True)
class IngressPolicies:
    """What applies to one ingress: the contract's policies, the status entries, the condition."""

    contract: tuple[Json, ...] = ()
    applied: list[Json] = field(default_factory=list)
    verdict: Verdict = TRUE


@dataclass(frozen=True, slots=True)
class _Name:
    key: ObjectKey
    labels: Mapping[str, str]


def reconcile_policy(world: World, policy: EventPolicy) -> None:
    """Status of one EventPolicy: the subjects that it lets in."""
    key = key_of(policy)
    conditions = Conditions(world.observed_status(key), policy.metadata.generation, world.now)
    if world.settings.features.authentication_oidc:
        conditions.set(ConditionType.AUTHENTICATION_ENABLED, TRUE)
    else:
        text = "the feature authentication-oidc is switched off: nobody checks who sends"
        conditions.set(ConditionType.AUTHENTICATION_ENABLED, false(Reason.OIDC_DISABLED, text))
    subjects, unresolved = _subjects(world, policy)
    if unresolved:
        text = f"no identity (status.auth.serviceAccountName) at {', '.join(unresolved)}"
        conditions.set(ConditionType.SUBJECTS_RESOLVED, false(Reason.SUBJECTS_NOT_RESOLVED, text))
    else:
        conditions.set(ConditionType.SUBJECTS_RESOLVED, TRUE)
    status: Json = {"observedGeneration": policy.metadata.generation, "conditions": conditions.build(DEPENDENTS)}
    if subjects and not unresolved:
        status["from"] = subjects
    world.set_status(key, status)


def policies_for(world: World, target: Kind, policies: Iterable[EventPolicy]) -> IngressPolicies:
    """The policies of an ingress. One that is not Ready is left out: it lets nobody in."""
    features = world.settings.features
    if not features.authentication_oidc:
        return IngressPolicies(verdict=true(Reason.OIDC_DISABLED, "the feature authentication-oidc is switched off"))
    names = _names(world, target)
    mine = [policy for policy in policies if policy.metadata.namespace == target.metadata.namespace and _applies(policy, names)]
    if not mine:
        mode = features.default_authorization_mode
        text = f"no EventPolicy applies: {mode}"
        return IngressPolicies(_default(mode, target), [], true(Reason.DEFAULT_AUTHORIZATION_MODE, text))
    ready = [policy for policy in mine if _is_ready(world.status(key_of(policy)))]
    waiting = [policy.metadata.name for policy in mine if policy not in ready]
    return IngressPolicies(
        contract=tuple(_contract(policy, world.status(key_of(policy)).get("from") or ()) for policy in ready),
        applied=[{"name": policy.metadata.name, "apiVersion": policy.api_version} for policy in ready],
        verdict=false(Reason.EVENT_POLICIES_NOT_READY, f"event policies not ready: {', '.join(waiting)}") if waiting else TRUE,
    )


def _subjects(world: World, policy: EventPolicy) -> tuple[list[str], list[str]]:
    subjects: list[str] = []
    unresolved: list[str] = []
    for source in policy.spec.from_ or ():
        if source.sub:
            subjects.append(source.sub)
        if source.ref is not None:
            group, _ = split_api_version(source.ref.api_version)
            namespace = source.ref.namespace or policy.metadata.namespace or ""
            key = ObjectKey(group, source.ref.kind, namespace, source.ref.name)
            auth = ((world.look(key) or {}).get("status") or {}).get("auth") or {}
            names = [name for name in (auth.get("serviceAccountName"), *(auth.get("serviceAccountNames") or ())) if name]
            if not names:
                unresolved.append(str(key))
            subjects += [f"system:serviceaccount:{namespace}:{name}" for name in dict.fromkeys(names)]
    return subjects, unresolved


def _names(world: World, target: Kind) -> list[_Name]:
    """What policies may call an ingress: a KafkaChannel also by the Channel that it backs."""
    names = [_Name(key_of(target), target.metadata.labels or {})]
    for owner in target.metadata.owner_references or ():
        if owner.kind == Channel.KIND:
            key = ObjectKey(Channel.GROUP, Channel.KIND, target.metadata.namespace or "", owner.name)
            names.append(_Name(key, ((world.look(key) or {}).get("metadata") or {}).get("labels") or {}))
    return names


def _applies(policy: EventPolicy, names: Iterable[_Name]) -> bool:
    return not policy.spec.to or any(_means(to, name) for to in policy.spec.to for name in names)


def _means(to: PolicyTo, name: _Name) -> bool:
    named = to.ref or to.selector
    if named is None or (split_api_version(named.api_version)[0], named.kind) != (name.key.group, name.key.kind):
        return False
    if to.ref is not None:
        return to.ref.name == name.key.name
    return to.selector is not None and _selects(to.selector, name.labels)


def _selects(selector: PolicySelector, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in (selector.match_labels or {}).items()) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions or ()
    )


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in (requirement.values or ())
        case "NotIn":
            return value is None or value not in (requirement.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None


def _is_ready(status: Json) -> bool:
    return condition_in(status, "Ready").get("status") == "True"


def _contract(policy: EventPolicy, subjects: Iterable[str]) -> Json:
    matchers = [_matcher(subject) for subject in subjects]
    filters = [to_contract(item) for item in compiled_filters(policy)]
    return {name: value for name, value in (("tokenMatchers", matchers), ("filters", filters)) if value}


def _matcher(subject: str) -> Json:
    if subject.endswith("*"):
        return {"prefix": {"attributes": {"sub": subject[:-1]}}}
    return {"exact": {"attributes": {"sub": subject}}}


def _default(mode: str, target: Kind) -> tuple[Json, ...]:
    if mode == "allow-all":
        return ({"tokenMatchers": [_matcher("*")]},)
    if mode == "deny-all":
        return ()
    return ({"tokenMatchers": [_matcher(f"system:serviceaccount:{target.metadata.namespace}:*")]},)
