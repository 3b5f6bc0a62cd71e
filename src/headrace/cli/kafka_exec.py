"""`headrace kafka exec`: Kafka's own tools, with the jars that are here or in a pod."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from headrace.base.errors import Terminal, UsageError
from headrace.cli.output import error_console
from headrace.cli.settings import loaded


def run_tool(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- TOOL [ARGUMENT]...", help="bin/kafka-topics.sh and the like; then its arguments."),
    ] = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="In a pod of the cluster (made when absent), not here.")
    ] = False,
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="With --kubernetes: namespace of the pod.")] = "",
    pod: Annotated[str, typer.Option("--pod", help="With --kubernetes: name of the pod.")] = "kafka-tools",
    image: Annotated[str, typer.Option("--image", help="With --kubernetes: image to make the pod of.")] = "apache/kafka:4.3.1",
    context: Annotated[str, typer.Option("--context", help="With --kubernetes: context of kubectl.")] = "",
) -> None:
    """Run one of Kafka's own tools, its arguments unchanged: no shell reads them again. Ends with the tool's exit code.

    The local cluster's `--command-config` is `.headrace/cluster/auth/admin.properties`. KAFKA_OPTS are options for Java.
    """
    if not words:
        raise UsageError(
            "which tool?", hint="headrace kafka exec -- bin/kafka-topics.sh --bootstrap-server localhost:9092 --list"
        )
    sys.stdout.flush()
    if kubernetes:
        from headrace.kube.toolspod import ToolsPod

        tools = ToolsPod(namespace, pod, image, context)
        if tools.ensure():
            error_console().print(f"Pod {pod} was made; `kubectl delete pod {pod}` removes it.", markup=False)
        argv, env = tools.command(words, terminal=sys.stdin.isatty() and sys.stdout.isatty()), dict(os.environ)
    else:
        from headrace.kafka.java import java_home
        from headrace.kafka.runtime import KafkaRuntime
        from headrace.kafka.tools import tool_command

        runtime = KafkaRuntime.ready(java_home(loaded(None, {}).settings.kafka.java))
        command = tool_command(runtime, words, os.environ)
        argv, env = list(command.argv), dict(command.env)
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        raise Terminal(f"can't be started: {error.strerror}", subject=argv[0]) from error
