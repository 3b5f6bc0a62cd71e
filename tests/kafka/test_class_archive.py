"""Archives of Java's classes, made and used by real Javas: the system's, and the bundled one, which has none of its own classes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base.classarchive import ClassArchive
from headrace.kafka.java import java_home
from headrace.kafka.runtime import STORAGE_TOOL, KafkaRuntime


def runtime_with(folder: Path, choice: str = "auto", name: str = "kafka") -> KafkaRuntime:
    runtime = KafkaRuntime.ready(java_home(choice))
    return replace(runtime, classes=ClassArchive(folder, name, runtime.java.java, runtime.classpath))


def run(runtime: KafkaRuntime, *, recording: bool = False, options: Sequence[str] = ()) -> None:
    """A program that ends well within a second."""
    command = runtime.command(STORAGE_TOOL, ["random-uuid"], recording=recording, options=options)
    done = subprocess.run(command.argv, env=dict(command.env), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 22  # nothing but the id: Java itself says nothing


def loaded_from(runtime: KafkaRuntime, log: Path) -> str:
    """Where Java says that it had one of Kafka's classes from."""
    run(runtime, options=[f"-Xlog:class+load:file={log}"])
    (line,) = [line for line in log.read_text().splitlines() if f" {STORAGE_TOOL} " in line]
    return line.partition("source: ")[2]


def unfinished(runtime: KafkaRuntime) -> Path:
    """Where a process that records now would write."""
    (option,) = [one for one in runtime.classes.recording() if "ArchiveClassesAtExit" in one]
    return Path(option.partition("=")[2])


@pytest.mark.parametrize("choice", ["auto", "bundled"])
def test_the_second_process_has_its_classes_from_what_the_first_one_left(tmp_path: Path, choice: str) -> None:
    folder = tmp_path / "a folder" / "classes"
    first = runtime_with(folder, choice)
    assert first.classes.missing
    run(first, recording=True)
    first.classes.keep()
    second = runtime_with(folder, choice)
    assert not second.classes.missing
    assert loaded_from(second, tmp_path / "loaded.log").startswith("shared objects file")


def test_without_an_archive_classes_come_from_jars(tmp_path: Path) -> None:
    assert loaded_from(runtime_with(tmp_path), tmp_path / "loaded.log").endswith(".jar")


def test_what_a_killed_process_left_is_not_used(tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path)
    half = unfinished(runtime)
    half.write_bytes(bytes(4096))
    runtime.classes.keep()
    assert runtime.classes.missing
    assert not half.exists()


def test_what_did_too_little_is_discarded(tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path)
    run(runtime, recording=True)
    runtime.classes.discard()
    runtime.classes.keep()
    assert runtime.classes.missing


def test_an_archive_that_was_cut_off_stops_nobody_and_is_made_again(tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path)
    run(runtime, recording=True)
    runtime.classes.keep()
    (path,) = tmp_path.glob("kafka-*.jsa")
    path.chmod(0o644)
    os.truncate(path, 4096)
    run(runtime, recording=True)
    runtime.classes.keep()
    assert loaded_from(runtime, tmp_path / "loaded.log").startswith("shared objects file")


def test_a_base_that_was_cut_off_is_made_again_with_all_that_builds_on_it(tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path, "bundled")
    run(runtime, recording=True)
    runtime.classes.keep()
    (base,) = tmp_path.glob("java-*.jsa")
    os.truncate(base, 4096)
    assert runtime.classes.options() == []
    run(runtime, recording=True)
    runtime.classes.keep()
    assert loaded_from(runtime, tmp_path / "loaded.log").startswith("shared objects file")


def test_what_was_left_long_ago_is_removed(tmp_path: Path) -> None:
    left, recent = tmp_path / "kafka.0123", tmp_path / "kafka.4567"
    for path in (left, recent):
        path.write_bytes(b"half")
    os.utime(left, (0, 0))
    runtime_with(tmp_path).classes.recording()
    assert (left.exists(), recent.exists()) == (False, True)


def test_of_two_that_recorded_at_once_one_archive_is_left(tmp_path: Path) -> None:
    runtimes = [runtime_with(tmp_path), runtime_with(tmp_path)]
    paths = [unfinished(one) for one in runtimes]
    assert paths[0] != paths[1]
    for size, (one, path) in enumerate(zip(runtimes, paths, strict=True)):
        path.write_bytes(bytes.fromhex("a8ab0bf0") + bytes(size))
        one.classes.keep()
    assert len(list(tmp_path.glob("kafka-*.jsa"))) == 1
    assert not runtimes[0].classes.missing


def test_another_class_path_has_an_archive_of_its_own(tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path)
    jar = tmp_path / "one.jar"
    jar.write_bytes(b"")
    archives = []
    for size in (1, 2):
        jar.write_bytes(bytes(size))
        archives.append(ClassArchive(tmp_path, "kafka", runtime.java.java, [jar]))
    run(replace(runtime, classes=archives[0]), recording=True)
    archives[0].keep()
    assert not archives[0].missing
    assert archives[1].missing
    assert archives[1].options() == []


def test_the_three_used_last_are_kept(tmp_path: Path) -> None:
    java, jar = java_home().java, tmp_path / "one.jar"
    archives = []
    for size in range(4):
        jar.write_bytes(bytes(size))
        one = ClassArchive(tmp_path, "kafka", java, [jar])
        archives.append(one)
        (option,) = [word for word in one.recording() if "ArchiveClassesAtExit" in word]
        Path(option.partition("=")[2]).write_bytes(bytes.fromhex("a8ab0bf0"))
        one.keep()
        for path in tmp_path.glob("kafka-*.jsa"):
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))
        archives[0].options()  # used again, so it stays
    assert [one.missing for one in archives] == [False, True, False, False]


def test_a_folder_that_can_not_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    runtime = runtime_with(tmp_path / "file" / "classes")
    assert not runtime.classes.missing
    assert runtime.classes.recording() == []
    run(runtime, recording=True)
