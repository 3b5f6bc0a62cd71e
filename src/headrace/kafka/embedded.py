"""A real Kafka on this machine: one KRaft node, one process, loopback only, its data in one folder.

    DATA/lock                the owner's process id, locked while it lives
    DATA/server.properties   written anew at each start
    DATA/log/                Kafka's storage, formatted once
    DATA/kafka.log           Kafka's own log;  DATA/kafka.out: what its JVM printed

Either `start` and `stop` it here, or let a supervisor run it: `prepare()`, then `command()`, then `wait_ready()`, in the end
`release()`.
"""

from __future__ import annotations

import atexit
import base64
import ctypes
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.base.classarchive import RECORDING_SECONDS
from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Terminal
from headrace.base.files import write_atomically
from headrace.base.log import get_logger
from headrace.kafka.admin import Admin
from headrace.kafka.diagnosis import diagnose
from headrace.kafka.folder import FolderLock, check_room, wait_for_kafka_to_leave
from headrace.kafka.jars import Progress
from headrace.kafka.java import JavaHome, java_home
from headrace.kafka.node import SINGLE_NODE, Listener, NodeConfig, render_log4j, render_properties
from headrace.kafka.ports import free_port, is_free
from headrace.kafka.runtime import SERVER, Command, KafkaRuntime
from headrace.kafka.settings import KafkaSettings

log = get_logger(__name__)

PLAIN_LISTENER = "PLAINTEXT"
_NODE = 1
_START_SECONDS = 240.0
_STOP_SECONDS = 20.0
_libc = ctypes.CDLL(None)


