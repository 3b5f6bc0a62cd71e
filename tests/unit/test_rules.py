"""Every rule of the specification has a test."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.rules import NOTES, RULES

ROOT = Path(__file__).parents[1]


def marked_rules() -> set[str]:
    found: set[str] = set()
    for file in ROOT.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec":
                found.update(str(arg.value) for arg in node.args if isinstance(arg, ast.Constant))
    return found


def test_every_rule_has_a_test() -> None:
    assert set(RULES) - marked_rules() == set()


def test_every_marker_and_every_note_names_a_rule() -> None:
    assert marked_rules() - set(RULES) == set()
    assert set(NOTES) - set(RULES) == set()
