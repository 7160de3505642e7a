"""The month of docs/fleet-month.md: a made-up fleet, day by day, for the commands of the page.

    python -m tests.unit.helpers.fleet_month

writes what the program prints now into the page. Runs are made up (`fleet_runs`), and so are the
counters that `watch` reads; the answers of a switch are those of tests/fixtures/switches, altered.
All else is the program's own work.
"""

import contextlib
import io
import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from tests.madeup.watched import Fleet, MadeUpWatch
from tests.madeup.watching import Watching
from tests.report import runs
from tests.unit.helpers import fleet_runs
from tests.unit.helpers.doc_sites import FENCE

from rdmaprov import cli
from rdmaprov.cli import watch_run
from rdmaprov.inventory import load_site
from rdmaprov.watch import collect

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/fleet-month.md"
SITE = "inventory/east"
FIXED = 26  # the night from which rail 3 is as before
WATCHED = datetime(2026, 3, 22, 9, 30, tzinfo=UTC)
SLOW = 0.76  # of what other rails carry, once watched
_DAY = re.compile(r"^## Day (\d+)", re.MULTILINE)


@dataclass
class FleetMonth:
    directory: Path
    day: int = 0

    def __post_init__(self) -> None:
        """Make the directory that the page's `mkdir` makes."""
        (self.directory / "units").mkdir()

    def pass_days(self, until: int) -> None:
        """Leave what happened up to the morning of a day."""
        for number in range(self.day + 1, until + 1):
            self._keep(fleet_runs.acceptance(number, drift=number < FIXED))
            if number == 19:
                self._keep(runs.validated(4), "2026-03-19T05:00:00+00:00")
            if number == 20:
                self._keep(runs.validated(4, bad=False), "2026-03-20T05:00:00+00:00")
            if number == 22:
                self._save_switch()
            if number == FIXED:
                self._repair_switch()
            if number == fleet_runs.DRIVER_FROM:
                self._keep(runs.applied(4, bad=False), "2026-03-22T22:00:00+00:00")
        self.day = max(self.day, until)

    def _keep(self, data: dict[str, Any], started: str = "") -> None:
        if started:
            ended = datetime.fromisoformat(started) + timedelta(minutes=2)
            data |= {"started": started, "ended": ended.isoformat(), "commit": "b" * 40}
        fleet_runs.keep(self.directory, data | {"site": SITE})

    def _save_switch(self) -> None:
        """Save what the leaf of rail 3 answers: RoCE's DSCP has the class of all other traffic."""
        source = ROOT / "tests/fixtures/switches/sonic-z9664f/config_db.json"
        config = json.loads(source.read_text().replace('"pfc_enable": "3,4"', '"pfc_enable": "3"'))
        for number in range(1, 5):
            port = f"Ethernet{8 * (number - 1)}"
            for table in ("PORT", "PORT_QOS_MAP", "PFC_WD"):
                config[table][port] = dict(config[table]["Ethernet0"])
            config["PORT"][port]["description"] = f"gpu{number} rail 3"
            for queue in (0, 3, 4, 6):
                config["QUEUE"][f"{port}|{queue}"] = config["QUEUE"][f"Ethernet0|{queue}"]
        config["DSCP_TO_TC_MAP"]["ROCE"]["26"] = "0"
        text = json.dumps(config)
        place = self.directory / "switches/leaf-r3"
        place.mkdir(parents=True)
        (place / "config_db.json").write_text(text)

    def _repair_switch(self) -> None:
        file = self.directory / "switches/leaf-r3/config_db.json"
        file.write_text(file.read_text().replace('"26": "0"', '"26": "3"'))

    def run(self, line: str) -> str:
        if " schedule " in line:
            with (self.directory / SITE / "group_vars/all.yml").open("a") as file:
                file.write("scheduler_kind: slurm\n")
        out = io.StringIO()
        with contextlib.chdir(self.directory), self._counted(line), contextlib.redirect_stdout(out):
            cli.run(shlex.split(line)[1:])
        return self._date_watch(out.getvalue())

    def _date_watch(self, said: str) -> str:
        """Give a watch, which is run now, the date of its day; return what is said of it."""
        for run in (self.directory / "runs").glob("*-watch"):
            name = f"{WATCHED:%Y%m%d-%H%M%S}-watch"
            if run.name != name:
                data = json.loads((run / "results.json").read_text())
                ended = WATCHED + timedelta(seconds=30)
                data |= {"started": WATCHED.isoformat(), "ended": ended.isoformat()}
                (run / "results.json").write_text(json.dumps(data | {"commit": "b" * 40}))
                said = said.replace(run.name, name)
                run.rename(run.with_name(name))
        return said

    @contextlib.contextmanager
    def _counted(self, line: str) -> Iterator[None]:
        """Have `watch` read made-up counters, whose seconds pass at once."""
        if " watch " not in line:
            yield
            return
        made = MadeUpWatch(load_site(self.directory / SITE).nodes, faults=(_slow_rail_3,))

        class SteppedCollector(collect.Collector):
            seconds = 0.0

            def run(self, seconds: float | None) -> None:
                watching = Watching(made)
                watching.accounts.update(self._accounts)
                for number in range(len(made.nodes)):
                    watching.open(number)
                for _ in range(int(seconds or 0)):
                    watching.pass_seconds(1)
                    self.seconds = float(made.second)
                    self._on_look(self.seconds)

        with mock.patch.object(watch_run, "Collector", SteppedCollector):
            yield


def _slow_rail_3(watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
    for row in rows:
        row[3].load *= SLOW * watch.chance.uniform(0.97, 1.03)


def refreshed(page: str, month: FleetMonth) -> str:
    """Return the page with what its commands print now.

    Commands of blocks with `$ ` are run in their order, after the days of their headings; a block
    whose output has a line `…` shows a part, and is left as it is.
    """
    places = [(each.start(), int(each[1])) for each in _DAY.finditer(page)]

    def block(found: re.Match[str]) -> str:
        month.pass_days(max((day for at, day in places if at < found.start()), default=0))
        parts = re.split(r"^\$ ", found[1], flags=re.MULTILINE)
        shown = [_output(part, month) for part in parts[1:]]
        return found[0].replace(found[1], "".join([parts[0], *shown]))

    return FENCE.sub(block, page)


def _output(part: str, month: FleetMonth) -> str:
    line, _, output = part.partition("\n")
    if not line.startswith("rdmaprov ") or "…\n" in output:
        return f"$ {part}"
    return f"$ {line}\n{month.run(line)}"


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        PAGE.write_text(refreshed(PAGE.read_text(), FleetMonth(Path(place))))


if __name__ == "__main__":
    main()
