"""Which Java is taken: from settings, environment and what is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.kafka.java import java_home


def fake_java(folder: Path, version: int, *, modules: str | None = "java.base jdk.incubator.vector") -> Path:
    """A Java home whose `bin/java` tells `version` and otherwise prints its arguments, one a line."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *XshowSettings*) echo "    java.specification.version = {version}" >&2; exit;;\n'
        "*--list-modules*) echo java.base@17; exit;; esac\n"
        'printf "%s\\n" "$@"\n'
    )
    program.chmod(0o755)
    if modules is not None:
        (folder / "release").write_text(f'JAVA_VERSION="{version}.0.1"\nMODULES="{modules}"\n')
    return folder


def test_java_home_of_the_environment_goes_first(tmp_path: Path) -> None:
    named, on_path = fake_java(tmp_path / "named", 21), fake_java(tmp_path / "on-path", 17)
    home = java_home("auto", tmp_path, {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")})
    assert (home.path, home.version, home.bundled, home.for_spark) == (named, 21, False, named)


def test_then_the_one_on_the_path_through_its_links(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", 17)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    assert java_home("auto", tmp_path, {"PATH": str(tmp_path / "bin")}).path == real


@pytest.mark.parametrize("version", [8, 11, 16, 26])
def test_a_java_that_is_too_old_or_too_new_is_passed_over(version: int, tmp_path: Path) -> None:
    wrong, right = fake_java(tmp_path / "wrong", version), fake_java(tmp_path / "right", 25)
    assert java_home("auto", tmp_path, {"JAVA_HOME": str(wrong), "PATH": str(right / "bin")}).path == right


def test_without_any_the_bundled_one_is_taken(tmp_path: Path) -> None:
    home = java_home("auto", tmp_path, {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "nowhere")})
    assert home.bundled
    assert home.version == 25
    assert home.java.is_file()


def test_the_bundled_one_can_be_asked_for(tmp_path: Path) -> None:
    system = fake_java(tmp_path / "system", 17)
    assert java_home("bundled", tmp_path, {"JAVA_HOME": str(system)}).bundled


def test_a_path_may_name_the_home_or_the_program(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 17)
    assert java_home(str(home), tmp_path, {}).path == home
    assert java_home(str(home / "bin" / "java"), tmp_path, {}).path == home


@pytest.mark.parametrize(
    ("version", "complaint"), [(11, "is Java 11, which Spark and Kafka do not run on"), (99, "is Java 99")]
)
def test_a_path_to_a_java_that_does_not_fit_is_refused(version: int, complaint: str, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", version)
    with pytest.raises(UsageError, match=complaint):
        java_home(str(home), tmp_path, {})


def test_a_path_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no Java that starts"):
        java_home(str(tmp_path / "nowhere"), tmp_path, {})


@pytest.mark.parametrize("modules", ["java.base", None], ids=["told by its release file", "asked for its modules"])
def test_spark_gets_a_java_without_the_module_that_this_one_lacks(modules: str | None, tmp_path: Path) -> None:
    home = java_home(str(fake_java(tmp_path / "my java", 17, modules=modules)), tmp_path / "cache", {})
    assert home.for_spark != home.path
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "-x=$HOME"]
    command = [str(home.for_spark / "bin" / "java"), *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "-Xmx1g\na b\n\n-x=$HOME\n"


def test_the_bundled_java_starts_as_spark_starts_it(tmp_path: Path) -> None:
    home = java_home("bundled", tmp_path)
    command = [str(home.for_spark / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'version "25' in told.stderr
