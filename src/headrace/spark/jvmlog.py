"""What a JVM of Spark's logs: warnings to standard error, without the noise of queries that are ended on purpose."""

from __future__ import annotations

from pathlib import Path

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n%ex{short.message}%n
appender.out.filter.cancelled.type = RegexFilter
appender.out.filter.cancelled.regex = .*(TaskKilledException|was stopped|Aborting|Aborted|is aborting|aborted).*
appender.out.filter.cancelled.onMatch = DENY
appender.out.filter.cancelled.onMismatch = NEUTRAL
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.source.name = org.apache.spark.sql.kafka010.KafkaSourceProvider
logger.source.level = error
logger.kafka.name = org.apache.kafka.clients
logger.kafka.level = error
"""


def written(folder: Path) -> Path:
    """The file with these settings, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "log4j2.properties"
    path.write_text(_LOG4J, encoding="utf-8")
    return path


def option(path: Path) -> str:
    """The option of `java` that names it."""
    return f"-Dlog4j2.configurationFile=file:{path}"
