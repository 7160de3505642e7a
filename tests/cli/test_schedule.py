"""`rdmaprov schedule`: units that systemd accepts, and that run what they say."""

import shlex
import shutil
from pathlib import Path

import pytest
from tests.program import call
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli.schedule_run import ScheduledVerb
from rdmaprov.exit_codes import ExitCode

ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(not ANALYZE, reason="systemd-analyze (Debian's systemd)")
HOSTS = "---\nnodes: {hosts: {n1: {unit: 1}}}\n"


class Place:
    """A directory with a site of a name that units must escape, and one for the units."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory = directory / "50% of it"
        self.units = self.directory / "units"
        self.units.mkdir(parents=True)
        variables = f"---\nscheduler_kind: {kind}\n"
        files = {**GOOD, "hosts.yml": HOSTS, "group_vars/nodes.yml": variables}
        write(self.directory / "$prod", files)

    def schedule(self, *words: str) -> tuple[int, str]:
        done = call("schedule", "$prod", "--directory", "units", *words, cwd=self.directory)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    def names(self) -> list[str]:
        return sorted(path.name for path in self.units.iterdir())

    def lines(self, name: str) -> dict[str, str]:
        text = (self.units / name).read_text()
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line[:30])


@pytest.fixture
def slurm(tmp_path: Path) -> Place:
    return Place(tmp_path, "slurm")


@needs_systemd
def test_systemd_accepts_the_units_and_a_second_run_changes_nothing(slurm: Place):
    code, said = slurm.schedule()
    assert code == ExitCode.OK, said
    verbs = ("accept", "validate")
    assert slurm.names() == [
        f"rdmaprov-{verb}--prod.{kind}" for verb in verbs for kind in ("service", "timer")
    ]
    units = [str(path) for path in slurm.units.iterdir()]
    done = execute([str(ANALYZE), "verify", "--man=no", *units])
    own = [line for line in done.stderr.splitlines() if "rdmaprov-" in line]
    assert (done.returncode, own) == (0, []), done.stderr
    before = {path: path.stat().st_ino for path in slurm.units.iterdir()}
    assert slurm.schedule()[0] == ExitCode.OK
    assert len(before) == len(slurm.names())


@needs_systemd
def test_command_is_the_one_that_systemd_reads(slurm: Place):
    """A shell's quotes are a unit's, and a doubled % or $ is one (systemd.service(5))."""
    slurm.schedule("--accept", "")
    assert slurm.names() == ["rdmaprov-validate--prod.service", "rdmaprov-validate--prod.timer"]
    line = slurm.lines("rdmaprov-validate--prod.service")["ExecStart"]
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]
    assert words[-3:] == ["validate", str(slurm.directory / "$prod"), "--idle"]
    assert Path(words[0]).exists()
    timer = slurm.lines("rdmaprov-validate--prod.timer")
    assert (timer["OnCalendar"], timer["Persistent"]) == ("hourly", "true")


def test_site_without_a_scheduler_is_validated_whole_and_never_accepted(tmp_path: Path):
    place = Place(tmp_path, "none")
    code, said = place.schedule()
    assert code == ExitCode.OK, said
    assert "validate: all nodes (" in said
    assert "accept: not scheduled" in said
    assert place.names() == ["rdmaprov-validate--prod.service", "rdmaprov-validate--prod.timer"]
    assert "--idle" not in place.lines(place.names()[0])["ExecStart"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["--validate", "sometimes"], "'sometimes' is no time", marks=needs_systemd),
        pytest.param(["--validate", ""], "--validate '' is no time", marks=needs_systemd),
        pytest.param(["--accept", "25:00"], "--accept '25:00' is no time", marks=needs_systemd),
        (["--directory", "nowhere"], "'nowhere' does not exist"),
        (["--ask-vault-pass"], "a timer cannot ask for a password"),
    ],
)
def test_wrong_usage_is_one_line_and_writes_nothing(slurm: Place, words, says):
    code, said = slurm.schedule(*words)
    assert (code, says in said) == (ExitCode.USAGE, True), said
    assert slurm.names() == []


def test_unit_that_somebody_changed_is_left(slurm: Place):
    changed = slurm.units / "rdmaprov-validate--prod.timer"
    changed.write_text("[Timer]\nOnCalendar=daily\n")
    code, said = slurm.schedule()
    assert code == ExitCode.USAGE
    assert "exists with another content" in said
    assert slurm.names() == [changed.name]
    assert slurm.schedule("--force")[0] == ExitCode.OK
    assert slurm.lines(changed.name)["OnCalendar"] == "hourly"


def test_control_character_reaches_no_unit(tmp_path: Path):
    job = ScheduledVerb("validate", "hourly", ["x", "a\nExecStart=/bin/evil"], "root", tmp_path, {})
    with pytest.raises(Exception, match="not printable"):
        job.units("prod")
