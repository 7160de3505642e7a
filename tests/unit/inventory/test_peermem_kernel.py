"""Which kernels a site may combine with dma-buf."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.helpers import sites

from rdmaprov import contract
from rdmaprov.inventory import load_site


@pytest.mark.parametrize(
    ("kernel", "refused"),
    [
        ("5.4.0-150-generic", True),
        ("5.12.0", False),
        ("5.14.0-503.el9_5.x86_64", False),
        ("4.18.0-553.el8_10.x86_64", False),
    ],
)
def test_number_of_red_hats_kernels_does_not_tell(tmp_path: Path, kernel: str, refused: bool):
    more = f"peermem_kernel_version: {kernel}\npeermem_mode: dmabuf\n"
    site = {**sites.GOOD, "group_vars/all.yml": sites.GOOD["group_vars/all.yml"] + more}
    problems = contract.problems(load_site(sites.write(tmp_path / "site", site)))
    assert ("peermem.dmabuf" in {problem.rule for problem in problems}) is refused
