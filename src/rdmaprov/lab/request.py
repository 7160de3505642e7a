"""What `lab up` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.model import Lab


@dataclass(frozen=True)
class Request:
    """Options of `lab up`; None leaves a setting as it is, or at its default."""

    nodes: int | None = None
    rails: int | None = None
    suite: str | None = None
    memory_mib: int | None = None
    accel: Accel | None = None
    site: Path | None = None

    def refuse_difference(self, lab: Lab) -> None:
        """Refuse to go on if the lab that exists differs from the request.

        Raises:
            UsageError: naming what differs.

        """
        for option, wanted, seen in (
            ("--nodes", self.nodes, len(lab.nodes)),
            ("--rails", self.rails, len(lab.nodes[0].rails)),
            ("--suite", self.suite, lab.suite),
            ("--memory", self.memory_mib, lab.memory_mib),
            ("--accel", self.accel, lab.accel),
            ("--site", self.site and str(self.site.resolve()), lab.site),
        ):
            if wanted is not None and wanted != seen:
                raise UsageError(
                    f"{option} {wanted}: the existing lab has {seen}",
                    "Run: rdmaprov lab down, then this again.",
                )