class EmbeddedKafka:
    """One Kafka in `data_dir`. `port` 0 is any free one, the same for the life of this object.

    `java` (default: `java_home()`) runs it with a heap of `heap_mb` MiB. `listeners` are further ones beside the plain one on
    `port`; `overrides` are further properties, `jvm_options` further options of Java. `log_path` (default: in the data folder)
    says where Kafka's log is.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        java: JavaHome | None = None,
        heap_mb: int = 512,
        log_path: Path | None = None,
        cache: Path | None = None,
        listeners: Sequence[Listener] = (),
        overrides: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
    ) -> None:
        self._folder = data_dir.absolute()
        self.port = port
        self._controller_port = 0
        self._java = java
        self._heap_mb = heap_mb
        self._cache = cache
        self._listeners = tuple(listeners)
        self._overrides = dict(overrides or {})
        self._jvm_options = tuple(jvm_options)
        self.log_path = (log_path or self._folder / "kafka.log").absolute()
        self.output_path = self._folder / "kafka.out"
        self._lock = FolderLock(self._folder)
        self._runtime: KafkaRuntime | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._served = False

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients; known once prepared."""
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> KafkaSettings:
        """How to reach it from this machine."""
        return KafkaSettings(self.bootstrap)

    @property
    def pid(self) -> int | None:
        """The process that `start` started, while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self, progress: Progress | None = None, deadline: Deadline | None = None) -> None:
        """Prepare, start the process and wait until it serves. Raises what stood in the way, after having cleaned up."""
        self.prepare(progress)
        command = self.command()
        with self.output_path.open("ab") as output:
            self._process = subprocess.Popen(
                command.argv,
                env=dict(command.env),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent if threading.current_thread() is threading.main_thread() else None,
            )
        atexit.register(self.stop)
        try:
            self.wait_ready(deadline or Deadline(_START_SECONDS), alive=lambda: self.pid is not None)
        except BaseException:
            self.stop(Deadline(5))
            raise
        log.info("Kafka is ready", address=self.bootstrap, pid=self.pid, data=self._folder, log=self.log_path)

    def stop(self, deadline: Deadline | None = None) -> None:
        """Stop the process cleanly; at the deadline, or if it was killed already, just see that it is gone. Safe to call again."""
        atexit.unregister(self.stop)
        if self._process is not None:
            self._process.terminate()
            try:
                recording = RECORDING_SECONDS if deadline is None and self._served and self.records else 0.0
                self._process.wait((deadline or Deadline(_STOP_SECONDS)).remaining() + recording)
            except subprocess.TimeoutExpired:
                log.warning("Kafka did not stop in time and is killed", pid=self._process.pid, log=self.log_path)
                self._process.kill()
                self._process.wait()
            self._process = None
        self.release()

    def kill(self) -> None:
        """End the process at once, as a crash would (SIGKILL); the data stays as it was."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> EmbeddedKafka:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # For a supervisor

    def prepare(self, progress: Progress | None = None) -> None:
        """Take the folder, fetch jars, write the configuration, format the storage the first time. May be called before each start.

        Raises `Terminal` (folder in use or not writable, disk full, port in use, no Java) or `Retriable` (jars not to be had).
        """
        check_room(self._folder)
        try:
            self._lock.take()
            wait_for_kafka_to_leave(self._log_dir, self._folder)
            self._choose_ports()
            if self._runtime is None:
                self._runtime = KafkaRuntime.ready(self._java or java_home(cache=self._cache), progress, self._cache)
            self._write_configuration(self._runtime)
        except OSError as error:
            self.release()
            raise Terminal(f"can't be written: {error.strerror}", subject=f"data folder {self._folder}") from error
        except BaseException:
            self.release()
            raise

    def command(self) -> Command:
        """The command line and environment of the server process; call `prepare` before."""
        if self._runtime is None:
            raise RuntimeError("prepare() comes first")
        return self._runtime.command(
            SERVER,
            [str(self._properties)],
            heap_mb=self._heap_mb,
            log4j=self._log4j,
            options=self._jvm_options,
            recording=True,
        )

    def wait_ready(self, deadline: Deadline, alive: Callable[[], bool] = lambda: True) -> None:
        """Wait until Kafka serves clients. Raises `Terminal` with the cause that its logs tell when `alive()` says that it ended, or
        at the deadline.
        """
        while is_free(self.port):
            self._check(deadline, alive)
            time.sleep(0.05)
        admin = Admin(self.settings, timeout=2.0)
        while True:
            try:
                if admin.cluster_info().brokers:
                    self._served = True
                    return
            except HeadraceError:
                pass
            self._check(deadline, alive)
            time.sleep(0.05)

    def release(self, *, served: bool = False) -> None:
        """Let another process have the folder; the server must have ended. `served`: it was ready, as its supervisor knows."""
        if self._runtime is not None:
            if served or self._served:
                self._runtime.classes.keep()
            else:
                self._runtime.classes.discard()
        self._lock.release()

    @property
    def records(self) -> bool:
        """Whether the server makes the archive of Kafka's classes at its end, which takes longer then."""
        return self._runtime is not None and self._runtime.classes.missing

    @property
    def subject(self) -> str:
        return f"Kafka in {self._folder}"

    @property
    def _log_dir(self) -> Path:
        return self._folder / "log"

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log4j(self) -> Path:
        return self._folder / "log4j2.properties"

    def _check(self, deadline: Deadline, alive: Callable[[], bool]) -> None:
        logs = [self.log_path, self.output_path]
        if not alive():
            raise diagnose(logs, "ended before it was ready", self.subject)
        if deadline.expired:
            raise diagnose(logs, "was not ready in time", self.subject)

    def _choose_ports(self) -> None:
        if self.port == 0:
            self.port = free_port()
        self._controller_port = free_port()
        if not is_free(self.port):
            raise Terminal(
                f"port {self.port} is in use by another process",
                subject=self.subject,
                hint="Stop that process or choose another port (0 takes any free one)",
            )

    def _write_configuration(self, runtime: KafkaRuntime) -> None:
        write_atomically(self._log4j, render_log4j(self.log_path).encode())
        if not (self._log_dir / "meta.properties").is_file():
            self._format(runtime)
        write_atomically(self._properties, render_properties(self._node(self._log_dir).properties()).encode(), mode=0o600)

    def _format(self, runtime: KafkaRuntime) -> None:
        """Format beside the place and then move: storage is there whole or not at all."""
        unfinished = self._folder / "log.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        write_atomically(self._properties, render_properties(self._node(unfinished).properties()).encode(), mode=0o600)
        runtime.format_storage(self._properties, new_cluster_id())
        unfinished.rename(self._log_dir)

    def _node(self, log_dir: Path) -> NodeConfig:
        return NodeConfig(
            node_id=_NODE,
            log_dir=log_dir,
            voters={_NODE: f"127.0.0.1:{self._controller_port}"},
            listeners=(Listener(PLAIN_LISTENER, self.port), *self._listeners),
            controller_port=self._controller_port,
            overrides={**SINGLE_NODE, **self._overrides},
        )


def new_cluster_id() -> str:
    """A cluster id as Kafka makes them: 16 random bytes in URL-safe base64, not beginning with a dash."""
    while True:
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not name.startswith("-"):
            return name


def _end_with_parent() -> None:
    """In the child, before it becomes Kafka: be told to stop when the thread that started it is gone."""
    _libc.prctl(1, signal.SIGTERM)
