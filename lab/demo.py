"""The whole job on the virtual cluster, as one would type it, each step with its time.

Ends at the first step that ends otherwise than it must, with the cluster left as it is. Exit
codes: 0; 1, such a step; 130, interrupted.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.exit_codes import ExitCode

ROOT = Path(__file__).resolve().parents[1]
NODE, FAULT = "node2", "pfc-wrong-priority"
WRONG = "test_roce_qos.py"  # the tests that find it
# No larger: emulated processors move a few MB a second.
SIZES = "64K:512K"
FLEET = ("--stages", "fleet")
# An emulated processor takes long for what a server does in a second.
PATIENT = "--command-timeout=60"
OK, FAILED, PENDING = ExitCode.OK, ExitCode.FAILED, ExitCode.PENDING


@dataclass(frozen=True)
class Step:
    """A command, why it is run, and the exit codes that it may end with."""

    title: str
    command: Sequence[str]
    codes: tuple[ExitCode, ...] = (OK,)


def steps(site: str, suite: str, lab: Sequence[str] = ()) -> list[Step]:
    """Return the commands of the demonstration.

    Args:
        site: the cluster's site.
        suite: directory of the suite.
        lab: options of `rdmaprov lab` that name a cluster other than the default one.

    """
    return [
        Step("Boot two nodes with nothing configured", ["rdmaprov", "lab", *lab, "up"]),
        Step("Check the site", ["rdmaprov", "check", site]),
        # Nothing is pending if the demonstration was run before.
        Step("Show what would change", ["rdmaprov", "plan", site], (OK, PENDING)),
        Step("Apply the site, with a reboot where one is required", ["rdmaprov", "apply", site]),
        Step(
            "Verify every setting",
            ["pytest", suite, "--hosts=all", f"--inventory={site}", PATIENT],
        ),
        Step(
            "Run all-reduces over each rail, with gloo as there is no GPU",
            # pytest keeps no record of its result, and the last record may be
            # of a demonstration that was interrupted while its fault was there.
            # The stages before it start all ranks once more: minutes on emulated processors.
            ["rdmaprov", "accept", site, "--sizes", SIZES, "--ignore-validate", *FLEET],
        ),
        Step(
            f"Break a rail of {NODE}: PFC on the wrong priority",
            ["rdmaprov", "lab", *lab, "fault", NODE, FAULT],
        ),
        Step("Find the fault", ["rdmaprov", "validate", site, PATIENT], (FAILED,)),
        Step("Repair it", ["rdmaprov", "apply", site, "--drifted"]),
        Step("Verify the repair", ["rdmaprov", "validate", site, WRONG, PATIENT]),
        Step("Write the report", ["rdmaprov", "report"]),
    ]


def main() -> ExitCode:
    """Run all steps from the project's directory."""
    started = time.monotonic()
    try:
        return run(steps("inventory/lab", "validate/"), ROOT)
    except KeyboardInterrupt:
        _say("interrupted; the nodes keep running: rdmaprov lab status")
        return ExitCode.INTERRUPTED
    finally:
        _say(f"{_took(started)} in all; to stop the nodes: .venv/bin/rdmaprov lab down")


def run(listed: Sequence[Step], directory: Path) -> ExitCode:
    """Run steps, each named before with what is typed and after with its time."""
    for number, step in enumerate(listed, start=1):
        line = shlex.join(step.command)
        _say(f"{number}/{len(listed)} {step.title}", f"$ {line}")
        started = time.monotonic()
        program = Path(sys.executable).with_name(step.command[0])
        done = subprocess.run([program, *step.command[1:]], cwd=directory, check=False)
        if done.returncode == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if done.returncode not in step.codes:
            wanted = " or ".join(str(int(code)) for code in step.codes)
            _say(f"{line} ended with {done.returncode}, expected {wanted}; see its output above")
            return FAILED
        _say(f"{_took(started)}, exit code {done.returncode}")
    return OK


def _took(started: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    return f"{minutes} min {seconds} s"


def _say(*lines: str) -> None:
    for line in lines:
        print(f"== {line}" if not line.startswith("$") else line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
