"""Headrace in a test's cluster: the chart's objects, operators as processes under the chart's ServiceAccount, and the data plane.

No kubelet runs, so the data plane's processes are started here, from the arguments of the Deployments that the operator made: mounted
ConfigMaps and Secrets become files that follow them, and addresses of Services lead to the receiver's ports.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

from headrace.kafka.ports import free_port
from headrace.kafka.settings import KafkaSettings
from tests.kube.cluster import Cluster, tool
from tests.support.waiting import eventually

Json = dict[str, Any]
NAMESPACE = "knative-eventing"
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "headrace"


def rendered(bootstrap: str, **values: str) -> list[Json]:
    """The chart's objects."""
    helm = tool("helm")
    assert helm is not None
    settings = {"kafka.bootstrapServers": bootstrap.replace(",", "\\,"), **values}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [helm, "template", "headrace", str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.37.0", *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return [obj for obj in yaml.safe_load_all(result.stdout) if obj]


class Process:
    """One `headrace` process with a log."""

    def __init__(self, name: str, arguments: list[str], env: Mapping[str, str], folder: Path, ops_port: int) -> None:
        self.log_path = folder / f"{name}.log"
        self.ops_port = ops_port
        self.stopped = False
        self._command = [sys.executable, "-m", "headrace", *arguments]
        self._folder = folder
        clean = {
            key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_") or key == "HEADRACE_CACHE_DIR"
        }
        self._env = {**clean, **env}
        self.popen = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as out:
            return subprocess.Popen(
                self._command,
                env=self._env,
                cwd=self._folder,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def revive(self) -> None:
        """Start it again if it has ended by itself, as a kubelet does."""
        if not self.stopped and self.popen.poll() is not None:
            self.popen = self._start()

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def ready(self) -> bool:
        """Whether `/readyz` says so."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it for good."""
        self.stopped = True
        if self.popen.poll() is None:
            self.popen.send_signal(number)
            try:
                self.popen.wait(40)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Installation:
    """The chart with `values` in `cluster`, on `kafka`, which `secret` opens, under an instance name of its own."""

    def __init__(
        self,
        cluster: Cluster,
        kafka: KafkaSettings,
        folder: Path,
        instance: str,
        values: Mapping[str, str] | None = None,
        secret: Json | None = None,
    ) -> None:
        self._values = dict(values or {})
        self._secret = secret
        if secret is not None:
            self._values["kafka.authSecret"] = secret["metadata"]["name"]
        self.cluster = cluster
        self.kafka = kafka
        self.folder = folder
        self.instance = instance
        self.webhook_port = free_port()
        self.operators: list[Process] = []
        self.plane: dict[str, Process] = {}
        self.receiver_port, self.receiver_tls_port = free_port(), free_port()
        self._mounts: dict[Path, tuple[str, str]] = {}
        self._closing = threading.Event()
        self._mounter = threading.Thread(target=self._mount, daemon=True)

    def install(self) -> None:
        """Apply all but the operator's Deployment, and the webhooks' Service: they are reached at a port here."""
        objects = rendered(self.kafka.bootstrap_servers, **self._values)
        kept = []
        for obj in objects:
            if obj["kind"] in ("Deployment", "PodDisruptionBudget"):
                continue
            for hook in obj.get("webhooks", ()):
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://localhost:{self.webhook_port}{path}"
            kept.append(obj)
        self.cluster.apply(*[obj for obj in kept if "webhooks" not in obj])
        if self._secret is not None:
            self.cluster.apply(self._secret)
        self.operator_config = self.cluster.config_of("operator", self._token("headrace-controller"))
        self.cluster.kubectl(
            "wait", "--for=condition=Established", "--timeout=240s", "crd", "-l", "app.kubernetes.io/part-of=headrace"
        )
        self.cluster.apply(*[obj for obj in kept if "webhooks" in obj])
        self._mounter.start()

    def begin(self, **env: str) -> None:
        """Install; then an operator and a receiver run. `env`: of the operator."""
        self.install()
        operator = self.operator(webhooks=True, **env)
        self.wait(operator.ready, 300, "the operator is ready")
        self.wait(lambda: self.cluster.exists("deployment/headrace-receiver", NAMESPACE), 180, "the receiver is deployed")
        receiver = self.run_pod("headrace-receiver")
        self.wait(receiver.ready, 300, "the receiver is ready")

    def operator(self, *, webhooks: bool = True, **env: str) -> Process:
        """Start an operator; the first one answers the webhooks."""
        ops_port = free_port()
        settings = {
            "HEADRACE_KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "HEADRACE_INSTANCE": self.instance,
            "HEADRACE_KUBERNETES_KUBECONFIG": str(self.operator_config),
            "HEADRACE_KUBERNETES_NAMESPACE": NAMESPACE,
            "HEADRACE_KUBERNETES_IMAGE": "headrace:test",
            "HEADRACE_KUBERNETES_HOST": "127.0.0.1",
            "HEADRACE_KUBERNETES_WEBHOOK_PORT": str(self.webhook_port if webhooks else 0),
            "HEADRACE_KUBERNETES_WEBHOOK_NAMES": "localhost",
            "HEADRACE_CONTROLLER_OPS_PORT": str(ops_port),
            "HEADRACE_CONTROLLER_PARTITIONS": "1",
            **env,
        }
        if self._secret is not None:
            name = self._secret["metadata"]["name"]
            settings |= {"HEADRACE_KAFKA_AUTH": str(self._secret_folder(name)), "HEADRACE_KUBERNETES_AUTH_SECRET": name}
        process = Process(f"operator-{len(self.operators)}", ["controller", "--kubernetes"], settings, self.folder, ops_port)
        self.operators.append(process)
        return process

    def deployment(self, name: str) -> Json:
        return self.cluster.get(f"deployment/{name}", NAMESPACE)

    def run_pod(self, name: str) -> Process:
        """Run what the Deployment says, as its container would."""
        pod = self.deployment(name)["spec"]["template"]["spec"]
        container, account = pod["containers"][0], self.account(pod["serviceAccountName"])
        ops_port = free_port()
        folder = self.folder / name
        ports = {"8080": self.receiver_port, "8443": self.receiver_tls_port}
        arguments = []
        for word in container["args"]:
            option, _, value = word.partition("=")
            if word.startswith("--contract=file:"):
                files = word.removeprefix("--contract=file:").split(",")
                word = "--contract=file:" + ",".join(str(self._mounted(name, file)) for file in files)
            elif word.startswith("--ops-port="):
                word = f"--ops-port={ops_port}"
            elif option in ("--port", "--tls-port"):
                word = f"{option}={ports[value]}"
            elif option in ("--tls-cert", "--tls-key"):
                word = f"{option}={self._mounted(name, value)}"
            elif word.startswith("--data-dir="):
                word = f"--data-dir={folder}"
            arguments.append(self._here(word, account))
        env = {
            entry["name"]: self._here(entry["value"], account) if "value" in entry else self._field(name, entry["valueFrom"])
            for entry in container["env"]
            if entry["name"] != "HOME"
        }
        env |= {"HEADRACE_KUBERNETES_KUBECONFIG": str(account / "config"), "HEADRACE_DISPATCHER_OPS_HOST": "127.0.0.1"}
        if "HEADRACE_KAFKA_AUTH" in env:
            what = self._volume(name, env["HEADRACE_KAFKA_AUTH"])
            env["HEADRACE_KAFKA_AUTH"] = str(self._secret_folder(what.partition("/")[2]))
        process = self.plane[name] = Process(name, arguments, env, self.folder, ops_port)
        return process

    def pod(self, name: str) -> Json:
        """The Pod object that the cluster's controllers made for the Deployment; nothing runs in it."""

        def found() -> Json | None:
            pods = self.cluster.get("pods", NAMESPACE)["items"]
            ours = [one for one in pods if one["metadata"]["labels"]["app.kubernetes.io/name"] == name]
            return next((one for one in ours if "deletionTimestamp" not in one["metadata"]), None)

        eventually(lambda: found() is not None, 120, f"the pod of {name}", interval=0.3)
        return found() or {}

    def _field(self, name: str, source: Json) -> str:
        """What the downward API says of the Deployment's pod, which is this machine."""
        return "127.0.0.1" if source["fieldRef"]["fieldPath"] == "status.podIP" else str(self.pod(name)["metadata"]["name"])

    def _token(self, account: str) -> str:
        return self.cluster.kubectl("create", "token", account, "-n", NAMESPACE, "--duration=4h").stdout.strip()

    def account(self, name: str) -> Path:
        """A folder with what a kubelet mounts of a ServiceAccount, and a kubeconfig of it."""
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            token = self._token(name)
            (folder / "token").write_text(token)
            shutil.copy(self.cluster.authority, folder / "ca.crt")
            self.cluster.config_of(name, token).rename(folder / "config")
        return folder

    def _here(self, value: str, account: Path) -> str:
        """Of a value that means something in a pod, what means that here."""
        value = value.replace("https://kubernetes.default.svc", self.cluster.url)
        return value.replace("/var/run/secrets/kubernetes.io/serviceaccount", str(account))

    def ready(self, what: str, namespace: str, status: str = "True") -> bool:
        """Whether the object's Ready is so."""
        return self.condition(what, namespace).get("status") == status

    def condition(self, what: str, namespace: str, kind: str = "Ready") -> Json:
        conditions = self.cluster.get(what, namespace).get("status", {}).get("conditions", [])
        return next((dict(one) for one in conditions if one["type"] == kind), {})

    def wait_ready(self, what: str, namespace: str, seconds: float = 180) -> None:
        try:
            eventually(lambda: self.ready(what, namespace), seconds, f"{what} is Ready", interval=0.3)
        except AssertionError:
            status = self.cluster.get(what, namespace).get("status", {})
            raise AssertionError(f"{what}: {yaml.safe_dump(status)}\n{self.logs()}") from None

    def wait(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Wait; a failure shows the logs of all processes."""
        try:
            eventually(condition, seconds, what, interval=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def logs(self) -> str:
        parts = [*self.operators, *self.plane.values()]
        return "\n".join(f"--- {part.log_path.name}\n{part.log[-2500:]}" for part in parts)

    def send(self, address: str, event_id: str, *, token: str = "", authority: str = "", **attributes: str) -> int:
        """POST an event to `status.address.url`, whose host leads to the receiver here; the status of the answer.

        With https, the receiver's certificate has to be one for that host, signed by `authority` (PEM).
        """
        parts = urlsplit(address)
        headers = {"ce-specversion": "1.0", "ce-id": event_id, "ce-source": "/test", "ce-type": "test", "Host": parts.netloc}
        headers |= {f"ce-{name}": value for name, value in attributes.items()}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Content-Type": "application/json"}
        port = self.receiver_tls_port if parts.scheme == "https" else self.receiver_port
        url = f"{parts.scheme}://127.0.0.1:{port}{parts.path or '/'}"
        trusted = ssl.create_default_context(cadata=authority or None)
        with httpx.Client(verify=trusted, trust_env=False, timeout=10) as client:
            return client.post(url, content=b"{}", headers=headers, extensions={"sni_hostname": parts.hostname}).status_code

    def close(self) -> None:
        self._closing.set()
        if self._mounter.ident is not None:
            self._mounter.join()
        for process in (*self.operators, *self.plane.values()):
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _mounted(self, deployment: str, file: str) -> Path:
        """The file for a path in a pod, from the ConfigMap or Secret that is mounted there."""
        folder, _, key = file.rpartition("/")
        return self._file(self._volume(deployment, folder), key)

    def _volume(self, deployment: str, folder: str) -> str:
        """What is mounted at a path: `configmap/NAME` or `secret/NAME`."""
        pod = self.deployment(deployment)["spec"]["template"]["spec"]
        mount = next(one for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == folder)
        volume = next(one for one in pod["volumes"] if one["name"] == mount["name"])
        if "configMap" in volume:
            return f"configmap/{volume['configMap']['name']}"
        return f"secret/{volume['secret']['secretName']}"

    def _secret_folder(self, name: str) -> Path:
        """A folder with a file for each key of a Secret."""
        files = [self._file(f"secret/{name}", key) for key in self.cluster.get(f"secret/{name}", NAMESPACE)["data"]]
        return files[0].parent

    def _file(self, what: str, key: str) -> Path:
        path = self.folder / "mounts" / what / key
        path.parent.mkdir(parents=True, exist_ok=True)
        self._mounts[path] = what, key
        self._refresh(path)
        return path

    def _mount(self) -> None:
        while not self._closing.wait(0.3):
            for one in self.operators:
                one.revive()
            for path in list(self._mounts):
                try:
                    self._refresh(path)
                except (AssertionError, subprocess.SubprocessError, OSError):
                    # As a kubelet does: a ConfigMap that is gone, or can't be read this time, leaves the files as they are.
                    pass

    def _refresh(self, path: Path) -> None:
        what, key = self._mounts[path]
        there = self.cluster.get(what, NAMESPACE)
        text = base64.b64decode((there.get("binaryData") or there.get("data") or {}).get(key, ""))
        if not path.exists() or path.read_bytes() != text:
            new = self.folder / f"{threading.get_ident()}.new"
            new.write_bytes(text)
            os.replace(new, path)
