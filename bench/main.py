"""The benchmarks: what is measured is written beside each. One run starts one `headrace up` and tears it down."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.system import Sink, System, broker, build_tools, load, names, sink, system, triggers, wait_for
from headrace.base.errors import HeadraceError
from headrace.cli.output import console, error_console, print_table

DRAIN_SECONDS = 600
_CALM_MS = 50


@dataclass(frozen=True)
class Figure:
    """One measured line. `goal`: what it is held against."""

    benchmark: str
    what: str
    value: float
    unit: str
    goal: str = ""


@dataclass(frozen=True)
class Size:
    """How much is sent. `warm_seconds`: at the same rate before latencies count, in which Java compiles what it will use."""

    events: int
    latency_seconds: int
    warm_seconds: int


QUICK = Size(events=20_000, latency_seconds=8, warm_seconds=3)
FULL = Size(events=100_000, latency_seconds=60, warm_seconds=20)


def receiver(one: System, target: Sink, size: Size) -> Iterator[Figure]:
    """POSTs of 1 KiB over 64 connections, each after the answer to the last, into 10 partitions."""
    one.apply(*broker("bench-receiver"))
    url = f"{one.receiver}/default/bench-receiver"
    load(url, "-n", str(size.events // 4))
    before = one.cpu("receiver")
    got = load(url, "-n", str(size.events * 2))
    used = (one.cpu("receiver") - before) / (size.events * 2) * 1e6
    yield Figure("receiver", "accepted", got["per_s"], "events/s", "> 16,000")
    yield Figure("receiver", "answer p50", got["p50_ms"], "ms")
    yield Figure("receiver", "answer p99", got["p99_ms"], "ms", "< 12")
    yield Figure("receiver", "CPU per event", used, "us")
    yield Figure("receiver", "memory", one.memory("receiver"), "MiB", "< 150")
    one.headrace("delete", "broker/bench-receiver")


def backlog(
    name: str, count: int, order: str, goal: str, *, filtered: bool = False
) -> Callable[[System, Sink, Size], Iterator[Figure]]:
    """Events are in Kafka before the Triggers are made with `initial-offset: earliest`; the rate is that of the arrivals.

    Of a hundred Triggers and more it is the rate from when all are Ready: making them takes longer than the first deliveries.
    """
    many = count >= 100

    def measure(one: System, target: Sink, size: Size) -> Iterator[Figure]:
        events = size.events * (3 if many else 1)
        one.apply(*broker(name))
        load(f"{one.receiver}/default/{name}", "-n", str(events), "-types", str(count if filtered else 1))
        target.get("/reset")
        wanted = events if filtered else events * count
        before = one.cpu("dispatcher")
        made = triggers(name, target.url, count, filtered=filtered, order=order, start="earliest")
        one.apply(*made, timeout="600s")
        early, ready = target.total(), time.monotonic()
        wait_for(lambda: target.total() >= wanted, DRAIN_SECONDS, f"{wanted} deliveries of {name}")
        seconds = time.monotonic() - ready
        used = one.cpu("dispatcher") - before
        stats = target.get("/stats")
        yield Figure(name, "delivered", (wanted - early) / seconds if many else stats["per_s"], "deliveries/s", goal)
        yield Figure(name, "CPU per delivery", used / wanted * 1e6, "us")
        yield Figure(name, "repeated", stats["total"] - wanted, "events", "0")
        if order != "unordered":
            yield Figure(name, "out of order", stats["out_of_order"], "events", "0")
        yield Figure(name, "memory of the dispatcher", one.memory("dispatcher"), "MiB")
        one.headrace("delete", *names(made), f"broker/{name}")

    return measure


def latency(name: str, rate: int, order: str) -> Callable[[System, Sink, Size], Iterator[Figure]]:
    """An open loop of `rate` events/s; from the moment of sending to the arrival at the subscriber."""

    def measure(one: System, target: Sink, size: Size) -> Iterator[Figure]:
        made = triggers(name, target.url, 1, order=order)
        one.apply(*broker(name), *made)
        url = f"{one.receiver}/default/{name}"
        warm = load(url, "-rate", str(rate), "-d", f"{size.warm_seconds}s", "-c", "16")
        wait_for(lambda: target.get("/count")["paths"].get(f"/{name}/1", 0) >= warm["accepted"], 60, "warm-up is delivered")
        target.get("/reset")
        before, begin = one.cpu("dispatcher"), time.monotonic()
        sent = load(url, "-rate", str(rate), "-d", f"{size.latency_seconds}s", "-c", "16")
        used = (one.cpu("dispatcher") - before) / (time.monotonic() - begin) * 100
        wait_for(lambda: target.total() >= sent["accepted"], 60, "all is delivered")
        got = target.get("/latency")[f"/{name}/1"]
        yield Figure(name, "p50", got["p50_ms"], "ms", "< 3")
        yield Figure(name, "p95", got["p95_ms"], "ms")
        yield Figure(name, "p99", got["p99_ms"], "ms", "< 10")
        yield Figure(name, "max", got["max_ms"], "ms")
        yield Figure(name, "CPU of the dispatcher", used, "% of a core")
        one.headrace("delete", *names(made), f"broker/{name}")

    return measure


def one_hangs(one: System, target: Sink, size: Size) -> Iterator[Figure]:
    """Ten Triggers at 50 events/s; then the first one's subscriber takes a minute for each answer. What the other nine see of it."""
    name = "one-of-ten-hangs"
    made = triggers(name, target.url, 10)
    one.apply(*broker(name), *made)
    url = f"{one.receiver}/default/{name}"
    others = [f"/{name}/{number}" for number in range(2, 11)]
    sent = load(url, "-rate", "50", "-d", "3s", "-c", "8")["accepted"]
    wait_for(lambda: target.total() >= sent * 10, 60, "warm-up is delivered")
    for what, delay in (("all well", 0), ("one hangs", 60_000)):
        target.get(f"/delay?ms={delay}&path=/{name}/1")
        target.get("/reset")
        sent = load(url, "-rate", "50", "-d", f"{size.latency_seconds}s", "-c", "8")["accepted"]
        wait_for(lambda: _at_each(target, others, sent), 120, "the other nine got all")  # noqa: B023
        got = target.get("/latency")
        yield Figure(name, f"p50 of nine, {what}", max(got[path]["p50_ms"] for path in others), "ms")
        yield Figure(name, f"p99 of nine, {what}", max(got[path]["p99_ms"] for path in others), "ms")
    target.get(f"/delay?ms=0&path=/{name}/1")
    one.headrace("delete", *names(made), f"broker/{name}")


