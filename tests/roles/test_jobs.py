"""The daemons that start jobs: the same in the limits' default, the units' order and the suite."""

from pathlib import Path

import pytest
import yaml
from plugins.module_utils import systemd
from plugins.module_utils.pcie import boot
from plugins.module_utils.qos import install
from tests.roles.fake import FakeMachine
from tests.tables import cases

from rdmaprov.facts import nccl_settings

SPEC = Path(__file__).parents[2] / "roles/limits/meta/argument_specs.yml"
# Where each unit's name is from.
SOURCES = cases(__file__, "sources")


def test_boot_units_come_before_each():
    assert set(systemd.JOBS.split()) == {f"{name}.service" for name in SOURCES}


def test_what_a_boot_sets_comes_before_each(machine: FakeMachine):
    templates = [boot._UNIT.format(command="do", description="it", jobs=systemd.JOBS)]
    templates += [text for path, text in install.units(machine).items() if "@" in path]
    assert len(templates) == 2
    for text in templates:
        (before,) = (line for line in text.splitlines() if line.startswith("Before="))
        assert before.removeprefix("Before=").split() == systemd.JOBS.split()


def test_suite_asks_each_for_its_environment():
    assert set(nccl_settings.DAEMONS) == set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_each_gets_the_memlock_limit_by_default(name):
    options = yaml.safe_load(SPEC.read_text())["argument_specs"]["main"]["options"]
    assert name in options["limits_memlock_services"]["default"]
