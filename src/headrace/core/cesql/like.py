"""Patterns of LIKE (CESQL 3.4.3)."""

from __future__ import annotations

import re
from collections.abc import Callable


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text fits: `%` is any run of characters, `_` is one; a backslash before either takes its meaning away.

    Runs are matched from left to right, each at its first place, so that no pattern takes more than quadratic time.
    """
    runs: list[list[str]] = [[]]
    for part in re.findall(r"\\[%_]|.", pattern, re.DOTALL):
        if part == "%":
            runs.append([])
        else:
            runs[-1].append("(?s:.)" if part == "_" else re.escape(part[-1]))
    pieces = ["".join(run) for run in runs]
    if len(pieces) == 1:
        whole = re.compile(pieces[0])
        return lambda text: whole.fullmatch(text) is not None
    first, *middle, last = pieces
    # (?>...) keeps the engine from trying a later place for a run whose first place was good enough.
    expression = re.compile(first + "".join(f"(?>(?s:.*?){piece})" for piece in middle if piece) + "(?s:.*)" + last)
    return lambda text: expression.fullmatch(text) is not None
