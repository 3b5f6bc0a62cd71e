"""EventPolicies as an ingress of the contract carries them: who may send (`tokenMatchers`), and which events (`filters`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import Terminal
from headrace.core.contract import Egress
from headrace.core.filters import InvalidFilter, Predicate, compile_egress
from headrace.receiver.guard import Claims

Test = Callable[[Claims], bool]


@dataclass(frozen=True, slots=True)
class Policy:
    """Lets in a sender whom any of the matchers knows, with events that all filters accept. Without matchers: nobody."""

    matchers: Sequence[Test]
    accepts: Predicate

    def knows(self, claims: Claims) -> bool:
        """Whether the sender with these claims is meant."""
        return any(test(claims) for test in self.matchers)


def parse_policies(policies: Iterable[Mapping[str, Any]]) -> list[Policy]:
    """The policies of an ingress. Raises `Terminal` for what is not understood: a half-read policy would let in too many."""
    return [_policy(raw, f"ingress.eventPolicies[{number}]") for number, raw in enumerate(policies)]


def _policy(raw: object, path: str) -> Policy:
    known = _known(raw, path, {"tokenMatchers", "filters"})
    matchers = _list(known.get("tokenMatchers"), f"{path}.tokenMatchers")
    filters = _list(known.get("filters"), f"{path}.filters")
    try:
        accepts = compile_egress(Egress(dialected_filter=tuple(filters)))
    except InvalidFilter as error:
        raise Terminal(error.message, subject=f"{path}.filters: {error.subject}", hint=error.hint) from None
    return Policy([_matcher(one, f"{path}.tokenMatchers[{number}]") for number, one in enumerate(matchers)], accepts)


def _matcher(raw: object, path: str) -> Test:
    """`{"exact": {"attributes": {claim: value}}}`, or `prefix`: all claims named must fit."""
    known = _known(raw, path, {"exact", "prefix"})
    if len(known) != 1:
        raise Terminal("expected one of exact, prefix", subject=path)
    kind, body = next(iter(known.items()))
    attributes = _known(_known(body, f"{path}.{kind}", {"attributes"}).get("attributes"), f"{path}.{kind}.attributes", None)
    if not attributes or not all(isinstance(value, str) for value in attributes.values()):
        raise Terminal("expected claims and their values", subject=f"{path}.{kind}.attributes")
    fits = str.__eq__ if kind == "exact" else str.startswith
    return lambda claims: all(any(fits(found, value) for found in _values(claims, name)) for name, value in attributes.items())


def _values(claims: Claims, name: str) -> list[str]:
    """The values of a claim as texts: of a list each, of `a.b` the member `b` of the object `a`."""
    value: object = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return [_text(one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, str | int | float)]


def _text(value: str | float) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _known(raw: object, path: str, names: set[str] | None) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise Terminal("expected an object", subject=path)
    if names is not None and not names.issuperset(raw):
        raise Terminal(f"not understood: {', '.join(sorted(set(raw) - names))}", subject=path)
    return raw


def _list(raw: object, path: str) -> list[Any]:
    if raw is None:
        return []
    if not isinstance(raw, list | tuple):
        raise Terminal("expected a list", subject=path)
    return list(raw)
