"""`scripts/fuzz`: let atheris search for inputs that break a decoder, guided by what the code does with them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["headrace.core"]):
    from tests.support import fuzzing


def main() -> None:
    """Ends with a status other than 0 at the first finding, which is kept as a file in the folder of cases."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("target", choices=sorted(fuzzing.TARGETS))
    parser.add_argument("--seconds", type=int, default=600, help="how long to search (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed searches the same way (default: another each time)")
    options = parser.parse_args()
    cases = fuzzing.CASES / options.target
    cases.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as found:
        for number, seed in enumerate(fuzzing.SEEDS[options.target]):
            Path(found, f"seed-{number}").write_bytes(seed)
        limits = [f"-max_total_time={options.seconds}", "-timeout=10", "-rss_limit_mb=1024", f"-seed={options.seed}"]
        atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={cases}/", found, str(cases)], fuzzing.TARGETS[options.target])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
