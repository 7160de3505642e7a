"""Good answers, for liars to make wrong ones of: what this machine says.

It has no rails and no GPUs, so the collector's facts are those of a node that has, and the survey
that it made gets a change.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.unit.helpers.discovered import FACTS

from rdmaprov.drift.arguments import Arguments
from rdmaprov.drift.fleet import request, survey_command
from rdmaprov.inventory import load_site
from rdmaprov.probe.ansible_targets import Targets

CHANGE = {"layer": "running", "device": "kernel", "setting": "x", "seen": "1", "wanted": "2"}


def survey(site: Path, node: str) -> dict[str, Any]:
    """Return what a survey of a node answers: the role limits, which changes a setting."""
    fleet = load_site(site)
    target = Targets().of(node, fleet.variables(node))
    command = survey_command(target, request(Arguments(fleet, ("limits",)).of(node)))
    done = subprocess.run(
        ["/bin/sh", "-c", command.text],
        input=command.shared + command.given,
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["pending"] == [], "this machine is a node"
    found["roles"]["limits"]["changes"] = [CHANGE]
    return {**found, "pending": ["limits"], "problems": ["a file is not ours"], "changed": False}


def facts() -> dict[str, Any]:
    return FACTS


def outputs(file: Path) -> dict[str, list[Any]]:
    """Return what commands gave on a node that wrote it down, by command."""
    return dict(json.loads(line) for line in file.read_text().splitlines())
