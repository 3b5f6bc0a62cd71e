"""Run Ivy, which comes inside Spark, to fetch jars that are named exactly. It looks nothing up: no metadata, no dependencies."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headrace.base.errors import Terminal
from headrace.kafka.trust import proxy_options, trust_options

_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <resolvers><ibiblio name="maven" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="headrace" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = '    <dependency org={0} name={1} rev={2} conf="default->*" transitive="false"/>'
_TIMEOUTS = ("-Dsun.net.client.defaultConnectTimeout=10000", "-Dsun.net.client.defaultReadTimeout=30000")
_SUCCESS = re.compile(r"\[SUCCESSFUL \] (\S+)#(\S+);(\S+)!")
_URL = re.compile(r"\s+(https?://\S+\.jar)\s*$")
_REASON = re.compile(r"(?:Server access [Ee]rror|Host \S+ not found|module not found|download failed|No space left).*")

Coordinates = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of Ivy brought: coordinates -> file in its cache; and where it looked and what stood in the way."""

    found: dict[Coordinates, Path]
    tried: list[str]
    reasons: list[str]


def run_ivy(
    java: Path,
    wanted: Sequence[Coordinates],
    folder: Path,
    on_jar: Callable[[Coordinates], None],
    log: Path,
    *,
    mirror: str = "",
    machine_trust: bool = True,
) -> Outcome:
    """Fetch `wanted` (organisation, module, revision) into `folder`; what Ivy says is added to `log`.

    `on_jar` is called as each arrives. With `machine_trust` the machine's certificate authorities apply, else Java's own.
    """
    (folder / "settings.xml").write_text(_SETTINGS.format(root=f" root={quoteattr(mirror)}" if mirror else ""))
    (folder / "ivy.xml").write_text(
        _MODULE.format(dependencies="\n".join(_DEPENDENCY.format(*map(quoteattr, jar)) for jar in wanted))
    )
    command = [
        str(java),
        *_TIMEOUTS,
        *(trust_options(folder) if machine_trust else []),
        *proxy_options(os.environ),
        *("-jar", str(_ivy_jar()), "-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "cache"),
    ]
    lines: list[str] = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if match := _SUCCESS.search(line):
                on_jar((match[1], match[2], match[3]))
    with log.open("a") as file:
        file.writelines(lines)
    return Outcome(_found(wanted, folder / "cache"), _distinct(_URL, lines, 1), _distinct(_REASON, lines, 0))


def _ivy_jar() -> Path:
    spark = importlib.util.find_spec("pyspark")
    for place in (spark.submodule_search_locations or []) if spark else []:
        for jar in Path(place, "jars").glob("ivy-*.jar"):
            return jar
    raise Terminal(
        "Spark's package has no Ivy to fetch jars with", subject="pyspark", hint="Install Headrace anew: its pyspark is broken"
    )


def _found(wanted: Sequence[Coordinates], cache: Path) -> dict[Coordinates, Path]:
    places = {jar: cache / jar[0] / jar[1] / "jars" / f"{jar[1]}-{jar[2]}.jar" for jar in wanted}
    return {jar: path for jar, path in places.items() if path.is_file()}


def _distinct(pattern: re.Pattern[str], lines: Sequence[str], group: int) -> list[str]:
    return list(dict.fromkeys(match[group].strip() for line in lines if (match := pattern.search(line))))