def backlog_beside_live(one: System, target: Sink, size: Size) -> Iterator[Figure]:
    """A Trigger that begins at the earliest event of a long topic, beside one that is live at 50 events/s."""
    name = "backlog-beside-live"
    live = triggers(name, target.url, 1, name=f"{name}-live")
    one.apply(*broker(name), *live)
    url = f"{one.receiver}/default/{name}"
    events = size.events * 10
    load(url, "-n", str(events))
    wait_for(lambda: target.get("/count")["paths"].get(f"/{name}-live/1", 0) >= events, DRAIN_SECONDS, "the live one has all")
    _calm(target, url, f"/{name}-live/1")
    for what in ("before", "during"):
        late: list[dict[str, Any]] = (
            triggers(name, target.url, 1, name=f"{name}-late", start="earliest") if what == "during" else []
        )
        if late:
            one.apply(*late)
        target.get("/reset")
        sent = load(url, "-rate", "50", "-d", f"{size.latency_seconds}s", "-c", "8")["accepted"]
        wait_for(lambda: _at_each(target, [f"/{name}-live/1"], sent), 120, "the live one got all")  # noqa: B023
        got = target.get("/latency")[f"/{name}-live/1"]
        yield Figure(name, f"p50 of the live one, {what}", got["p50_ms"], "ms")
        yield Figure(name, f"p99 of the live one, {what}", got["p99_ms"], "ms")
    yield Figure(name, "memory of the dispatcher", one.memory("dispatcher"), "MiB")
    wait_for(lambda: target.get("/count")["paths"].get(f"/{name}-late/1", 0) >= events, DRAIN_SECONDS, "the late one caught up")
    yield Figure(name, "caught up at", target.get("/stats")["paths"][f"/{name}-late/1"]["per_s"], "events/s")
    one.headrace("delete", *names([*live, *late]), f"broker/{name}")


