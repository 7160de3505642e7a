"""The texts of a healthy subnet on ibsim, and how tests change them."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from rdmaprov.subnet.directory import read_directory
from rdmaprov.subnet.judge import Assessment, judge
from rdmaprov.subnet.problem import word

FIXTURES = Path(__file__).parents[2] / "fixtures/subnet"
HEALTHY = FIXTURES / "ibsim"
DISCOVERY, TABLES, STATES = "ibnetdiscover-p.txt", "dump_fts.txt", "iblinkinfo-l.txt"
ERRORS, MANAGERS = "ibqueryerrors.txt", "sminfo.txt"
# What a tool says without access to a port.
NO_PORT = "ibwarn: [1] mad_rpc_open_port: can't open UMAD port ((null):0)\n"
_ENTRY = re.compile(r"(0x[0-9a-f]{4}) (\d{3}) : (.*)")


class Texts:
    def __init__(self, directory: Path) -> None:
        self.directory = directory / "texts"
        shutil.copytree(HEALTHY, self.directory)

    def read(self, name: str) -> str:
        return (self.directory / name).read_text()

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert re.search(old, text, re.MULTILINE), old
        self.write(name, re.sub(old, new, text, flags=re.MULTILINE))

    def without(self, name: str, words: str) -> None:
        kept = [line for line in self.read(name).splitlines(True) if words not in line]
        self.write(name, "".join(kept))

    def gone(self, *nodes: str) -> None:
        """Take nodes away as if they had no link: their lines, and their peers' ends.

        Peers keep a line of a port without a link; tables no longer list the node.
        """
        for node in nodes:
            lines = []
            for line in self.read(DISCOVERY).splitlines(True):
                own = re.search(r"\( '(.*)' - '(.*)' \)", line)
                if own and own[2] == node:
                    line = f"{line[:33].rstrip()} 4x SDR   '{own[1]}'\n"
                elif f"'{node}'" in line:
                    continue
                lines.append(line)
            self.write(DISCOVERY, "".join(lines))
            self.drop_entries(node)

    def drop_entries(self, node: str) -> None:
        """Take a node's own table and all routes to it out of the tables; counts stay true."""
        kept: list[str] = []
        for block in re.split(r"(?m)^(?=Unicast)", self.read(TABLES)):
            if f"({node}):" in block or not block:
                continue
            rows = [row for row in block.splitlines() if f"'{node}'" not in row]
            count = sum(bool(_ENTRY.match(row)) for row in rows)
            rows[-1] = f"{count} valid lids dumped "
            kept += [row + "\n" for row in rows]
        self.write(TABLES, "".join(kept))

    def route(self, change: Callable[[str, int, int, str], int | None]) -> None:
        """Change ports of tables by switch, LID, port and description; None drops the entry."""
        rows, switch, count = [], "", 0
        for line in self.read(TABLES).splitlines():
            if head := re.match(r"Unicast.*\((.*)\):", line):
                switch, count = head[1], 0
            if entry := _ENTRY.match(line):
                port = change(switch, int(entry[1], 16), int(entry[2]), entry[3])
                if port is None:
                    continue
                count += 1
                line = f"{entry[1]} {port:03d} : {entry[3]}"
            elif "valid lids" in line:
                line = f"{count} valid lids dumped "
            rows.append(line + "\n")
        self.write(TABLES, "".join(rows))

    def judge(self) -> Assessment:
        return judge(read_directory(self.directory))

    def found(self) -> list[tuple[str, str, int | None]]:
        return [(word(each), each.part, each.port) for each in self.judge().problems]
