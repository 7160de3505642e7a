"""The options of `lab up`, and the lab that they describe."""

from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.lab import image, model, shapes, site
from rdmaprov.lab.accel import Accel, detect
from rdmaprov.lab.image import Recipe, Say
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab
from rdmaprov.lab.shapes import Shape
from rdmaprov.lab.virtual_machines import free_port
from rdmaprov.resources import data_dir

NODE_FREE_MIB = 2048


@dataclass(frozen=True)
class LabRequest:
    """Options of `lab up`; None leaves a setting as it is, or at its default."""

    nodes: int | None = None
    rails: int | None = None
    suite: str | None = None
    memory_mib: int | None = None
    accel: Accel | None = None
    site: Path | None = None
    shape: str | None = None

    def refuse_difference(self, lab: Lab) -> None:
        """Raise UsageError if the lab that exists differs from the request, naming what differs."""
        for option, wanted, seen in (
            ("--nodes", self.nodes, len(lab.nodes)),
            ("--rails", self.rails, len(lab.nodes[0].rails)),
            ("--suite", self.suite, lab.suite),
            ("--memory", self.memory_mib, lab.memory_mib),
            ("--accel", self.accel, lab.accel),
            ("--shape", self.shape, lab.shape or "none"),
            ("--site", self.site and str(self.site.resolve()), lab.site),
        ):
            if wanted is not None and wanted != seen:
                raise UsageError(
                    f"{option} {wanted}: the existing lab has {seen}",
                    "Run: rdmaprov lab down, then this again.",
                )

    def create(self, layout: Layout, say: Say) -> Lab:
        """Describe a new lab and save the description; nothing runs yet.

        Raises:
            RdmaprovError: the disk has no room for it.
            UsageError: there is no such shape, or a node has no slots for its NICs.
        """
        nodes = self.nodes or model.DEFAULT_NODES
        kinds = shapes.of_nodes(self.shape, nodes)
        rails = self.rails or max(shape.rails or model.DEFAULT_RAILS for shape in kinds)
        for shape in kinds:
            _require_room(shape, rails)
        recipe = Recipe(data_dir("lab"), self.suite or model.DEFAULT_SUITE)
        image.check_space(layout.root, nodes * NODE_FREE_MIB)
        accel = self.accel or detect()
        if self.accel is None and accel is Accel.TCG and Path("/dev/kvm").exists():
            say("/dev/kvm is there, but guests do not boot with it: using emulation (tcg)")
        lab = Lab(
            suite=recipe.suite,
            memory_mib=self.memory_mib or model.DEFAULT_MEMORY_MIB,
            accel=accel,
            image=recipe.key(),
            torch=recipe.torch_key(),
            site=str((self.site or site.default_site()).resolve()),
            nodes=tuple(
                model.new_node(f"node{number}", free_port(), rails, shape.nics, _own_image(shape))
                for number, shape in enumerate(kinds, start=1)
            ),
            shape=self.shape,
        )
        lab.save(layout.state)
        return lab


def _own_image(shape: Shape) -> str:
    """Return the image of a shape's own suite; empty if it has none."""
    return Recipe(data_dir("lab"), shape.suite).key() if shape.suite else ""


def _require_room(shape: Shape, rails: int) -> None:
    most = model.RAILS_RANGE.stop - 1
    if shape.nics * rails > most:
        raise UsageError(
            f"--rails {rails}: with {shape.nics} NICs each, a node has slots for {most} NICs",
            f"Pass --rails with at most {most // shape.nics}.",
        )
