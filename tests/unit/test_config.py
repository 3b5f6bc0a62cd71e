"""Settings: precedence, origins, and clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.base.config import load
from headrace.base.errors import UsageError


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    file = tmp_path / "h.toml"
    file.write_text('instance = "filed"\n[receiver]\nport = 1\nops_port = 2\nhost = "h"\n')
    loaded = load(
        file, {"HEADRACE_RECEIVER_PORT": "3", "HEADRACE_RECEIVER_OPS_PORT": "4"}, {"receiver.port": 5, "kafka.port": None}
    )
    receiver = loaded.settings.receiver
    assert (receiver.port, receiver.ops_port, receiver.host, loaded.settings.instance) == (5, 4, "h", "filed")
    origins = {setting.name: setting.origin for setting in loaded.listing()}
    assert origins["receiver.port"] == "flag --port"
    assert origins["receiver.ops_port"] == "HEADRACE_RECEIVER_OPS_PORT"
    assert origins["receiver.host"] == str(file)
    assert origins["kafka.port"] == "default"


def test_the_java_has_a_short_name_too_and_the_full_one_wins() -> None:
    short = load(None, {"HEADRACE_JAVA": "bundled"})
    assert short.settings.kafka.java == "bundled"
    assert short.origins["kafka.java"] == "HEADRACE_JAVA"
    both = load(None, {"HEADRACE_JAVA": "bundled", "HEADRACE_KAFKA_JAVA": "/opt/java"})
    assert both.settings.kafka.java == "/opt/java"


def test_every_setting_has_a_meaning() -> None:
    assert [setting.name for setting in load(None, {}).listing() if not setting.meaning] == []


def test_an_empty_environment_variable_counts_as_not_set() -> None:
    assert load(None, {"HEADRACE_KAFKA_PORT": ""}).settings.kafka.port == 9092


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[receiver]\nprot = 1\n", "unknown setting 'receiver.prot'"),
        ("nothing = 1\n", "unknown setting 'nothing'"),
        ('[receiver]\nport = "x"\n', "receiver.port must be a whole number, got 'x'"),
        ("[receiver]\nport = true\n", "receiver.port must be a whole number"),
        ("instance = 5\n", "instance must be a text"),
        ("not toml", "not TOML"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "h.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        load(file, {})
    assert caught.value.subject == str(file)


def test_a_bad_environment_variable_is_named() -> None:
    with pytest.raises(UsageError, match=r"HEADRACE_KAFKA_PORT: kafka.port must be a whole number, got 'many'"):
        load(None, {"HEADRACE_KAFKA_PORT": "many"})


def test_a_file_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.toml", {})
