"""Filters of Triggers and Subscriptions: the dialects of the CloudEvents Subscriptions API and the older attribute filter.

`parse` reads both written forms (the contract's and a Trigger's) into the small tree of `model`; `predicate` compiles a tree to
a function, `index` answers for all filters of a topic at once, `explain` says which filter decided.
"""

from headrace.core.filters.explain import Explanation, explain, explain_egress
from headrace.core.filters.index import FilterIndex
from headrace.core.filters.model import Filter, InvalidFilter
from headrace.core.filters.parse import filters_of_egress, parse_trigger_filters, to_contract
from headrace.core.filters.predicate import Predicate, compile_egress, compile_filters

__all__ = [
    "Explanation",
    "Filter",
    "FilterIndex",
    "InvalidFilter",
    "Predicate",
    "compile_egress",
    "compile_filters",
    "explain",
    "explain_egress",
    "filters_of_egress",
    "parse_trigger_filters",
    "to_contract",
]
