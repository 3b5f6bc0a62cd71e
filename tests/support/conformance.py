"""A pytest plugin: the table of `docs/conformance.md` from the `spec(...)` markers of the tests that ran.

`pytest --conformance FILE` writes it. A marker with an unknown id is an error of the collection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rules import NOTES, RULES

HEAD = """# Conformance

Each rule of the Knative Eventing specification, with the tests that show it and their result in the last full run. Made by
`scripts/conformance`; the rules' texts are in `tests/support/rules.py`.

| id | level | rule | result | tests |
|---|---|---|---|---|
"""


class Conformance:
    """Collects the outcome of every marked test."""

    def __init__(self, target: Path | None) -> None:
        self._target = target
        self._ids: dict[str, list[str]] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            ids = [rule for marker in item.iter_markers("spec") for rule in marker.args]
            unknown = [rule for rule in ids if rule not in RULES]
            if unknown:
                raise pytest.UsageError(f"{item.nodeid}: no rule {', '.join(unknown)} in tests/support/rules.py")
            if ids:
                self._ids[item.nodeid] = ids

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid in self._ids and (report.when == "call" or not report.passed):
            worst = self._outcomes.get(report.nodeid)
            self._outcomes[report.nodeid] = report.outcome if worst in (None, "passed") else worst

    def pytest_sessionfinish(self) -> None:
        if self._target is not None:
            self._target.write_text(HEAD + "\n".join(self._rows()) + "\n", encoding="utf-8")

    def _rows(self) -> Iterator[str]:
        tests: dict[str, list[str]] = defaultdict(list)
        for node, outcome in self._outcomes.items():
            for rule in self._ids[node]:
                tests[rule].append(f"{outcome} {node}")
        for rule, (level, text) in RULES.items():
            shown = tests[rule]
            note = f" {NOTES[rule]}" if rule in NOTES else ""
            yield f"| {rule} | {level} | {text}.{note} | {_result(shown)} | {_places(shown)} |"


def _result(shown: list[str]) -> str:
    outcomes = {line.partition(" ")[0] for line in shown}
    if "failed" in outcomes:
        return "**failed**"
    return "passed" if "passed" in outcomes else "not run"


def _places(shown: list[str]) -> str:
    nodes = sorted({line.partition(" ")[2].partition("[")[0] for line in shown})
    names = [node.rpartition("::")[2] + " (" + node.partition("::")[0].removeprefix("tests/") + ")" for node in nodes]
    return "<br>".join(names[:4]) + (f"<br>and {len(names) - 4} more" if len(names) > 4 else "")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance", metavar="FILE", help="write the conformance table to FILE")


def pytest_configure(config: pytest.Config) -> None:
    target = config.getoption("--conformance")
    config.pluginmanager.register(Conformance(Path(target) if target else None), "headrace-conformance")
