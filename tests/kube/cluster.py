"""A Kubernetes API of a test run's own: etcd, kube-apiserver, kube-controller-manager on the loopback address, RBAC in force.

No kubelet runs: Deployments are objects only, their processes are started by the tests that need them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from headrace.kafka.ports import free_port
from tests.support.certificates import Authority
from tests.support.waiting import eventually

Json = dict[str, Any]
ADMIN_TOKEN = "token-of-the-administrator"
USER_TOKEN = "token-of-a-user"
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager")


def binaries() -> Path:
    """The folder that scripts/kube-binaries fills."""
    cache = os.environ.get("HEADRACE_CACHE_DIR") or Path.home() / ".cache" / "headrace"
    return Path(cache) / "kube" / "bin"


def tool(name: str) -> str | None:
    """Where kubectl or helm is."""
    own = binaries() / name
    return str(own) if own.exists() else shutil.which(name)


class Cluster:
    """`start` takes about five seconds; `stop` ends what was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._etcd, self._peer = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = folder / "admin.kubeconfig"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._authority = Authority()

    def start(self) -> Cluster:
        self._write_files()
        self._start_etcd()
        self.start_api_server()
        self._start_controller_manager()
        return self

    def stop(self) -> None:
        for name in reversed(NAMES):
            self.end(name)

    def end(self, name: str) -> None:
        """Stop one of the processes."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_api_server(self) -> None:
        """Start the API server (again) and wait until it is ready."""
        pki = self.folder / "pki"
        self._run(
            "kube-apiserver",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--cert-dir={pki}",
            f"--tls-cert-file={pki / 'server.pem'}",
            f"--tls-private-key-file={pki / 'server.pem'}",
            f"--token-auth-file={pki / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={self.url}/",
            f"--service-account-key-file={pki / 'accounts.pub'}",
            f"--service-account-signing-key-file={pki / 'accounts.key'}",
            "--endpoint-reconciler-type=none",
        )
        eventually(self._ready, 240, "the API server is ready", interval=0.1)

    def config_of(self, name: str, token: str) -> Path:
        """A kubeconfig for the bearer of a token."""
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    @property
    def authority(self) -> Path:
        """PEM of the authority behind the API server's certificate."""
        return self.folder / "pki" / "ca.pem"

    def kubectl(
        self, *words: str, stdin: str | None = None, check: bool = True, config: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One kubectl command, as the administrator unless `config` says otherwise."""
        command = [str(tool("kubectl")), f"--kubeconfig={config or self.kubeconfig}", *words]
        cache = f"--cache-dir={self.folder / 'kubectl-cache'}"
        result = subprocess.run([*command, cache], input=stdin, capture_output=True, text=True, timeout=300, check=False)
        if check and result.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(words)}: {result.stderr[-1500:]}")
        return result

    def apply(
        self, *objects: Mapping[str, Any], check: bool = True, config: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`kubectl apply -f -`; what is wrong with an object is for the server to say."""
        text = yaml.safe_dump_all([dict(obj) for obj in objects])
        return self.kubectl("apply", "--validate=false", "-f", "-", stdin=text, check=check, config=config)

    def get(self, what: str, namespace: str | None = None) -> Json:
        """One object or list (`kubectl get -o json`)."""
        place = ["-n", namespace] if namespace else []
        return dict(json.loads(self.kubectl("get", what, *place, "-o", "json").stdout))

    def exists(self, what: str, namespace: str) -> bool:
        return self.kubectl("get", what, "-n", namespace, "--ignore-not-found", "-o", "name").stdout.strip() != ""

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        data = self.folder / "etcd"
        data.mkdir(mode=0o700, exist_ok=True)
        self._run(
            "etcd",
            "--name=it",
            f"--data-dir={data}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=it={peer}",
            "--log-level=warn",
        )

    def _start_controller_manager(self) -> None:
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--leader-elect=false",
            f"--service-account-private-key-file={self.folder / 'pki' / 'accounts.key'}",
            "--controllers=*",
            "--concurrent-gc-syncs=2",
        )

    def _run(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [str(binaries() / name), *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _ready(self) -> bool:
        process = self._processes["kube-apiserver"]
        assert process.poll() is None, f"kube-apiserver ended: {self.log('kube-apiserver')[-2000:]}"
        context = ssl.create_default_context(cafile=str(self.folder / "pki" / "ca.pem"))
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
        try:
            with urllib.request.urlopen(request, context=context, timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _write_files(self) -> None:
        pki = self.folder / "pki"
        pki.mkdir(parents=True)
        self._authority.server(pki)
        next(pki.glob("server-*.pem")).rename(pki / "server.pem")
        (pki / "ca.pem").write_text(self._authority.pem)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (pki / "accounts.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
        )
        (pki / "accounts.pub").write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        tokens = [(ADMIN_TOKEN, "admin", "system:masters"), (USER_TOKEN, "alice", "users")]
        (pki / "tokens.csv").write_text("".join(f'{token},{user},{user},"{group}"\n' for token, user, group in tokens))
        self.config_of("admin", ADMIN_TOKEN)


def missing_binaries(names: Sequence[str] = NAMES) -> list[str]:
    """What is not built yet."""
    return [name for name in names if not (binaries() / name).exists()]
