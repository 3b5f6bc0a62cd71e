"""Run Ivy, which comes inside Spark, to fetch jars. For users these are named exactly and nothing is looked up: no metadata, no
dependencies. Only `kafka.jarlock`, which writes the list of names, asks for dependencies.
"""

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
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="maven"/>
  <resolvers><ibiblio name="maven" m2compatible="true" usepoms="{poms}"{root}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="headrace" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
{exclusions}
  </dependencies>
</ivy-module>
"""
_ALONE = '    <dependency org={0} name={1} rev={2} conf="default->*" transitive="false"/>'
_WITH_DEPENDENCIES = '    <dependency org={0} name={1} rev={2} conf="default->master,runtime"/>'
_WITHOUT = "    <exclude org={0} module={1}/>"
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
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
    without: Sequence[tuple[str, str]] | None = None,
) -> Outcome:
    """Fetch `wanted` (organisation, module, revision) into `folder`; what Ivy says is added to `log`.

    `on_jar` is called as each arrives. With `machine_trust` the machine's certificate authorities apply, else Java's own. `without`:
    None fetches exactly what is wanted; else dependencies too, except those (organisation, module) and what only they need.
    """
    (folder / "settings.xml").write_text(
        _SETTINGS.format(poms=str(without is not None).lower(), root=f" root={quoteattr(mirror)}" if mirror else "")
    )
    dependency = _ALONE if without is None else _WITH_DEPENDENCIES
    (folder / "ivy.xml").write_text(
        _MODULE.format(
            dependencies="\n".join(dependency.format(*map(quoteattr, jar)) for jar in wanted),
            exclusions="\n".join(_WITHOUT.format(*map(quoteattr, module)) for module in without or ()),
        )
    )
    command = [
        str(java),
        *_JVM,
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
    return Outcome(_found(folder / "cache"), _distinct(_URL, lines, 1), _distinct(_REASON, lines, 0))


def _ivy_jar() -> Path:
    spark = importlib.util.find_spec("pyspark")
    for place in (spark.submodule_search_locations or []) if spark else []:
        for jar in Path(place, "jars").glob("ivy-*.jar"):
            return jar
    raise Terminal(
        "Spark's package has no Ivy to fetch jars with", subject="pyspark", hint="Install Headrace anew: its pyspark is broken"
    )


def _found(cache: Path) -> dict[Coordinates, Path]:
    """Ivy keeps `ORGANISATION/MODULE/TYPE/MODULE-REVISION.jar`."""
    files = [(path, path.parent.parent) for path in cache.glob("*/*/*/*.jar")]
    return {
        (module.parent.name, module.name, path.stem.removeprefix(f"{module.name}-")): path for path, module in sorted(files)
    }


def _distinct(pattern: re.Pattern[str], lines: Sequence[str], group: int) -> list[str]:
    return list(dict.fromkeys(match[group].strip() for line in lines if (match := pattern.search(line))))
