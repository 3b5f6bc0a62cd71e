"""Kafka's own command line tools by the names of their scripts, run with the jars that are here."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from headrace.base.errors import UsageError
from headrace.kafka.runtime import Command, KafkaRuntime

_TOOLS = "org.apache.kafka.tools"
SCRIPTS: Mapping[str, str] = {
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-console-share-consumer": f"{_TOOLS}.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-delegation-tokens": f"{_TOOLS}.DelegationTokenCommand",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-dump-log": f"{_TOOLS}.DumpLogSegments",
    "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
    "kafka-features": f"{_TOOLS}.FeatureCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-jmx": f"{_TOOLS}.JmxTool",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": f"{_TOOLS}.ReplicaVerificationTool",
    "kafka-server-start": "kafka.Kafka",
    "kafka-share-consumer-perf-test": f"{_TOOLS}.ShareConsumerPerformance",
    "kafka-share-groups": f"{_TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-application-reset": f"{_TOOLS}.StreamsResetter",
    "kafka-streams-groups": f"{_TOOLS}.streams.StreamsGroupCommand",
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
}
"""Script of Kafka 4.3's `bin` folder, without `.sh` -> the class that it runs."""
_RUN_CLASS = "kafka-run-class"
_UTF8 = ("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8")


def tool_command(runtime: KafkaRuntime, words: Sequence[str], environ: Mapping[str, str]) -> Command:
    """The command for `bin/kafka-topics.sh ARGUMENT...`, the arguments unchanged; folder and `.sh` may be left out.

    `KAFKA_OPTS` of `environ` are further options for Java, as with the scripts. Raises `UsageError` naming the nearest tool.
    """
    name = PurePath(words[0]).name.removesuffix(".sh")
    arguments = list(words[1:])
    if name == _RUN_CLASS and arguments:
        main = arguments.pop(0)
    elif name in SCRIPTS:
        main = SCRIPTS[name]
    else:
        close = difflib.get_close_matches(name, SCRIPTS, n=1)
        hint = f"Did you mean {close[0]}.sh?" if close else f"There are {', '.join(SCRIPTS)}, and {_RUN_CLASS} CLASS"
        raise UsageError("no such tool of Kafka's", subject=words[0], hint=hint)
    return runtime.command(main, arguments, heap_mb=512, options=[*_UTF8, *shlex.split(environ.get("KAFKA_OPTS", ""))])
