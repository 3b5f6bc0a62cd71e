"""Executors as pods of a Kubernetes cluster: what Spark is told for it.

The driver is in a pod too (client mode). Executors run the driver's image, which holds our code and the connector's jars, so nothing
is shipped. What a pod is like is said by a template, as in a Deployment; Spark adds its own environment, ports and scratch volume, and
makes the driver's pod the owner, with which executors go.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.base.errors import UsageError
from headrace.spark.collector import COLLECTOR

MASTER = "k8s://"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(k|M|G|T|Ki|Mi|Gi|Ti)?")
_UNITS = {None: 1, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_UNITS |= {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4}
_MEBI = 1024 * 1024
_LONGEST_PREFIX = 47
"""Spark's bound: with `-exec-` and a number a pod's name is a DNS label."""


@dataclass(frozen=True, slots=True)
class ExecutorPods:
    """`count` executors that each run `slots` tasks at once.

    `template`: JSON of a Pod with one container: its namespace, image, account, CPU request and memory limit are those of the executors.
    `pod`: name of the driver's pod in that namespace; `host`: its IP address, where executors reach `driver_port` and `block_port`
    (0: any free one). `ca_file`, `token_file`: PEM and bearer token for the API server; empty: those that a pod has. Raises
    `UsageError` for a template without what is needed.
    """

    count: int
    slots: int
    template: str
    pod: str
    host: str
    driver_port: int = 7078
    block_port: int = 7079
    ca_file: str = ""
    token_file: str = ""

    def __post_init__(self) -> None:
        if self.count < 1 or self.slots < 1:
            raise UsageError("at least one executor with one slot", subject="dispatcher.executors, dispatcher.executor_slots")
        for name, value in (("pod", self.pod), ("pod_ip", self.host)):
            if not value:
                raise UsageError("executors have to know the driver's pod", subject=f"dispatcher.{name}")
        self._find("metadata", "namespace")
        self._find("spec", "containers", 0, "image")

    def conf(self, heap: str, connector: tuple[Path, ...], folder: Path) -> dict[str, str]:
        """Spark's settings. Writes the template into `folder`, from where Spark reads it. `heap` of each executor, as in `512m`."""
        template = folder / "executor.json"
        template.write_text(self.template, encoding="utf-8")
        jars = ":".join(str(jar) for jar in connector)
        host = f"[{self.host}]" if ":" in self.host else self.host
        resources = ("spec", "containers", 0, "resources")
        limit = self._read(*resources, "limits", "cpu")
        settings = {
            "spark.driver.host": host,
            "spark.driver.bindAddress": host,
            "spark.driver.port": str(self.driver_port),
            "spark.driver.blockManager.port": str(self.block_port),
            "spark.blockManager.port": str(self.block_port),
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.executor.extraJavaOptions": " ".join(COLLECTOR),
            "spark.executor.instances": str(self.count),
            "spark.executor.cores": str(self.slots),
            "spark.executor.memory": heap,
            "spark.executor.memoryOverhead": f"{self._beside(heap)}m",
            # Executors come and go for as long as the driver lives, and it looks itself whether there are enough of them.
            "spark.executor.maxNumFailures": str(2**31 - 1),
            "spark.scheduler.minRegisteredResourcesRatio": "0",
            # A node that is gone says no goodbye: its executors count as lost after half a minute instead of Spark's two.
            "spark.executor.heartbeatInterval": "5s",
            "spark.storage.blockManagerHeartbeatTimeoutMs": "30s",
            "spark.network.timeoutInterval": "10s",
            # Plans hold the credentials of Kafka: only executors of this driver get them, and nobody reads along.
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.kubernetes.namespace": self._find("metadata", "namespace"),
            "spark.kubernetes.container.image": self._find("spec", "containers", 0, "image"),
            "spark.kubernetes.container.image.pullPolicy": self._read("spec", "containers", 0, "imagePullPolicy")
            or "IfNotPresent",
            "spark.kubernetes.executor.podTemplateFile": str(template),
            "spark.kubernetes.executor.podNamePrefix": _prefix(self.pod),
            "spark.kubernetes.executor.request.cores": self._find(*resources, "requests", "cpu"),
            **({"spark.kubernetes.executor.limit.cores": limit} if limit else {}),
            "spark.kubernetes.driver.pod.name": self.pod,
            # Pods are all that Spark makes and deletes then.
            "spark.kubernetes.executor.disableConfigMap": "true",
            "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
            "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
            "spark.kubernetes.driver.service.deleteOnTermination": "false",
        }
        account = self._read("spec", "serviceAccountName")
        return settings | ({"spark.kubernetes.authenticate.executor.serviceAccountName": account} if account else {})

    @property
    def java_options(self) -> list[str]:
        """How the driver's JVM gets at the API server.

        By properties of its client, which reads the token anew each minute: a file that Spark is told of it would read once, and a pod's
        token lasts an hour.
        """
        files = {"kubernetes.certs.ca.file": self.ca_file, "kubernetes.auth.serviceAccount.token": self.token_file}
        return ["-Dkubernetes.auth.tryKubeConfig=false", *(f"-D{name}={file}" for name, file in files.items() if file)]

    def _beside(self, heap: str) -> int:
        """MiB of the pod's memory that are not heap: the JVM's own and that of the Python workers."""
        text = self._find("spec", "containers", 0, "resources", "limits", "memory")
        beside = (bytes_of(text) - bytes_of(heap.upper() + "i")) // _MEBI
        if beside < bytes_of(heap.upper() + "i") // _MEBI:
            raise UsageError(
                f"{text} is too little for a heap of {heap} and the Python workers beside it",
                subject="memory of the executors",
                hint="Give twice the heap and 36 MB for each partition",
            )
        return beside

    def _find(self, *path: str | int) -> str:
        found = self._read(*path)
        if not found:
            raise UsageError(f"no {'.'.join(map(str, path))}", subject="dispatcher.executor_template")
        return found

    def _read(self, *path: str | int) -> str:
        try:
            found: Any = json.loads(self.template)
        except ValueError as error:
            raise UsageError(f"not JSON: {error}", subject="dispatcher.executor_template") from None
        for step in path:
            if isinstance(found, Mapping):
                found = found.get(str(step))
            else:
                found = found[step] if isinstance(found, list) and isinstance(step, int) and step < len(found) else None
        return str(found or "")


def bytes_of(text: str) -> int:
    """Bytes of a quantity of memory as Kubernetes writes it."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UsageError("not a size", subject=f"memory {text!r}", hint="Write it like 2Gi")
    return int(float(match[1]) * _UNITS[match[2]])


def _prefix(pod: str) -> str:
    """Names of executors begin so: different at each start of a driver, whose pod may live on."""
    return f"{pod[: _LONGEST_PREFIX - 9].rstrip('-.')}-{secrets.token_hex(4)}".replace(".", "-")
