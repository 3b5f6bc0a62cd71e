"""`headrace kafka exec`: every tool of Kafka's, as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile

import pytest

from headrace.base.errors import UsageError
from headrace.kafka.jars import kafka_classpath
from headrace.kafka.java import java_home
from headrace.kafka.runtime import KafkaRuntime
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.tools import SCRIPTS, tool_command
from tests.conftest import TopicFactory

_CALL = "import sys; from headrace.cli.kafka import app; app(['exec', *sys.argv[1:]])"


def run_exec(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """In a process of its own, since the tool takes the command's place."""
    return subprocess.run(
        [sys.executable, "-c", _CALL, *words], input=stdin, capture_output=True, text=True, check=False, timeout=240
    )


def test_every_script_is_a_class_of_the_jars_that_are_here() -> None:
    classes: set[str] = set()
    for jar in kafka_classpath():
        if re.search(r"_(kafka|connect)[-_]", jar.name):
            with zipfile.ZipFile(jar) as archive:
                classes |= {
                    name.removesuffix(".class").replace("/", ".") for name in archive.namelist() if name.endswith(".class")
                }
    assert {main for main in SCRIPTS.values() if main not in classes} == set()


def test_a_tool_runs_with_its_arguments_unchanged(kafka: KafkaSettings, topic: TopicFactory) -> None:
    one = topic(3)
    produced = run_exec(
        "--",
        "bin/kafka-console-producer.sh",
        *["--bootstrap-server", kafka.bootstrap_servers, "--topic", one],
        *["--reader-property", "parse.key=true", "--reader-property", 'key.separator= "#" '],
        stdin='1 "#" ä $HOME\n',
    )
    assert produced.returncode == 0, produced.stderr
    shown = ["--from-beginning", "--max-messages", "1", "--formatter-property", "print.key=true"]
    consumed = run_exec("kafka-console-consumer", "--bootstrap-server", kafka.bootstrap_servers, "--topic", one, *shown)
    assert consumed.stdout == "1\tä $HOME\n"
    assert "Processed a total of 1 messages" in consumed.stderr


def test_its_exit_code_is_the_command_s() -> None:
    assert run_exec("kafka-topics.sh", "--no-such-option").returncode == 1
    assert run_exec("kafka-topics.sh", "--version").stdout.startswith("4.3.1")


def test_a_tool_that_there_is_not_is_said_with_the_nearest() -> None:
    runtime = KafkaRuntime.ready(java_home(os.environ.get("HEADRACE_JAVA", "auto")))
    with pytest.raises(UsageError, match=r"bin/kafka-topic\.sh: no such tool of Kafka's. Did you mean kafka-topics\.sh\?"):
        tool_command(runtime, ["bin/kafka-topic.sh"], {})
    command = tool_command(runtime, ["kafka-run-class.sh", "a.b.C", "x"], {"KAFKA_OPTS": "-Da=1 '-Db=2 3'"})
    assert command.argv[-2:] == ("a.b.C", "x")
    assert {"-Da=1", "-Db=2 3"} <= set(command.argv)
