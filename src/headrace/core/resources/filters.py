"""Filters of Triggers and EventPolicies (CloudEvents Subscriptions API, Knative's `filters`): shape and admission rules.

What a filter means is the business of `headrace.core.filters`, which also parses CESQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.core.resources.base import Model
from headrace.core.resources.invalid import FieldError, at, invalid_key

Path = tuple[str | int, ...]
ATTRIBUTE_RULE = "Attribute name must start with a letter and can only contain lowercase alphanumeric"
ONE_DIALECT = "multiple dialects found, filters can have only one dialect set"
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9]*", re.ASCII)
_DEEPEST = 32


class TriggerFilter(Model):
    """The older form: attributes that must be present and equal."""

    attributes: dict[str, str] | None = None
    """Attribute -> value. An empty value: the attribute has to be present."""

    def check(self, path: Path) -> Iterator[FieldError]:
        """Attribute names are lower-case letters and digits, a letter first."""
        yield from _check_names(self.attributes, (*path, "attributes"))


class SubscriptionsAPIFilter(Model):
    """One filter, in one dialect."""

    exact: dict[str, str] | None = None
    """Each of these attributes equals the value."""
    prefix: dict[str, str] | None = None
    """Each of these attributes starts with the value."""
    suffix: dict[str, str] | None = None
    """Each of these attributes ends with the value."""
    all: list[SubscriptionsAPIFilter] | None = None
    """Every one of these filters passes."""
    any: list[SubscriptionsAPIFilter] | None = None
    """At least one of these filters passes."""
    not_: SubscriptionsAPIFilter | None = None
    """This filter does not pass."""
    cesql: str | None = None
    """A CloudEvents SQL expression that is true."""

    def check(self, path: Path, depth: int = 0) -> Iterator[FieldError]:
        """One dialect per filter, names as in `TriggerFilter`, at most 32 levels. What it means: see `syntax`."""
        if depth == _DEEPEST:
            yield FieldError(f"filters are nested more than {_DEEPEST} levels deep", (at(*path),))
            return
        if len(self.model_fields_set) > 1:
            yield FieldError(ONE_DIALECT, (at(*path),))
        for name, attributes in (("exact", self.exact), ("prefix", self.prefix), ("suffix", self.suffix)):
            yield from _check_names(attributes, (*path, name))
        for name, nested in (("all", self.all), ("any", self.any)):
            for index, item in enumerate(nested or ()):
                yield from item.check((*path, name, index), depth + 1)
        if self.not_ is not None:
            yield from self.not_.check((*path, "not"), depth + 1)


def _check_names(attributes: Mapping[str, str] | None, path: Path) -> Iterator[FieldError]:
    for name in attributes or {}:
        if not _ATTRIBUTE.fullmatch(name):
            yield invalid_key(name, f"{at(*path)}[{name}]", ATTRIBUTE_RULE)
