"""What Spark is told of executors in pods, and what their processes are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.base.errors import UsageError
from headrace.spark.executor import executor_process
from headrace.spark.pods import ExecutorPods
from headrace.spark.settings import SparkSettings

JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))
RESOURCES = {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
POD = "kafka-broker-dispatcher-6c9d8f7b5-x2k4q"


def template(**container: Any) -> str:
    one = {"name": "executor", "image": "headrace:1", "imagePullPolicy": "Always", "resources": RESOURCES, **container}
    return json.dumps({"metadata": {"namespace": "ns"}, "spec": {"serviceAccountName": "account", "containers": [one]}})


PODS = ExecutorPods(count=2, slots=8, template=template(), pod=POD, host="10.0.0.1")


def test_a_pods_template_says_what_executors_are_like(tmp_path: Path) -> None:
    conf = PODS.conf("512m", JARS, tmp_path)
    assert json.loads(Path(conf["spark.kubernetes.executor.podTemplateFile"]).read_text()) == json.loads(template())
    assert conf["spark.kubernetes.namespace"] == "ns"
    assert conf["spark.kubernetes.container.image"] == "headrace:1"
    assert conf["spark.kubernetes.container.image.pullPolicy"] == "Always"
    assert conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == "account"
    assert conf["spark.kubernetes.executor.request.cores"] == "500m"
    assert "spark.kubernetes.executor.limit.cores" not in conf
    assert (conf["spark.executor.instances"], conf["spark.executor.cores"]) == ("2", "8")


def test_heap_and_what_is_beside_it_make_the_memory_of_the_pod(tmp_path: Path) -> None:
    conf = PODS.conf("512m", JARS, tmp_path)
    assert (conf["spark.executor.memory"], conf["spark.executor.memoryOverhead"]) == ("512m", "1536m")


@pytest.mark.parametrize(("memory", "beside"), [("1Gi", "512m"), ("2G", "1395m"), ("1536Mi", "1024m"), ("1073741824", "512m")])
def test_memory_is_read_as_kubernetes_writes_it(memory: str, beside: str, tmp_path: Path) -> None:
    pods = replace(PODS, template=template(resources={"requests": {"cpu": "1"}, "limits": {"memory": memory}}))
    assert pods.conf("512m", JARS, tmp_path)["spark.executor.memoryOverhead"] == beside


@pytest.mark.parametrize(("memory", "why"), [("1000Mi", "too little"), ("2 GB", "not a size")])
def test_memory_that_can_not_be_is_refused(memory: str, why: str, tmp_path: Path) -> None:
    pods = replace(PODS, template=template(resources={"requests": {"cpu": "1"}, "limits": {"memory": memory}}))
    with pytest.raises(UsageError, match=why):
        pods.conf("512m", JARS, tmp_path)


def test_names_of_executors_are_short_and_another_start_has_others(tmp_path: Path) -> None:
    key = "spark.kubernetes.executor.podNamePrefix"
    long = replace(PODS, pod=f"kafka-channel-dispatcher-{'x' * 38}")
    first, second = (long.conf("512m", JARS, tmp_path)[key] for _ in range(2))
    assert first != second
    assert len(first) == len(second) == 47, "more is refused by Spark"
    assert PODS.conf("512m", JARS, tmp_path)[key].startswith("kafka-broker-dispatcher-6c9d8f7b5")


def test_an_address_of_six_parts_is_written_as_spark_reads_it(tmp_path: Path) -> None:
    conf = replace(PODS, host="fd00::1").conf("512m", JARS, tmp_path)
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "[fd00::1]"


def test_only_pods_are_made_and_only_their_driver_reads_along(tmp_path: Path) -> None:
    conf = PODS.conf("512m", JARS, tmp_path)
    assert conf["spark.kubernetes.executor.disableConfigMap"] == "true"
    assert conf["spark.kubernetes.driver.ownPersistentVolumeClaim"] == "false"
    assert conf["spark.kubernetes.driver.service.deleteOnTermination"] == "false"
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"


def test_the_api_servers_files_are_given_to_the_client_that_reads_them_again() -> None:
    assert PODS.java_options == ["-Dkubernetes.auth.tryKubeConfig=false"]
    options = replace(PODS, ca_file="/a/ca.crt", token_file="/a/token").java_options
    assert options[1:] == ["-Dkubernetes.certs.ca.file=/a/ca.crt", "-Dkubernetes.auth.serviceAccount.token=/a/token"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"count": 0}, "at least one executor"),
        ({"slots": 0}, "at least one executor"),
        ({"pod": ""}, "driver's pod"),
        ({"host": ""}, "driver's pod"),
        ({"template": ""}, "not JSON"),
        ({"template": "[]"}, "metadata.namespace"),
        ({"template": template(image="")}, r"spec.containers.0.image"),
    ],
)
def test_what_is_missing_is_said(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        replace(PODS, **changed)


@pytest.mark.parametrize(("master", "pods"), [("k8s://https://api", None), ("spark://host:7077", PODS), ("local[4]", PODS)])
def test_pods_and_a_kubernetes_master_go_together(master: str, pods: ExecutorPods | None) -> None:
    with pytest.raises(UsageError, match="executors in pods"):
        SparkSettings(Path("java"), JARS, Path("w"), Path("l"), daemon="d", master=master, pods=pods)


ENVIRONMENT = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "8",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_EXECUTOR_POD_NAME": "it-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_CLASSPATH": "/jars/a.jar",
    "SPARK_JAVA_OPT_0": "-Dfirst=0",
    "SPARK_JAVA_OPT_10": "-Dlast=10",
    "SPARK_JAVA_OPT_2": "-Dmiddle=2 with a space",
    "OTHER": "kept",
}


def test_an_executors_process_is_what_its_pods_environment_says(tmp_path: Path) -> None:
    command, environment = executor_process(ENVIRONMENT, tmp_path / "java", tmp_path / "own")
    assert command[:4] == [str(tmp_path / "java/bin/java"), "-Dfirst=0", "-Dmiddle=2 with a space", "-Dlast=10"]
    assert {"-Xms512m", "-Xmx512m"} <= set(command)
    classes = command[command.index("-cp") + 1].split(":")
    assert classes[0] == "/jars/a.jar"
    assert next(Path(classes[1]).parent.glob("spark-core*.jar"), None), "Spark's own jars"
    words = command[command.index("-cp") + 2 :]
    assert words[0].endswith(".KubernetesExecutorBackend")
    assert dict(zip(words[1::2], words[2::2], strict=True)) == {
        "--driver-url": ENVIRONMENT["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "8",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.2",
        "--resourceProfileId": "0",
        "--podName": "it-exec-3",
    }
    assert environment["OTHER"] == "kept"
    assert Path(environment["SPARK_HOME"], "jars").is_dir()


def test_outside_of_such_a_pod_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SPARK_DRIVER_URL"):
        executor_process({}, tmp_path, tmp_path)
