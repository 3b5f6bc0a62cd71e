"""What matching costs: CPU time per event, by dialect and number of Triggers, and per CESQL expression.

    .venv/bin/python -m bench.filters [--quick] [--json FILE]

Every Trigger has a filter of its own. `matches` is how many of them take the event; `one by one` is the cost of asking each filter by
itself, which the index replaces. The lowest of several runs counts: the others were disturbed.
"""

from __future__ import annotations

import argparse
import json
import time
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.cli.output import print_table
from headrace.core import cesql
from headrace.core.events import http, kafka
from headrace.core.filters import FilterIndex, compile_filters, parse_trigger_filters

EVENT = {
    "specversion": "1.0",
    "id": "6e8bc430-9c3a-11d9-9669-0800200c9a66",
    "source": "/shops/7",
    "type": "com.example.order.t7",
    "time": "2026-01-01T00:00:00Z",
    "subject": "order-77",
    "datacontenttype": "application/json",
    "ttl": "10",
}
DIALECTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "exact": lambda n: {"exact": {"type": f"com.example.order.t{n}"}},
    "exact, two attributes": lambda n: {"exact": {"type": "com.example.order.t7", "source": f"/shops/{n}"}},
    "prefix": lambda n: {"prefix": {"source": f"/shops/{n}"}},
    "suffix": lambda n: {"suffix": {"type": f".t{n}"}},
    "all of exact and prefix": lambda n: {
        "all": [{"exact": {"type": f"com.example.order.t{n}"}}, {"prefix": {"source": "/shops"}}]
    },
    "any of exact and suffix": lambda n: {
        "any": [{"exact": {"type": f"com.example.order.t{n}"}}, {"suffix": {"subject": f"-x{n}"}}]
    },
    "not exact": lambda n: {"not": {"exact": {"type": f"com.example.order.t{n}"}}},
    "not of a shared filter": lambda n: {
        "all": [{"not": {"prefix": {"source": "/none"}}}, {"exact": {"source": f"/shops/{n}"}}]
    },
    "cesql with a required type": lambda n: {"cesql": f"type = 'com.example.order.t{n}' AND INT(ttl) > 5"},
    "cesql with a shared part": lambda n: {"cesql": f"INT(ttl) > 5 AND type LIKE '%.t{n}'"},
    "cesql, nothing to look up": lambda n: {"cesql": f"CONCAT(subject, '-{n}') = 'order-77-7'"},
}
EXPRESSIONS = (
    "type = 'com.example.order.t7'",
    "type IN ('a', 'b', 'com.example.order.t7')",
    "type LIKE 'com.example.%'",
    "type = 'com.example.order.t7' AND source LIKE '/shops/%'",
    "INT(ttl) > 5 OR EXISTS missing",
    "missing = 'x'",
)


@dataclass(frozen=True)
class Line:
    """Microseconds of CPU time per event."""

    dialect: str
    triggers: int
    matches: int
    index: float
    one_by_one: float


def cost(call: Callable[[], object], quick: bool) -> float:
    """Microseconds of CPU time of one call."""
    timer = timeit.Timer(call, timer=time.process_time)
    once = max(timer.timeit(3) / 3, 1e-7)
    number = max(3, int((0.02 if quick else 0.1) / once))
    return min(timer.repeat(3 if quick else 7, number)) / number * 1e6


def matching(quick: bool) -> list[Line]:
    """Each dialect with 1, 10, 100 and 1,000 Triggers."""
    lines = []
    for dialect, make in DIALECTS.items():
        for triggers in (1, 10, 100, 1000):
            filters = [parse_trigger_filters([make(n)]) for n in range(7, 7 + triggers)]
            index: FilterIndex[int] = FilterIndex()
            for number, one in enumerate(filters):
                index.add_filters(number, one)
            predicates = [compile_filters(one) for one in filters]
            matches = len(index.match(EVENT))
            by_index = cost(lambda index=index: index.match(EVENT), quick)  # type: ignore[misc]
            each = cost(lambda predicates=predicates: [accepts(EVENT) for accepts in predicates], quick)  # type: ignore[misc]
            lines.append(Line(dialect, triggers, matches, round(by_index, 2), round(each, 2)))
    return lines


def single(quick: bool) -> dict[str, float]:
    """One CESQL expression each, and the codecs of the hot path."""
    out = {}
    for expression in EXPRESSIONS:
        evaluate = cesql.compile(expression)
        out[f"CESQL {expression}"] = cost(lambda evaluate=evaluate: evaluate(EVENT), quick)  # type: ignore[misc]
    headers = [(f"ce-{name}", value) for name, value in EVENT.items() if name != "datacontenttype"]
    headers += [("content-type", "application/json"), ("host", "localhost"), ("content-length", "1024")]
    body = json.dumps({"text": "a" * 1010}).encode()
    (event,) = http.decode_request(headers, body)
    record, value = kafka.encode_record(event)
    structured = http.encode_structured(event)[1]
    content_type = [("content-type", "application/cloudevents+json")]
    out["HTTP request to event, binary mode"] = cost(lambda: http.decode_request(headers, body), quick)
    out["HTTP request to event, structured mode, 1 KiB"] = cost(lambda: http.decode_request(content_type, structured), quick)
    out["event to Kafka record"] = cost(lambda: kafka.encode_record(event), quick)
    out["Kafka record to HTTP header lines"] = cost(lambda: kafka.record_to_http(record, value), quick)
    return {name: round(microseconds, 2) for name, microseconds in out.items()}


def main() -> None:
    """Print both tables; with --json write them too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less exact, within some seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    lines, others = matching(options.quick), single(options.quick)
    rows = [(line.dialect, line.triggers, line.matches, line.index, line.one_by_one) for line in lines]
    print_table(["dialect", "triggers", "matches", "index us", "one by one us"], rows)
    print()
    print_table(["what", "us"], list(others.items()))
    if options.json:
        options.json.write_text(json.dumps({"matching": [asdict(line) for line in lines], "single": others}, indent=2) + "\n")


if __name__ == "__main__":
    main()
