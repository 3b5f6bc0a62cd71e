"""A pod with Kafka's tools in it, for clusters whose Kafka can't be reached from outside.

Through `kubectl`, which brings terminal, credentials and contexts with it. Arguments go to the tool as they are: no shell reads them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from headrace.kube.kubectl import Kubectl

_HOME = "/opt/kafka/bin"
_START_SECONDS = 300


@dataclass(frozen=True, slots=True)
class ToolsPod:
    """Which pod: it is made of `image` when it is not there, and stays until it is deleted."""

    namespace: str = ""
    name: str = "kafka-tools"
    image: str = "apache/kafka:4.3.1"
    context: str = ""

    def command(self, words: Sequence[str], *, terminal: bool) -> list[str]:
        """The command that runs the tool `words[0]` (`bin/kafka-topics.sh` and the like) there with the arguments after it."""
        script = PurePath(words[0]).name
        script = script if script.endswith(".sh") else f"{script}.sh"
        flags = ["-i", *(["-t"] if terminal else []), "-q"]
        return [*self._kubectl.prefix(), "exec", self.name, *flags, "--", f"{_HOME}/{script}", *words[1:]]

    def ensure(self) -> bool:
        """Make the pod unless it is there, and wait until it runs; whether it was made. Raises `Terminal` with kubectl's words."""
        made = False
        if not self._run("get", "pod", self.name, "--ignore-not-found", "-o", "name").strip():
            self._run("create", "-f", "-", stdin=json.dumps(self.manifest()))
            made = True
        self._run("wait", f"pod/{self.name}", "--for=condition=Ready", f"--timeout={_START_SECONDS}s")
        return made

    def manifest(self) -> dict[str, object]:
        """The pod: it sleeps, and has no rights that it does not need."""
        security = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container = {"name": "tools", "image": self.image, "command": ["sleep", "infinity"], "securityContext": security}
        labels = {"app.kubernetes.io/name": self.name, "app.kubernetes.io/managed-by": "headrace"}
        spec = {"containers": [container], "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name, "labels": labels}, "spec": spec}

    @property
    def _kubectl(self) -> Kubectl:
        return Kubectl(self.context, self.namespace)

    def _run(self, *arguments: str, stdin: str | None = None) -> str:
        return self._kubectl.run(*arguments, stdin=stdin, subject=f"kubectl {arguments[0]} of pod {self.name}")
