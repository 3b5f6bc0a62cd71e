"""Kafka is asked for a report by a process of its own, whatever becomes of that."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection

import pytest

from headrace.core.report import Report
from headrace.home.report import kafka
from headrace.kafka.settings import KafkaSettings

SETTINGS = KafkaSettings("127.0.0.1:1")


def dies(sending: Connection, settings: KafkaSettings, instance: str, store: bool) -> None:
    sending.send(("add", ("kafka/cluster.yaml", {"brokers": 3})))
    os.abort()


def hangs(sending: Connection, settings: KafkaSettings, instance: str, store: bool) -> None:
    sending.send(("add", ("kafka/cluster.yaml", {"brokers": 3})))
    time.sleep(600)


def ends(sending: Connection, settings: KafkaSettings, instance: str, store: bool) -> None:
    sending.send(("miss", ("topics", "refused")))
    sending.send(("end", ()))


def collected(monkeypatch: pytest.MonkeyPatch, child: object, seconds: float) -> Report:
    monkeypatch.setattr(kafka, "_child", child)
    report = Report()
    kafka.collect_kafka(report, SETTINGS, "headrace", seconds=seconds)
    return report


def test_what_came_before_the_client_library_ended_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    report = collected(monkeypatch, dies, 60)
    assert [one.path for one in report.documents] == ["kafka/cluster.yaml"]
    assert [(one.what, one.reason) for one in report.missing] == [("Kafka", "the process that asked it has ended (signal 6)")]


def test_a_process_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    report = collected(monkeypatch, hangs, 1)
    assert [one.what for one in report.missing] == ["Kafka"]
    assert "within the time" in report.missing[0].reason


def test_what_could_not_be_had_comes_over_too(monkeypatch: pytest.MonkeyPatch) -> None:
    report = collected(monkeypatch, ends, 60)
    assert [(one.what, one.reason) for one in report.missing] == [("topics", "refused")]
