"""The jars that are not in the Python packages, fetched by the real Ivy from a mirror that this test serves."""

from __future__ import annotations

import shutil
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.base.errors import Retriable, Terminal
from headrace.kafka.cluster.certificates import Authority
from headrace.kafka.jars import SPARK_CONNECTOR, Fetching, fetch, locked, sha256, spark_connector_jars
from headrace.kafka.java import java_home


class Mirror:
    """A Maven repository with the jars of Spark's connector, in `folder`; `asked` are the paths of its GET requests."""

    def __init__(self, folder: Path, context: ssl.SSLContext | None = None) -> None:
        self.folder = folder
        self.asked: list[str] = []
        for jar, file in zip(locked(SPARK_CONNECTOR), spark_connector_jars(), strict=True):
            shutil.copy(file, self._made(self.path(jar.module)))
        owner = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked.append(self.path)
                super().do_GET()

            def log_message(self, *args: object) -> None:
                """Not wanted."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        if context is not None:
            # Each connection shakes hands in its own thread.
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self._server.server_address[1]}/"

    def path(self, module: str) -> Path:
        jar = next(jar for jar in locked(SPARK_CONNECTOR) if jar.module == module)
        place = Path(*jar.organisation.split("."), module, jar.revision, f"{module}-{jar.revision}.jar")
        return self.folder / place

    def jars_asked(self) -> list[str]:
        return [path.rsplit("/", 1)[1] for path in self.asked if path.endswith(".jar")]

    @contextmanager
    def serving(self) -> Iterator[Mirror]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    @staticmethod
    def _made(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    with Mirror(tmp_path / "mirror").serving() as made:
        yield made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_jars_are_fetched_once_and_the_progress_is_told(mirror: Mirror, cache: Path) -> None:
    told: list[Fetching] = []
    found = fetch(SPARK_CONNECTOR, told.append, cache=cache, mirror=mirror.url)
    assert [sha256(path) for path in found] == [jar.sha256 for jar in locked(SPARK_CONNECTOR)]
    assert told[0] == Fetching(0, 4, "")
    assert told[-1].done == told[-1].total == 4
    assert sorted(mirror.jars_asked()) == sorted(path.name.split("_", 1)[1] for path in found)
    mirror.asked.clear()
    assert fetch(SPARK_CONNECTOR, told.append, cache=cache, mirror=mirror.url) == found
    assert mirror.asked == []
    assert {path.name for path in cache.iterdir()} == {"jars", "jars.flock", "fetch.log"}


def test_who_comes_while_another_fetches_waits_for_it(mirror: Mirror, cache: Path) -> None:
    found: list[list[Path]] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch(SPARK_CONNECTOR, cache=cache, mirror=mirror.url))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(mirror.jars_asked()) == 4


def test_a_jar_that_is_not_the_one_of_the_lock_file_is_not_used(mirror: Mirror, cache: Path) -> None:
    mirror.path("kafka-clients").write_bytes(b"something else")
    with pytest.raises(Terminal, match=r"kafka-clients:3\.9\.2: the jar that was fetched is not the one of the lock file"):
        fetch(SPARK_CONNECTOR, cache=cache, mirror=mirror.url)
    assert not list(cache.glob("jars/*kafka-clients*"))


def test_a_missing_jar_is_told_with_where_it_was_looked_for_and_the_rest_is_kept(mirror: Mirror, cache: Path) -> None:
    mirror.path("kafka-clients").unlink()
    with pytest.raises(Retriable, match="1 of 4 jars could not be fetched") as told:
        fetch(SPARK_CONNECTOR, cache=cache, mirror=mirror.url)
    assert f"{mirror.url}org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar" in str(told.value)
    assert "HEADRACE_KAFKA_JAR_MIRROR" in str(told.value)
    assert str(cache / "fetch.log") in str(told.value)
    assert len(list(cache.glob("jars/*.jar"))) == 3


def test_a_mirror_that_does_not_answer_is_told_within_seconds(cache: Path) -> None:
    with pytest.raises(Retriable, match=r"4 of 4 jars could not be fetched.*Connection refused"):
        fetch(SPARK_CONNECTOR, cache=cache, mirror="http://127.0.0.1:9/")


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, mirror: Mirror) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Terminal, match=r"cache folder .*file/cache: can't keep the jars: Not a directory"):
        fetch(SPARK_CONNECTOR, cache=tmp_path / "file" / "cache", mirror=mirror.url)


def test_the_bundled_java_trusts_the_authorities_of_this_machine(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority("a company's own")
    pair = authority.broker()
    (tmp_path / "server.pem").write_text(pair.key + pair.certificate)
    (tmp_path / "bundle.pem").write_text(authority.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    with Mirror(tmp_path / "mirror", context).serving() as mirror:
        with pytest.raises(Retriable, match="certificate"):
            fetch(SPARK_CONNECTOR, cache=cache, java=java_home("bundled"), mirror=mirror.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.pem"))
        assert fetch(SPARK_CONNECTOR, cache=cache, java=java_home("bundled"), mirror=mirror.url)
