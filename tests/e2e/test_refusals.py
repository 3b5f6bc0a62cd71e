"""What can't be done is said in one clear line: what, which object, what to do; never a traceback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.system import HEADRACE, System, headrace


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The error text of a command that ended with this status."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "error:" in done.stderr.lower()
    return done.stderr


def test_a_second_up_on_the_same_folder_names_the_first(system: System) -> None:
    text = refused(headrace("up", "--free-ports", data_dir=system.folder.path), 1)
    assert f"in use by another `headrace up` (pid {system.process.pid})" in text
    assert "--data-dir" in text


def test_a_port_in_use_is_named_with_its_flag(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused(headrace("up", "--free-ports", "--receiver-port", str(port), data_dir=tmp_path / "d"), 1)
    assert f"127.0.0.1:{port}" in text
    assert "Address already in use" in text
    assert "--receiver-port" in text


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare (util-linux)")
def test_a_full_disk_is_called_that(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    # A disk of 32 MiB, seen by this command only.
    script = f'mount -t tmpfs -o size=32m tmpfs {folder} && exec "$@"'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        [
            "unshare",
            *user,
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            *HEADRACE,
            "up",
            "--free-ports",
            "--data-dir",
            str(folder / "d"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "the disk has 3" in refused(done, 1)
    assert "--data-dir" in done.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(headrace("up", "--free-ports", data_dir=tmp_path / "file"), 1)


def test_a_java_that_is_none_is_named(tmp_path: Path) -> None:
    text = refused(headrace("up", "--free-ports", "--java", str(tmp_path), data_dir=tmp_path / "d"), 2)
    assert str(tmp_path) in text


def test_without_a_running_system_commands_say_what_to_start(tmp_path: Path) -> None:
    for words in (
        ("get", "triggers"),
        ("apply", "-f", "-"),
        ("send", "broker/x"),
        ("describe", "broker/x"),
        ("tail", "broker/x"),
    ):
        text = refused(headrace(*words, data_dir=tmp_path, stdin="kind: X\nmetadata: {name: a}\n"), 1)
        assert "no Headrace runs here" in text
        assert "headrace up" in text


def test_settings_that_are_wrong_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("[receiver]\nprot = 1\n")
    text = refused(headrace("config", "--config", str(tmp_path / "headrace.toml")), 2)
    assert "unknown setting 'receiver.prot'" in text
    assert "receiver.port must be a whole number" in refused(headrace("config", env={"HEADRACE_RECEIVER_PORT": "many"}), 2)
    assert "which Kafka?" in refused(headrace("controller"), 2)


def test_a_manifest_with_faults_applies_nothing_and_names_every_fault(system: System, tmp_path: Path) -> None:
    manifest = tmp_path / "bad.yaml"
    manifest.write_text(
        "apiVersion: eventing.knative.dev/v1\nkind: Broker\nmetadata: {name: sound}\n---\n"
        "apiVersion: eventing.knative.dev/v1\nkind: Trigger\nmetadata: {name: first}\nspec: {broker: sound, subscribers: {}}\n---\n"
        "apiVersion: eventing.knative.dev/v1\nkind: Trigger\nmetadata: {name: second}\n"
        "spec: {broker: sound, subscriber: {uri: /relative}}\n"
    )
    text = refused(system.cli("apply", "-f", str(manifest)), 1)
    assert "trigger/first" in text
    assert "spec.subscribers: unknown field(s) (did you mean subscriber?)" in text
    assert "trigger/second" in text
    assert "spec.subscriber.uri" in text
    assert "nothing was applied" in text
    assert system.cli("get", "broker/sound").returncode == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("apiVersion: eventing.knative.dev/v1\nkind: Triger\nmetadata: {name: x}\n", "did you mean Trigger?"),
        ("apiVersion: eventing.knative.dev/v9\nkind: Trigger\nmetadata: {name: x}\n", "eventing.knative.dev/v1"),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", "no matches for kind"),
        ("kind: [\n", "not YAML"),
        ("hello\n", "expected an object"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", "metadata.name"),
    ],
)
def test_a_manifest_that_is_none_is_a_usage_error_with_its_place(system: System, text: str, said: str) -> None:
    done = system.cli("apply", "-f", "-", stdin=text)
    told = refused(done, 2)
    assert said in told
    assert "standard input, line" in told


def test_waits_that_run_out_end_with_status_3_and_the_reason(system: System) -> None:
    manifest = (
        "apiVersion: eventing.knative.dev/v1\nkind: Trigger\nmetadata: {name: lonely}\n"
        "spec: {broker: none, subscriber: {uri: 'http://127.0.0.1:1'}}\n"
    )
    text = refused(system.cli("apply", "-f", "-", "--wait", "--timeout", "2s", stdin=manifest), 3)
    assert "trigger/lonely: not Ready in time" in text
    assert "BrokerDoesNotExist" in text
    assert refused(system.cli("get", "trigger/lonely", "--wait", "Ready", "--timeout", "1s"), 3)
    assert system.cli("delete", "trigger/lonely").returncode == 0
    assert "not found" in refused(system.cli("get", "trigger/lonely"), 1)


def test_sending_what_is_no_event_is_refused(system: System) -> None:
    assert "is no extension" in refused(system.cli("send", "http://127.0.0.1:1", "-e", "id=1"), 2)
    assert "'Bad-Name'" in refused(system.cli("send", "http://127.0.0.1:1", "-e", "Bad-Name=1"), 2)
    assert "no answer" in refused(system.cli("send", "http://127.0.0.1:1"), 1)
    assert "expected broker/NAME" in refused(system.cli("send", "trigger/x"), 2)
    assert "not found" in refused(system.cli("send", "broker/nothing"), 1)
