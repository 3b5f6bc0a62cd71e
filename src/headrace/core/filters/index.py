"""All filters of a topic at once: what an event costs follows the number of matches, not the number of lanes.

A tree of steps. A node looks up the value of an attribute in a table of exact values, its beginnings and ends in tables by
length, and asks each of its functions; behind each answer is the next node. The lanes at a node have all that they ask for.

        root --type--> {"a": node, "b": node}        node --source--> {"/x": node}
         |  --first 4 of type--> {"com.": node}
         |  --functions--> not(...): node, cesql: node

Lanes that ask for the same things share nodes, and so their cost. Alternatives (`any`) that can be looked up become several paths
to the same lane. A function that several nodes share is evaluated once per event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from headrace.core.contract import Egress
from headrace.core.filters.model import Exact, Filter, Prefix
from headrace.core.filters.parse import filters_of_egress
from headrace.core.filters.paths import Condition, Path, compile_condition, lookup, paths_of
from headrace.core.filters.predicate import Predicate

Lane = TypeVar("Lane", bound=Hashable)


class FilterIndex(Generic[Lane]):
    """The lanes whose filters accept an event. Not thread-safe."""

    def __init__(self, lanes: Iterable[tuple[Lane, Egress]] = ()) -> None:
        self._root: _Node[Lane] = _Node()
        self._paths: dict[Lane, tuple[Path, ...]] = {}
        self._shared: WeakValueDictionary[Condition, _Question] = WeakValueDictionary()
        for lane, egress in lanes:
            self.add(lane, egress)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, lane: object) -> bool:
        return lane in self._paths

    def add(self, lane: Lane, egress: Egress) -> None:
        """Take in a lane, or give it another filter. Raises `InvalidFilter` and then leaves all as it was."""
        self.add_filters(lane, filters_of_egress(egress))

    def add_filters(self, lane: Lane, filters: Iterable[Filter]) -> None:
        """`add`, from filters that are read already."""
        paths = paths_of(filters)
        self.remove(lane)
        self._paths[lane] = paths
        for path in paths:
            node = self._root
            for condition in path:
                node = node.child(condition) or node.grow(condition, self._question)
            (node.lanes if len(paths) == 1 else node.repeated)[lane] = None

    def remove(self, lane: Lane) -> None:
        """Forget a lane; one that is not there is no error."""
        for path in self._paths.pop(lane, ()):
            nodes = [self._root]
            for condition in path:
                child = nodes[-1].child(condition)
                assert child is not None, "a lane's path is in the tree"
                nodes.append(child)
            nodes[-1].lanes.pop(lane, None)
            nodes[-1].repeated.pop(lane, None)
            for node, condition, child in reversed(list(zip(nodes, path, nodes[1:], strict=False))):
                if child.is_empty:
                    node.cut(condition)

    def match(self, attributes: Mapping[str, str]) -> list[Lane]:
        """The lanes that take the event, each once, in no order that means anything."""
        found: list[Lane] = []
        repeated: dict[Lane, None] = {}
        answers: dict[_Question, bool] = {}
        nodes = [self._root]
        for node in nodes:
            if node.lanes:
                found += node.lanes
            if node.repeated:
                repeated.update(node.repeated)
            if node.exact:
                for name, values in node.exact.items():
                    child = values.get(attributes.get(name, ""))
                    if child is not None:
                        nodes.append(child)
            if node.affixes:
                for (name, length), values in node.affixes.items():
                    value = attributes.get(name, "")
                    child = values.get(value[:length] if length > 0 else value[length:])
                    if child is not None:
                        nodes.append(child)
            if node.conditions:
                for question, child in node.conditions.values():
                    if question.nodes == 1:
                        answer = question.accepts(attributes)
                    elif question in answers:
                        answer = answers[question]
                    else:
                        answer = answers[question] = question.accepts(attributes)
                    if answer:
                        nodes.append(child)
        if repeated:
            found += repeated
        return found

    def _question(self, condition: Condition) -> _Question:
        shared = self._shared.get(condition)
        if shared is None:
            shared = self._shared[condition] = _Question(compile_condition(condition))
        return shared


class _Question:
    """One function, shared by all `nodes` that ask it; it goes with the last of them."""

    __slots__ = ("__weakref__", "accepts", "nodes")

    def __init__(self, accepts: Predicate) -> None:
        self.accepts = accepts
        self.nodes = 0


class _Node(Generic[Lane]):
    """`affixes` has prefixes under (name, length) and suffixes under (name, -length). Values in the tables are never empty."""

    __slots__ = ("affixes", "conditions", "exact", "lanes", "repeated")

    def __init__(self) -> None:
        self.lanes: dict[Lane, None] = {}
        self.repeated: dict[Lane, None] = {}
        self.exact: dict[str, dict[str, _Node[Lane]]] = {}
        self.affixes: dict[tuple[str, int], dict[str, _Node[Lane]]] = {}
        self.conditions: dict[Condition, tuple[_Question, _Node[Lane]]] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.lanes or self.repeated or self.exact or self.affixes or self.conditions)

    def child(self, condition: Condition) -> _Node[Lane] | None:
        found = lookup(condition)
        if found is None:
            return self.conditions[condition][1] if condition in self.conditions else None
        name, value = found
        if isinstance(condition, Exact):
            return self.exact.get(name, {}).get(value)
        return self.affixes.get(_affix(condition, name, value), {}).get(value)

    def grow(self, condition: Condition, shared: Callable[[Condition], _Question]) -> _Node[Lane]:
        """A new node behind `condition`; `shared` makes or finds the function of one that has to be asked."""
        child: _Node[Lane] = _Node()
        found = lookup(condition)
        if found is None:
            question = shared(condition)
            question.nodes += 1
            self.conditions[condition] = (question, child)
            return child
        name, value = found
        if isinstance(condition, Exact):
            self.exact.setdefault(name, {})[value] = child
        else:
            self.affixes.setdefault(_affix(condition, name, value), {})[value] = child
        return child

    def cut(self, condition: Condition) -> None:
        """Drop the node behind `condition`, and the table if it was the last one there."""
        found = lookup(condition)
        if found is None:
            self.conditions.pop(condition)[0].nodes -= 1
            return
        name, value = found
        if isinstance(condition, Exact):
            del self.exact[name][value]
            if not self.exact[name]:
                del self.exact[name]
        else:
            key = _affix(condition, name, value)
            del self.affixes[key][value]
            if not self.affixes[key]:
                del self.affixes[key]


def _affix(condition: Condition, name: str, value: str) -> tuple[str, int]:
    return name, len(value) if isinstance(condition, Prefix) else -len(value)
