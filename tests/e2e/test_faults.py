"""A short run of the fault suite: `bench/faults` for long ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_random_faults_lose_nothing_break_no_order_and_repeat_only_around_crashes() -> None:
    command = [sys.executable, "-m", "bench.faults", "--minutes", "0.75", "--seed", "25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["accepted"] > 1000
    assert sum(found["faults"].values()) >= 1
    assert found["deliveries"] >= 3 * found["accepted"]
    assert (found["lost"], found["order_violations"], found["repeated_without_crash"]) == (0, 0, 0)
