"""What a Kafka that ended has left in its logs, in words for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.kafka.diagnosis import diagnose, tail

LINES = {
    "the disk is full": "ERROR Error while appending records (UnifiedLog)\njava.io.IOException: No space left on device",
    "127.0.0.1:9092 is in use": "org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:9092: "
    "Address already in use.",
    "another Kafka uses this folder": "KafkaException: Failed to acquire lock on file .lock in /data/log. A Kafka instance in",
    "it may not write": "java.nio.file.AccessDeniedException: /data/log",
    "it ran out of memory (Java heap space)": "Terminating due to java.lang.OutOfMemoryError: Java heap space",
    "too little memory": "Error: Could not reserve enough space for 524288KB object heap",
    "belongs to another cluster": "RuntimeException: Invalid cluster.id in: /data/log/meta.properties. Expected abc",
}


@pytest.mark.parametrize("cause", LINES)
def test_a_known_cause_is_named_and_the_log_too(cause: str, tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text(f"INFO starting\n{LINES[cause]}\nINFO shut down completed\n")
    told = str(diagnose([log], "ended", "Kafka in /data"))
    assert told.startswith("Kafka in /data: ended: ")
    assert cause in told
    assert str(log) in told


def test_else_its_last_words_are_given(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("\n".join(f"line {index}" for index in range(100)))
    assert "ended. Its last words: line 95 | line 96 | line 97 | line 98 | line 99" in str(diagnose([log], "ended", "Kafka"))


def test_a_kafka_that_wrote_nothing_is_told_too(tmp_path: Path) -> None:
    told = str(diagnose([tmp_path / "none"], "ended", "Kafka"))
    assert "Its last words: none" in told
    assert "it wrote none" in told


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("No space left on device\n" + "x" * 100 + "\n" * 1 + "filler line\n" * 20_000)
    assert tail([log], 3) == ["filler line"] * 3
    assert "the disk is full" not in str(diagnose([log], "ended", "Kafka"))
