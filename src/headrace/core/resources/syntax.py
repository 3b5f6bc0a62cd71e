"""The part of admission that needs the filter compiler: every filter means something, every CESQL expression parses."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.filters import Filter, InvalidFilter, parse_trigger_filters
from headrace.core.resources.eventpolicy import EventPolicy
from headrace.core.resources.invalid import FieldError
from headrace.core.resources.kinds import Kind
from headrace.core.resources.trigger import Trigger


def check_syntax(model: Kind) -> Iterator[FieldError]:
    """The first filter that can't be compiled, if its shape is sound otherwise."""
    if not isinstance(model, Trigger | EventPolicy):
        return
    for index, item in enumerate(model.spec.filters or ()):
        if any(item.check(("spec", "filters", index))):
            return
    try:
        compiled_filters(model)
    except InvalidFilter as error:
        yield FieldError(f"invalid value: {error.message}", (error.subject,), error.hint)


def compiled_filters(model: Trigger | EventPolicy) -> tuple[Filter, ...]:
    """The filters of a Trigger (`filters` where it holds something, else `filter`) or EventPolicy. Raises `InvalidFilter`.

    An empty CESQL expression counts as no filter, as Knative's admission has it.
    """
    given = [raw for item in model.spec.filters or () if (raw := item.to_json()) != {"cesql": ""}]
    older = model.spec.filter if isinstance(model, Trigger) and not model.spec.filters else None
    return parse_trigger_filters(given, None if older is None else older.to_json())
