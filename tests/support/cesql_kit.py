"""Runs the files of the public CESQL compatibility kit: `python -m tests.support.cesql_kit DIR`.

A case says what an expression gives on an event: `result`, `error` (its kind; none where absent), or both. It brings an `event`,
`eventOverrides` of any valid event, or neither.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.core import cesql
from headrace.core.events.jsonformat import typed_attributes

ANY_EVENT = {"specversion": "1.0", "id": "1", "source": "/kit", "type": "kit.case"}


@dataclass(frozen=True)
class Outcome:
    """One case: `problem` is empty where it passed."""

    file: str
    name: str
    problem: str


class _Loader(yaml.SafeLoader):
    """YAML in which a time is a string, as it is in JSON."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def run(folder: Path) -> Iterator[Outcome]:
    """The outcome of each case of each file in `folder`, in order."""
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        suite = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
        for case in suite["tests"]:
            yield Outcome(path.name, str(case["name"]), _problem(case))


def _problem(case: dict[str, Any]) -> str:
    # Some cases of the kit misspell the name of this field.
    expression = str(case["expression"] if "expression" in case else case["expresion"])
    event = {**(case.get("event") or ANY_EVENT), **(case.get("eventOverrides") or {})}
    result, error = cesql.evaluate(expression, typed_attributes(event))
    kind = error.kind.value if error else None
    if kind != case.get("error"):
        return f"{expression}: the error is {kind}, not {case.get('error')}"
    if "result" in case and (type(result), result) != (type(case["result"]), case["result"]):
        return f"{expression}: the result is {result!r}, not {case['result']!r}"
    return ""


def main(folder: str) -> int:
    """Print every case that fails and a line of figures; 0 if all passed and there was at least one."""
    outcomes = list(run(Path(folder)))
    failed = [outcome for outcome in outcomes if outcome.problem]
    for outcome in failed:
        print(f"FAILED {outcome.file}: {outcome.name}: {outcome.problem}")
    files = len({outcome.file for outcome in outcomes})
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} cases passed, from {files} files")
    return 0 if outcomes and not failed else 1


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: scripts/cesql-tck DIR (the folder cesql/cesql_tck of the CloudEvents specification)")
    sys.exit(main(sys.argv[1]))
