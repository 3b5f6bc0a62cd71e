"""The Helm chart, rendered; skipped where Helm was not built (scripts/kube-binaries)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.base.config import load
from headrace.kube.crds import crds
from tests.kube.cluster import tool
from tests.kube.installation import CHART, rendered

needs_helm = pytest.mark.skipif(tool("helm") is None, reason="no helm: scripts/kube-binaries builds it once")


def kinds(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == kind]


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(tool("helm")), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_charts_crds_are_those_of_the_registry() -> None:
    for crd in crds():
        path = CHART / "files" / "crds" / f"{crd['metadata']['name']}.yaml"
        assert yaml.safe_load(path.read_text()) == crd, "run scripts/render-manifests"


@needs_helm
def test_lint_finds_nothing() -> None:
    result = helm("lint", "--strict", str(CHART), "--set", "kafka.bootstrapServers=k:9092")
    assert result.returncode == 0, result.stdout


@needs_helm
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("kafka.bootstrapServers=nonsense", "bootstrapServers"),
        ("controller.replicas=0", "replicas"),
        ("logLevel=LOUD", "logLevel"),
        ("authentication.defaultAuthorizationMode=allow-some", "defaultAuthorizationMode"),
        ("transportEncryption=enabled", "transportEncryption"),
        ("imagge=x", "imagge"),
    ],
)
def test_wrong_values_are_refused_by_the_schema(value: str, words: str) -> None:
    result = helm("template", "x", str(CHART), "--kube-version", "1.37.0", "--set", f"kafka.bootstrapServers=k:1,{value}")
    assert result.returncode != 0
    assert words in result.stderr


@needs_helm
def test_without_a_kafka_it_says_so() -> None:
    result = helm("template", "x", str(CHART), "--kube-version", "1.37.0")
    assert result.returncode != 0
    assert "which Kafka?" in result.stderr


@needs_helm
def test_no_role_has_a_wildcard() -> None:
    roles = [obj for obj in rendered("k:9092") if obj["kind"] in ("Role", "ClusterRole")]
    assert len(roles) >= 4
    for role in roles:
        for rule in role.get("rules") or ():
            values = [value for part in rule.values() for value in part]
            assert not [value for value in values if "*" in value], role["metadata"]["name"]


def granted(role: str, **values: str) -> set[str]:
    """`resource:verb` of a ClusterRole."""
    found = [obj for obj in kinds(rendered("k:9092", **values), "ClusterRole") if obj["metadata"]["name"] == role]
    return {f"{what}:{verb}" for rule in found[0]["rules"] for what in rule["resources"] for verb in rule["verbs"]}


@needs_helm
def test_service_accounts_and_their_tokens_are_out_of_reach_unless_authentication_is_on() -> None:
    on = {"authentication.enabled": "true"}
    added = granted("headrace-data-plane", **on) - granted("headrace-data-plane")
    assert added == {"serviceaccounts/token:create"}
    assert not any("serviceaccount" in right for right in granted("headrace-controller"))
    assert {f"serviceaccounts:{verb}" for verb in ("get", "list", "watch", "create")} <= granted("headrace-controller", **on)
    assert "serviceaccounts/token:create" not in granted("headrace-controller", **on)
    settings = load(None, {k: v for k, v in controller_env(rendered("k:9092", **on)).items() if "IDENTITY" in k}).settings
    assert (settings.identity.authentication, settings.identity.default_authorization_mode) == (True, "allow-same-namespace")


@needs_helm
@pytest.mark.spec("CP-X10")
def test_a_cluster_role_lets_others_resolve_our_addressables() -> None:
    roles = kinds(rendered("k:9092"), "ClusterRole")
    labelled = [r for r in roles if r["metadata"]["labels"].get("duck.knative.dev/addressable") == "true"]
    granted = {resource for role in labelled for rule in role["rules"] for resource in rule["resources"]}
    assert {"brokers", "channels", "kafkachannels", "brokers/status"} <= granted
    assert {verb for role in labelled for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


@needs_helm
def test_beside_knatives_core_only_our_own_kind_is_installed_and_checked() -> None:
    objects = rendered("k:9092", **{"crds.core": "false"})
    names = [obj["spec"]["names"]["kind"] for obj in kinds(objects, "CustomResourceDefinition")]
    assert names == ["KafkaChannel"]
    for configuration in kinds(objects, "ValidatingWebhookConfiguration"):
        rules = configuration["webhooks"][0]["rules"]
        assert [rule["resources"] for rule in rules] == [["kafkachannels"]]
    env = controller_env(objects)
    assert env["HEADRACE_KUBERNETES_BESIDE_CORE"] == "true"


@needs_helm
def test_uninstall_leaves_the_crds_and_so_the_users_objects() -> None:
    for crd in kinds(rendered("k:9092"), "CustomResourceDefinition"):
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def controller_env(objects: list[dict[str, Any]]) -> dict[str, str]:
    container = kinds(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


@needs_helm
def test_every_setting_that_the_chart_gives_is_one_that_the_operator_knows(tmp_path: Path) -> None:
    given = controller_env(rendered("k:9092", **{"kafka.authSecret": "s"}))
    settings = load(None, {name: value for name, value in given.items() if name.startswith("HEADRACE_")}).settings
    assert settings.kafka.bootstrap_servers == "k:9092"
    assert settings.kubernetes.auth_secret == "s"
    assert settings.kubernetes.receivers == 2
    assert settings.kubernetes.image.startswith("headrace:")


def test_every_value_is_documented_and_in_the_schema() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    for name, value in yaml.safe_load(text).items():
        known = schema["properties"][name]
        if isinstance(value, dict):
            assert set(value) == set(known["properties"]), name
    undocumented = [
        name
        for name, value in yaml.safe_load(text).items()
        if not isinstance(value, dict) and "\n# " not in text.split(f"\n{name}:")[0]
    ]
    assert undocumented == []
    for name, value in yaml.safe_load(text).items():
        for key in value if isinstance(value, dict) else ():
            assert re.search(rf"(# [^\n]*\n(  \w+: [^\n]*\n)?  {key}:)|(# [^\n]*{key}[^\n]*\n)", text), f"{name}.{key}"
