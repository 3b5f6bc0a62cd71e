"""The process of an executor's pod: Spark says in the environment what to start, as it does to the images of its own.

Source: `entrypoint.sh` of Spark's image for Kubernetes, command `executor`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pyspark

from headrace.base.errors import UsageError
from headrace.spark import jvmlog

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")
_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def executor_process(environment: Mapping[str, str], java_home: Path, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of the executor's JVM. `folder` gets its log settings.

    Raises `UsageError` when the environment is not that of an executor's pod.
    """
    home = Path(pyspark.__file__).parent
    missing = [name for name in (*_ARGUMENTS.values(), "SPARK_EXECUTOR_MEMORY") if not environment.get(name)]
    if missing:
        raise UsageError(
            f"no {', '.join(missing)} in the environment",
            subject="headrace executor",
            hint="Spark starts it in pods that it makes: headrace dispatcher --master k8s://https://HOST:PORT",
        )
    numbered = [(int(match[1]), value) for name, value in environment.items() if (match := _JAVA_OPTION.fullmatch(name))]
    heap = environment["SPARK_EXECUTOR_MEMORY"]
    classes = [part for part in (environment.get("SPARK_CLASSPATH", ""), str(home / "jars" / "*")) if part]
    command = [
        str(java_home / "bin" / "java"),
        *(option for _, option in sorted(numbered)),
        jvmlog.option(jvmlog.written(folder)),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-cp",
        ":".join(classes),
        _BACKEND,
        *(word for option, name in _ARGUMENTS.items() for word in (option, environment[name])),
    ]
    return command, {**environment, "SPARK_HOME": str(home), "JAVA_HOME": str(java_home)}
