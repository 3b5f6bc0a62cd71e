"""What `headrace up` hands to its parts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.base.config import load
from headrace.base.errors import Terminal
from headrace.http.ports import choose, hold
from headrace.standalone.datadir import DataDir
from headrace.standalone.parts import _environment, _with_ports


def test_the_parts_get_every_setting_that_is_not_a_default_as_environment(tmp_path: Path) -> None:
    loaded = load(None, {"HEADRACE_LOGS_LEVEL": "DEBUG"}, {"receiver.port": 0, "dispatcher.ops_port": 0, "instance": "mine"})
    settings = _with_ports(loaded.settings)
    environment = _environment(settings, loaded, DataDir(tmp_path))
    assert environment["HEADRACE_INSTANCE"] == "mine"
    assert environment["HEADRACE_LOGS_LEVEL"] == "DEBUG"
    assert environment["HEADRACE_RECEIVER_PORT"] == str(settings.receiver.port) != "0"
    assert environment["HEADRACE_CONTROLLER_ADDRESS_URL"] == f"http://127.0.0.1:{settings.receiver.port}"
    assert environment["HEADRACE_DATA_DIR"] == str(tmp_path)
    assert "HEADRACE_DISPATCHER_RING_EVENTS" not in environment
    controller = f"http://127.0.0.1:{settings.controller.port}"
    assert (environment["HEADRACE_IDENTITY_ISSUER"], environment["HEADRACE_IDENTITY_TOKEN_SERVER"]) == (controller, controller)
    # A part that reads this environment sees the same settings.
    again = load(None, environment).settings
    assert again.receiver == settings.receiver
    assert again.dispatcher == settings.dispatcher
    assert again.logs == settings.logs


@pytest.mark.parametrize(("tls_port", "scheme"), [(-1, "https"), (8443, "http")])
def test_addresses_have_the_scheme_that_the_port_speaks(tmp_path: Path, tls_port: int, scheme: str) -> None:
    given = {"receiver.tls_cert": "c", "receiver.tls_key": "k", "receiver.tls_port": tls_port}
    loaded = load(None, {}, given)
    environment = _environment(loaded.settings, loaded, DataDir(tmp_path))
    assert environment["HEADRACE_CONTROLLER_ADDRESS_URL"] == f"{scheme}://127.0.0.1:8080"


def test_an_issuer_that_was_set_is_not_replaced_by_the_controllers(tmp_path: Path) -> None:
    loaded = load(None, {"HEADRACE_IDENTITY_ISSUER": "https://issuer.example"}, {})
    environment = _environment(loaded.settings, loaded, DataDir(tmp_path))
    assert environment["HEADRACE_IDENTITY_ISSUER"] == "https://issuer.example"
    assert environment["HEADRACE_IDENTITY_TOKEN_SERVER"] == "http://127.0.0.1:8090"


def test_free_ports_are_all_different() -> None:
    names = ("receiver.port", "receiver.ops_port", "controller.port", "controller.ops_port", "dispatcher.ops_port")
    for _ in range(20):
        settings = _with_ports(load(None, {}, dict.fromkeys(names, 0)).settings)
        ports = [getattr(getattr(settings, section), key) for section, key in (name.split(".") for name in names)]
        assert len(set(ports)) == 5
        assert 0 not in ports


def test_a_port_that_somebody_listens_on_is_refused_even_if_shared() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            Terminal, match=rf"receiver: cannot listen on 127.0.0.1:{port}: Address already in use.*--receiver-port"
        ):
            choose(port, what="receiver", flag="--receiver-port")
        with pytest.raises(Terminal):
            hold(port, what="receiver")


def test_a_held_port_is_kept_until_it_is_let_go() -> None:
    keeper = hold(0, what="x")
    port = keeper.getsockname()[1]
    with pytest.raises(Terminal):
        choose(port, what="y")
    keeper.close()
    assert choose(port, what="y") == port
