"""What the Kubernetes home decides for all its objects, from the settings of the process."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from headrace.base import config
from headrace.base.errors import UsageError
from headrace.control.model import KafkaRef, ObjectKey
from headrace.control.settings import Secure, Settings
from headrace.core.resources.duration import parse_duration
from headrace.core.resources.features import TRANSPORT_ENCRYPTION, Features
from headrace.home.features import features
from headrace.kube.labels import BROKER_INGRESS, INGRESS_CERTIFICATE
from headrace.kube.settings import OperatorSettings, PlaneSettings, Size, WebhookSettings
from headrace.spark.pods import bytes_of

CHANNEL_CONFIG = "kafka-channel-config"
_LEAST_EXECUTOR = 1 << 30
_OWN = frozenset({"eventing.knative.dev/Broker", "eventing.knative.dev/Trigger", "messaging.knative.dev/KafkaChannel"})


def operator_settings(settings: config.Settings) -> OperatorSettings:
    """Raises `UsageError` naming the setting that can't be used."""
    own, ops = settings.kubernetes, settings.controller
    if not own.image and own.deploy:
        raise UsageError(
            "which image does the data plane run?", subject="kubernetes.image", hint="Set HEADRACE_KUBERNETES_IMAGE"
        )
    if own.executors and bytes_of(own.executor_memory) < _LEAST_EXECUTOR:
        raise UsageError(
            f"{own.executor_memory} is too little for Spark's heap and the Python workers beside it",
            subject="kubernetes.executor_memory",
            hint="Give 1Gi or more",
        )
    return OperatorSettings(
        home=_home(settings),
        plane=PlaneSettings(
            image=own.image,
            bootstrap=settings.kafka.bootstrap_servers,
            auth_secret=own.auth_secret,
            pull_policy=own.image_pull_policy,
            pull_secrets=tuple(part for part in own.image_pull_secrets.split(",") if part),
            account=own.data_plane_account,
            receivers=own.receivers,
            receiver=Size(own.receiver_cpu, own.receiver_memory),
            dispatcher=Size(own.dispatcher_cpu, own.dispatcher_memory),
            dispatcher_per_broker=own.dispatcher_per_broker,
            executors=own.executors,
            executor=Size(own.executor_cpu, own.executor_memory),
            executor_slots=own.executor_slots,
            dispatcher_account=own.dispatcher_account,
            instance=settings.instance,
            log_level=settings.logs.level,
        ),
        namespace=own.namespace,
        identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{os.getpid()}",
        account=f"system:serviceaccount:{own.namespace}:{own.account}",
        deployment=own.deployment,
        webhook=WebhookSettings(
            host=own.host,
            port=own.webhook_port,
            service=own.webhook_service,
            configuration=own.webhook_configuration,
            days=own.certificate_days,
            names=tuple(part for part in own.webhook_names.split(",") if part),
        ),
        ops_host=own.host,
        ops_port=ops.ops_port,
        deploys=own.deploy,
    )


def _home(settings: config.Settings) -> Settings:
    own, ops = settings.kubernetes, settings.controller
    every = Settings(kafka=None)
    door = f"{BROKER_INGRESS}.{own.namespace}.svc.{own.cluster_domain}"
    return Settings(
        kafka=KafkaRef(settings.kafka.bootstrap_servers),
        instance=settings.instance,
        partitions=ops.partitions,
        replication=ops.replication,
        retention_ms=parse_duration(ops.retention),
        delivery={"retry": ops.retry, "backoffPolicy": ops.backoff_policy, "backoffDelay": ops.backoff_delay},
        base_url=f"http://{door}",
        cluster_domain=own.cluster_domain,
        channel_config=ObjectKey("", "ConfigMap", own.namespace, CHANNEL_CONFIG),
        system_namespace=own.namespace,
        reconciled=_OWN if own.beside_core else every.reconciled,
        features=_features(settings),
        own_accounts=True,
        host_addresses=True,
        # One certificate is shown for Brokers and channels alike, and one host name is in it.
        secure=Secure(f"https://{door}", ObjectKey("", "Secret", own.namespace, INGRESS_CERTIFICATE)),
    )


def _features(settings: config.Settings) -> Features:
    mode = settings.kubernetes.transport_encryption
    if mode not in TRANSPORT_ENCRYPTION:
        raise UsageError(
            f"expected one of {', '.join(TRANSPORT_ENCRYPTION)}", subject=f"kubernetes.transport_encryption {mode!r}"
        )
    return replace(features(settings.identity), transport_encryption=mode)
