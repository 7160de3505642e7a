"""The whole job on the virtual cluster, as one would type it, each step with its time.

Ends at the first step that ends otherwise than it must, with the cluster left as it is. Exit
codes: 0; 1, such a step; 130, interrupted.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.exit_codes import ExitCode

ROOT = Path(__file__).resolve().parents[1]
SITE = "inventory/lab"
NODE, FAULT = "node2", "pfc-wrong-priority"
WRONG = "test_roce_qos.py"  # the tests that find it
# No larger and no more: emulated processors move a few MB a second.
SIZES = "64K:128K"
# The stages before it start all ranks once more: minutes on emulated processors.
FLEET = ("--stages", "fleet")
# An emulated processor takes long for what a server does in a second: 60 s on a quiet machine.
PATIENT, COMMAND_TIMEOUT_S = "--command-timeout", 60
OK, FAILED, PENDING = ExitCode.OK, ExitCode.FAILED, ExitCode.PENDING


@dataclass(frozen=True)
class Step:
    """A command, why it is run, the exit codes that it may end with, and what takes its time.

    PATIENT in a command gets the limit that suits the speed of the machine.
    """

    title: str
    command: Sequence[str]
    codes: tuple[ExitCode, ...] = (OK,)
    takes: str = ""


def steps(site: str, lab: Sequence[str] = ()) -> list[Step]:
    """Return the commands of the demonstration.

    Args:
        site: the cluster's site.
        lab: options of `rdmaprov lab` that name a cluster other than the default one.
    """
    return [
        Step(
            "Boot two nodes with nothing configured",
            ["rdmaprov", "lab", *lab, "up"],
            takes="a minute, and 2 minutes before it where the images are not built yet",
        ),
        Step("Check the site", ["rdmaprov", "check", site]),
        Step(
            "Show what would change",
            ["rdmaprov", "plan", site],
            (OK, PENDING),  # nothing is pending if the demonstration was run before
        ),
        Step(
            "Apply the site, with a reboot where one is required",
            ["rdmaprov", "apply", site, "--yes"],
            takes="2 minutes, one of them for the reboot",
        ),
        Step(
            "Verify every setting", ["rdmaprov", "validate", site, PATIENT], takes="half a minute"
        ),
        Step(
            "Run all-reduces over each rail, with gloo as there is no GPU",
            ["rdmaprov", "accept", site, "--sizes", SIZES, *FLEET],
            takes="a minute and a half, half of it until torch is imported",
        ),
        Step(
            f"Break a rail of {NODE}: PFC on the wrong priority",
            ["rdmaprov", "lab", *lab, "fault", NODE, FAULT],
        ),
        # Not the whole suite once more: half a minute.
        Step("Find the fault", ["rdmaprov", "validate", site, WRONG, PATIENT], (FAILED,)),
        Step("Repair it", ["rdmaprov", "apply", site, "--drifted", "--yes"], takes="half a minute"),
        Step("Verify the repair", ["rdmaprov", "validate", site, WRONG, PATIENT]),
        Step("Write the report", ["rdmaprov", "report"]),
    ]


def main() -> ExitCode:
    """Run all steps from the project's directory."""
    started = time.monotonic()
    _say("what a step takes is said for two free processors without KVM")
    try:
        code = run(steps(SITE), ROOT)
    except KeyboardInterrupt:
        _say("interrupted; the nodes keep running: rdmaprov lab status")
        code = ExitCode.INTERRUPTED
    _say(f"{_took(started)} in all; to stop the nodes: .venv/bin/rdmaprov lab down")
    if code == OK:
        _say(*look_at(ROOT))
    return code


def look_at(directory: Path) -> list[str]:
    """Return what to look at after the demonstration, a line for each."""
    pages = sorted(directory.glob("runs/*-accept/report.html"))
    return [
        "what to look at:",
        *(f"  the page of the all-reduces: {page.relative_to(directory)}" for page in pages[-1:]),
        f"  a node: .venv/bin/rdmaprov lab ssh {NODE}",
        "  what to try next: docs/tutorial.md",
    ]


def run(listed: Sequence[Step], directory: Path, lab: Sequence[str] = ()) -> ExitCode:
    """Run steps, each named before with what is typed and after with its time."""
    for number, step in enumerate(listed, start=1):
        takes = f" (takes {step.takes})" if step.takes else ""
        command = [_limit(lab) if word == PATIENT else word for word in step.command]
        line = shlex.join(command)
        _say(f"{number}/{len(listed)} {step.title}{takes}", f"$ {line}")
        started = time.monotonic()
        done = subprocess.run(
            [_program(command[0]), *command[1:]],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if done.returncode not in step.codes:
            wanted = " or ".join(str(int(code)) for code in step.codes)
            _say(f"{line} ended with {done.returncode}, expected {wanted}; see its output above")
            return FAILED
        _say(f"{_took(started)}, exit code {done.returncode}")
    return OK


def _program(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _limit(lab: Sequence[str]) -> str:
    """Return PATIENT with its value, for the speed that the cluster was measured to have."""
    words = ["lab", *lab, "status", "--json"]
    done = subprocess.run([_program("rdmaprov"), *words], stdout=subprocess.PIPE, check=True)
    return f"{PATIENT}={COMMAND_TIMEOUT_S * json.loads(done.stdout)['patience']:.0f}"


def _took(started: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    return f"{minutes} min {seconds} s"


def _say(*lines: str) -> None:
    for line in lines:
        print(f"== {line}" if not line.startswith("$") else line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
