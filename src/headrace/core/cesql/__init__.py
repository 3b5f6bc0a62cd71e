"""CESQL 1.0: the CloudEvents SQL expression language, parsed once and compiled to closures.

    evaluate = compile("type = 'order.made' AND EXISTS subject")
    result, error = evaluate({"type": "order.made", ...})

Evaluation is total: there is always a result, a String, an Integer or a Boolean; after an error it is the zero value of the
expression's type where the specification says no other, and the error says what went wrong first.
"""

from headrace.core.cesql.casts import Value, text
from headrace.core.cesql.check import check
from headrace.core.cesql.compiler import Evaluate, compile, compile_tree, evaluate
from headrace.core.cesql.conjuncts import conjuncts, is_true
from headrace.core.cesql.errors import CesqlError, Kind, ParseError
from headrace.core.cesql.parser import parse

__all__ = [
    "CesqlError",
    "Evaluate",
    "Kind",
    "ParseError",
    "Value",
    "check",
    "compile",
    "compile_tree",
    "conjuncts",
    "evaluate",
    "is_true",
    "parse",
    "text",
]
