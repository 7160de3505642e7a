"""What texts of a fabric show: those of its subnet (infiniband-diags), and those of switches.

Both are judged as `explain subnet` and `explain switch` judge them. A text of a subnet alone shows
less than a directory of all: what the others would tell is not known, and no fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rdmaprov.explain.model import GivenText, Shown
from rdmaprov.subnet import directory
from rdmaprov.subnet.judge import judge
from rdmaprov.switches import problem
from rdmaprov.switches.judge import SwitchVerdict, judge_switch
from rdmaprov.switches.read import is_known, read_switch
from rdmaprov.switches.saved import SavedSwitch, split_answers
from rdmaprov.switches.wanted import usual_settings

TABLE = Path(__file__).with_name("inputs.yml")


@dataclass(frozen=True)
class SubnetText:
    """What a tool prints of a subnet; TABLE says what each part is."""

    file: str
    command: str
    tells: str
    only: str


@cache
def subnet_texts() -> tuple[SubnetText, ...]:
    """Return the table."""
    import yaml

    rows = yaml.safe_load(TABLE.read_text())
    return tuple(SubnetText(**each) for row in rows for each in row.get("texts", ()))


def read_subnet(every: Sequence[GivenText]) -> list[Shown]:
    """Return what texts of one subnet show."""
    given: dict[str, list[GivenText]] = {}
    for tool in subnet_texts():
        only = re.compile(tool.only.encode(), re.MULTILINE)
        if own := [each for each in every if only.search(each.data)]:
            given[tool.file] = own
    with TemporaryDirectory() as name:
        place = Path(name)
        (place / directory.COUNTERS).mkdir()
        for number, each in enumerate(given.get(directory.COUNTERS, ())):
            (place / directory.COUNTERS / f"{number:06}").write_bytes(each.data)
        for file, texts in given.items():
            if file != directory.COUNTERS:
                (place / file).write_bytes(b"".join(each.data for each in texts))
        subnet = directory.read_directory(place)
    # A directory lacks a text that is not in it; of files, what was not given is no fault.
    subnet.not_verified = [
        each for each in subnet.not_verified if each.name.partition("/")[0] in given
    ]
    found = judge(subnet, is_saved=True)
    told = {
        tool.tells
        for tool in subnet_texts()
        if tool.file in given and tool.tells and (tool.file != directory.TABLES or found.loads)
    }
    rest = {
        tool.tells: tool.command
        for tool in reversed(subnet_texts())
        if tool.file not in given and tool.tells not in ("", *told)
    }
    is_right = told and not found.problems
    return [
        Shown(
            "subnet",
            tuple(each.name for each in every),
            findings=tuple(found.problems),
            proves=f"nothing is wrong in: {'; '.join(sorted(told))}" if is_right else "",
            lacks=tuple(f"{tells}: {command}" for tells, command in reversed(rest.items())),
            parsed=(found,),
        )
    ]


# The CONFIG_DB of a switch with 512 ports takes 2 MB, and a text shows its system early.
_MOST_SWITCH_BYTES = 4 << 20
_MOST_HEAD_BYTES = 256 << 10


def is_switch(given: GivenText) -> bool:
    """Return whether a switch wrote a text, of a system with a reader or without one."""
    if len(given.data) > _MOST_SWITCH_BYTES:
        return False
    head = given.text if given.data.lstrip()[:1] in (b"{", b"[") else given.text[:_MOST_HEAD_BYTES]
    not_read: list[str] = []
    return any(is_known(each) for each in split_answers(given.name, head, not_read.append))


def read_switches(every: Sequence[GivenText]) -> list[Shown]:
    """Return what is wrong with switches, each of its own text."""
    wanted = usual_settings()
    found = []
    for each in every:
        saved = SavedSwitch(Path(each.name).stem)
        saved.answers += split_answers(Path(each.name).name, each.text, saved.not_read.append)
        found.append(judge_switch(read_switch(saved), wanted))
    is_right = all(each.verdict is SwitchVerdict.RIGHT for each in found)
    return [
        Shown(
            "switch",
            tuple(each.name for each in every),
            findings=tuple(
                finding
                for each in found
                for finding in each.problems
                if problem.level(finding) != problem.NOTE
            ),
            proves="ports of RoCE are set as is usual" if is_right else "",
            parsed=(*found, wanted),
        )
    ]
