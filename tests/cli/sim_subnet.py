"""A subnet on ibsim for tests, by `rdmaprov lab subnet`, and what is wrong with it by fault."""

from pathlib import Path

import pytest

from rdmaprov.cli import run
from rdmaprov.lab import tools
from rdmaprov.lab.ib_subnet import TOOLS

NEEDS = pytest.mark.skipif(
    bool(tools.missing(TOOLS)), reason=f"not installed: {', '.join(tools.missing(TOOLS))}"
)
# For each fault what `explain subnet` must name: kinds and nodes of its problems.
NAMED = {
    "link-down": {("missing", "leaf-p1-r0")},
    "hca-down": {("missing", "node003 mlx5_1")},
    "node-down": {("missing", "node003")},
    "spine-down": {("missing", "spine-2")},
    "swapped-rails": {("cabling", "node003 mlx5_0"), ("cabling", "node003 mlx5_1")},
    "wrong-leaf": {("cabling", "node003 mlx5_0"), ("cabling", "node011 mlx5_0")},
    "swapped-trunks": {("cabling", "leaf-p1-r0"), ("cabling", "leaf-p1-r1")},
    "slow-link": {("rate", "spine-1")},
    "narrow-hca": {("rate", "leaf-p1-r1")},
    "errors": {("errors", "leaf-p1-r0")},
    "uneven-routes": {("balance", "spine-1")},
    "credit-loop": {("credit loop", "leaf-p1-r1")},
    "manager-dead": {("manager", "subnet manager")},
}


# `rdmaprov subnet SITE` alone sees them: no text that `explain subnet` reads has partition tables,
# and whose the managers are a site alone says.
BY_SITE_ALONE = ("pkey-missing", "second-manager")


class LabSubnetVerb:
    """Runs `rdmaprov lab subnet WORDS`; returns exit code, output and errors.

    Args:
        place: the lab's directory.
        capfd: has what was printed.
    """

    def __init__(self, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._place = place
        self._capfd = capfd

    def __call__(self, *words: str) -> tuple[int, str, str]:
        code = run(["lab", "--dir", str(self._place), "subnet", *words])
        said = self._capfd.readouterr()
        return code, said.out, said.err
