"""TLS: HTTP/1.1 and HTTP/2, a port of its own beside the plain one, a new certificate without a refused connection."""

from __future__ import annotations

import io
import ssl
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pycurl
import pytest

from headrace.base.errors import Terminal
from headrace.kafka.settings import KafkaSettings
from headrace.receiver import Tls
from tests.conftest import TopicFactory
from tests.kafka.receiver.conftest import Benches
from tests.kafka.receiver.harness import EVENT, Bench, exchange, resource
from tests.support.certificates import Authority
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


class Files:
    """Certificate and key of a server in files of their own, as a mounted Secret has them."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self._folder = folder
        self._authority = authority
        self.tls = Tls(folder / "tls.crt", folder / "tls.key")
        self.renew()

    def renew(self) -> None:
        before = set(self._folder.glob("server-*.pem"))
        self._authority.server(self._folder)
        [made] = set(self._folder.glob("server-*.pem")) - before
        key, mark, chain = made.read_text().partition("-----BEGIN CERTIFICATE-----")
        self.tls.certificate.write_text(mark + chain)
        self.tls.key.write_text(key)


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> Files:
    folder = tmp_path / "tls"
    folder.mkdir()
    return Files(folder, authority)


@pytest.fixture
def bench(receivers: Benches, kafka: KafkaSettings, topic: TopicFactory, files: Files) -> Bench:
    return receivers(tls=files.tls).start(resource(kafka, topic()))


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem)


@pytest.fixture
def connection(bench: Bench, context: ssl.SSLContext) -> Iterator[HTTPSConnection]:
    made = HTTPSConnection("127.0.0.1", bench.port, context=context, timeout=10)
    yield made
    made.close()


def serial(connection: HTTPSConnection) -> str:
    """The number of the certificate that is shown."""
    connection.connect()
    shown = connection.sock.getpeercert() or {}
    connection.close()
    return str(shown["serialNumber"])


def is_shown(connection: HTTPSConnection, other_than: str) -> Callable[[], bool]:
    return lambda: serial(connection) != other_than


def told(caplog: pytest.LogCaptureFixture, times: int) -> Callable[[], bool]:
    return lambda: caplog.text.count("the old one stays") == times


def test_events_are_taken_over_tls(bench: Bench, connection: HTTPSConnection) -> None:
    assert bench.receiver.url.startswith("https://")
    assert exchange(connection, "POST", "/ns/name", b"{}", EVENT).status == 202


def test_events_are_taken_over_http_2_with_tls(bench: Bench, authority: Authority) -> None:
    curl, out = pycurl.Curl(), io.BytesIO()
    curl.setopt(pycurl.URL, f"{bench.receiver.url}/ns/name")
    curl.setopt(pycurl.CAINFO_BLOB, authority.pem)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
    curl.setopt(pycurl.POSTFIELDS, "{}")
    curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in EVENT.items()] + ["content-type: application/json"])
    curl.setopt(pycurl.WRITEDATA, out)
    curl.perform()
    assert curl.getinfo(pycurl.RESPONSE_CODE) == 202
    assert curl.getinfo(pycurl.INFO_HTTP_VERSION) == pycurl.CURL_HTTP_VERSION_2_0
    curl.close()


def test_plain_http_on_the_tls_port_is_no_request(bench: Bench) -> None:
    assert not bench.raw(b"POST /ns/name HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 202")


def test_both_ports_may_be_open(
    receivers: Benches, kafka: KafkaSettings, topic: TopicFactory, files: Files, context: ssl.SSLContext
) -> None:
    tls = Tls(files.tls.certificate, files.tls.key, port=0)
    bench = receivers(tls=tls).start(resource(kafka, topic()))
    assert bench.receiver.url.startswith("http://")
    assert bench.send().status == 202
    secure = HTTPSConnection("127.0.0.1", urlsplit(bench.receiver.tls_url).port, context=context, timeout=10)
    assert exchange(secure, "POST", "/ns/name", b"{}", EVENT).status == 202
    secure.close()


def test_a_new_certificate_is_shown_and_no_request_fails_meanwhile(
    bench: Bench, connection: HTTPSConnection, context: ssl.SSLContext, files: Files
) -> None:
    statuses: list[int] = []
    enough = threading.Event()

    def send() -> None:
        while not enough.is_set():
            one = HTTPSConnection("127.0.0.1", bench.port, context=context, timeout=10)
            try:
                statuses.append(exchange(one, "POST", "/ns/name", b"{}", EVENT).status)
            except OSError:
                statuses.append(0)
            finally:
                one.close()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(5):
            before = serial(connection)
            files.renew()
            eventually(is_shown(connection, other_than=before), what="the new certificate is shown")
    finally:
        enough.set()
        sender.join()
    assert set(statuses) == {202}


def test_files_that_do_not_fit_leave_the_old_certificate(
    bench: Bench, connection: HTTPSConnection, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    before = serial(connection)
    good = files.tls.key.read_text()
    for count, bad in enumerate(("", "garbage", good.replace("A", "B")), 1):
        files.tls.key.write_text(bad)
        eventually(told(caplog, count), what="the files have been looked at")
        assert serial(connection) == before
    files.renew()
    eventually(is_shown(connection, other_than=before), what="the new certificate is shown")


def test_a_certificate_that_can_not_be_used_is_refused_at_the_start(receivers: Benches, tmp_path: Path) -> None:
    with pytest.raises(Terminal, match=r"absent\.crt: can't be read: No such file"):
        receivers(tls=Tls(tmp_path / "absent.crt", tmp_path / "absent.key"))
    garbage = tmp_path / "garbage"
    garbage.write_text("garbage")
    with pytest.raises(Terminal, match="can't be used"):
        receivers(tls=Tls(garbage, garbage))