def _calm(target: Sink, url: str, path: str) -> None:
    """Wait until a path has had its events within 50 ms for some seconds: after a backlog, lanes change from bulk to real-time gear."""

    def calm() -> bool:
        target.get("/reset")
        sent = load(url, "-rate", "50", "-d", "3s", "-c", "8")["accepted"]
        wait_for(lambda: _at_each(target, [path], sent), 120, f"{path} got all")
        return bool(target.get("/latency")[path]["p99_ms"] < _CALM_MS)

    wait_for(calm, DRAIN_SECONDS, f"{path} is calm")


def _at_each(target: Sink, paths: Sequence[str], count: int) -> bool:
    paths_now = target.get("/count")["paths"]
    return all(paths_now.get(path, 0) >= count for path in paths)


def idle(one: System, target: Sink, size: Size) -> Iterator[Figure]:
    """Ten partitions, one Trigger, nothing to do."""
    made = triggers("bench-idle", target.url, 1)
    one.apply(*broker("bench-idle"), *made)
    before, begin = {part: one.cpu(part) for part in one.run["parts"]}, time.monotonic()
    time.sleep(size.latency_seconds)
    seconds = time.monotonic() - begin
    for part, used in before.items():
        yield Figure("idle", f"CPU of {part}", (one.cpu(part) - used) / seconds * 100, "% of a core")
        yield Figure("idle", f"memory of {part}", one.memory(part), "MiB")
    one.headrace("delete", *names(made), "broker/bench-idle")


BENCHMARKS: dict[str, Callable[[System, Sink, Size], Iterator[Figure]]] = {
    "idle": idle,
    "cold": backlog("cold", 1, "unordered", ""),
    "receiver": receiver,
    "latency-100": latency("latency-100", 100, "unordered"),
    "latency-100-ordered": latency("latency-100-ordered", 100, "ordered"),
    "latency-1000": latency("latency-1000", 1000, "unordered"),
    "one-trigger": backlog("one-trigger", 1, "unordered", "> 12,000"),
    "one-trigger-ordered": backlog("one-trigger-ordered", 1, "ordered", "> 10,000"),
    "one-trigger-key": backlog("one-trigger-key", 1, "key", "> 10,000"),
    "ten-triggers": backlog("ten-triggers", 10, "unordered", "> 39,000"),
    "ten-triggers-filtered": backlog("ten-triggers-filtered", 10, "unordered", "> 12,000", filtered=True),
    "hundred-triggers-filtered": backlog("hundred-triggers-filtered", 100, "unordered", "> 8,000", filtered=True),
    "thousand-triggers-filtered": backlog("thousand-triggers-filtered", 1000, "unordered", "", filtered=True),
    "one-of-ten-hangs": one_hangs,
    "backlog-beside-live": backlog_beside_live,
}
QUICK_ONLY = ("receiver", "latency-100", "one-trigger", "one-trigger-ordered", "ten-triggers")


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer events and benchmarks: within two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS))
    options = parser.parse_args()
    chosen = options.only or (QUICK_ONLY if options.quick else list(BENCHMARKS))
    figures: list[Figure] = []
    build_tools()
    where = machine()
    with system() as one, sink() as target:
        if options.only and "cold" not in options.only:
            error_console().print("warming up ...", style="dim")
            for _ in BENCHMARKS["cold"](one, target, FULL):
                pass
        for name in chosen:
            for figure in BENCHMARKS[name](one, target, QUICK if options.quick else FULL):
                figures.append(figure)
                error_console().print(f"{name}: {figure.what} {figure.value:.1f} {figure.unit}", style="dim", markup=False)
    print_table(
        ["benchmark", "what", "value", "unit", "goal"],
        [[figure.benchmark, figure.what, round(figure.value, 1), figure.unit, figure.goal] for figure in figures],
    )
    console().print(", ".join(f"{name} {value}" for name, value in where.items()), markup=False)
    if options.json:
        options.json.write_text(json.dumps({"machine": where, "figures": [asdict(f) for f in figures]}, indent=2) + "\n")
    return 0


def machine() -> dict[str, str]:
    """What the figures were measured on. `loop_us`: how long Python takes for `sum(range(10_000))`, best of 50: virtual machines differ
    by more than their names say."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    loop = min(timeit.repeat("sum(range(10_000))", number=20, repeat=50)) / 20 * 1e6
    return {
        "cpu": model,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "commit": commit,
        "loop_us": f"{loop:.0f}",
    }


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeadraceError as error:
        error_console().print(f"error: {error}", markup=False)
        sys.exit(error.exit_code)
