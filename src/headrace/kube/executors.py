"""Dispatchers whose Spark has executors in pods of their own: what is added to the dispatcher's pod, and what executors are like. Pure.

Spark makes the executors, from a template that the dispatcher's pod carries: a change of it starts the dispatcher anew.
"""

from __future__ import annotations

import json

from headrace.control.model import Json
from headrace.kube import labels
from headrace.kube.settings import PlaneSettings

DRIVER_PORT, BLOCK_PORT = 7078, 7079
_TMP = "/tmp"


def with_executors(pod: Json, name: str, settings: PlaneSettings, namespace: str, api_server: str, account: str) -> Json:
    """The pod of dispatcher `name`, told of its executors; as it is where it has none. `account`: folder with a pod's token.

    Its ServiceAccount may make pods. The executors have that of the rest of the data plane, which may not.
    """
    if not settings.executors:
        return pod
    container = pod["containers"][0]
    values = {
        "EXECUTORS": str(settings.executors),
        "EXECUTOR_SLOTS": str(settings.executor_slots),
        "EXECUTOR_TEMPLATE": json.dumps(executor_pod(pod, name, settings, namespace), sort_keys=True),
        "DRIVER_PORT": str(DRIVER_PORT),
        "BLOCK_PORT": str(BLOCK_PORT),
        "API_CA_FILE": f"{account}/ca.crt",
        "API_TOKEN_FILE": f"{account}/token",
    }
    fields = {"POD": "metadata.name", "POD_IP": "status.podIP"}
    env: list[Json] = [{"name": f"HEADRACE_DISPATCHER_{key}", "value": value} for key, value in values.items()]
    env += [{"name": f"HEADRACE_DISPATCHER_{key}", "valueFrom": {"fieldRef": {"fieldPath": at}}} for key, at in fields.items()]
    ports = [
        {"name": title, "containerPort": number, "protocol": "TCP"}
        for title, number in (("driver", DRIVER_PORT), ("blocks", BLOCK_PORT))
    ]
    container = {
        **container,
        "args": [*container["args"], f"--master=k8s://{api_server}"],
        "env": [*container["env"], *env],
        "ports": [*container["ports"], *ports],
    }
    return {**pod, "serviceAccountName": settings.dispatcher_account, "containers": [container]}


def executor_pod(pod: Json, name: str, settings: PlaneSettings, namespace: str) -> Json:
    """The template of the executors of dispatcher `name`, whose pod is `pod`: the same image, with the same restrictions."""
    container, size = pod["containers"][0], settings.executor
    tags = {labels.NAME: "headrace-executor", labels.COMPONENT: "executor", labels.DISPATCHER: name}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    kept = {key: pod[key] for key in ("securityContext", "imagePullSecrets") if key in pod}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "labels": labels.MANAGED | tags},
        "spec": {
            **kept,
            "serviceAccountName": settings.account,
            "restartPolicy": "Never",
            "topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {labels.DISPATCHER: name}}}],
            "containers": [
                {
                    **{key: container[key] for key in ("image", "imagePullPolicy", "securityContext")},
                    "name": "executor",
                    "env": [{"name": "HOME", "value": _TMP}],
                    "resources": size.resources,
                    "volumeMounts": [{"name": "tmp", "mountPath": _TMP}],
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
