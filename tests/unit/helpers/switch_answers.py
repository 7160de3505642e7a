"""The answers of switches in tests/fixtures/switches, whole or altered, read and judged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rdmaprov.switches.judge import SwitchAssessment, judge_switch
from rdmaprov.switches.model import SwitchPort, SwitchReading
from rdmaprov.switches.problem import NOTE, UNKNOWN, WRONG
from rdmaprov.switches.problem import level as level_of
from rdmaprov.switches.read import read_switch
from rdmaprov.switches.saved import find_switches
from rdmaprov.switches.wanted import WantedSwitch, usual_settings

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/switches"
NAMES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
LOSSLESS = frozenset({3})
# Of `show running-config all`, which writes the map of DSCP that a shorter one leaves out.
EOS_MAP = "qos map dscp 26 to traffic-class 3\nqos map dscp 48 to traffic-class 6\n"


class SavedAnswers:
    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / name
        shutil.copytree(FIXTURES / name, self.path)

    def alter(self, *pairs: tuple[str, str]) -> SavedAnswers:
        for before, after in pairs:
            (file,) = [each for each in self.path.iterdir() if before in each.read_text()]
            file.write_text(file.read_text().replace(before, after))
        return self

    def write(self, name: str, content: object) -> SavedAnswers:
        (self.path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return self

    def read(self) -> SwitchReading:
        (saved,) = find_switches([self.path])
        return read_switch(saved)

    def port(self) -> SwitchPort:
        return self.read().ports[0]

    def judge(self, wanted: WantedSwitch | None = None) -> SwitchAssessment:
        return judge_switch(self.read(), wanted or usual_settings())


def sentences(found: SwitchAssessment, level: str) -> list[str]:
    return [each.what for each in found.problems if level_of(each) == level]


__all__ = ["NOTE", "UNKNOWN", "WRONG"]
SWP16 = {"swp16": {"link": {"mtu": 9216, "speed": "400G", "oper-status": "up"}}}
MAP = ("qos profile", f"{EOS_MAP}qos profile")


def right_switch(place, system):
    if system == "sonic":
        return SavedAnswers(place, "sonic-z9664f")
    if system == "cumulus":
        return SavedAnswers(place, "cumulus-roce").write("nv_show_interface.json", SWP16)
    return SavedAnswers(place, "arista-7388").alter(MAP)
