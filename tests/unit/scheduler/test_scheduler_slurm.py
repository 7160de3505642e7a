"""Drains, waits, reservations and returns on a real Slurm; and the site's own three programs."""

from pathlib import Path

import pytest
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode
from rdmaprov.scheduler.choice import choose_witness_scheduler
from rdmaprov.scheduler.own_programs import OwnPrograms
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.service import give_back, note, take_out
from rdmaprov.scheduler.slurm import Slurm

pytestmark = pytest.mark.waits

NAMES = ("n0", "n1")
ALONE = ("-w", "n0", "--exclusive")


@pytest.fixture
def slurm(cluster, monkeypatch):
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, cluster.environment[name])
    yield cluster
    cluster.ask("scancel", "--full", "--state=RUNNING")
    assert until(lambda: cluster.jobs() == "")
    assert cluster.make_idle()


def submit(slurm, *words, command="sleep 60"):
    return slurm.ask(
        *("sbatch", "--parsable", "--export=NONE", "-o", "/dev/null", *words, "--wrap", command)
    )


def begin_job(slurm, *words, command="sleep 60"):
    job = submit(slurm, *words, command=command)
    assert until(lambda: slurm.ask("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"), slurm.log()
    return job


def reserve(slurm, name, start):
    words = ("users=root", "nodes=n1", "duration=60", "flags=ignore_jobs")
    created = ("create", "reservation", f"reservationname={name}", f"starttime={start}")
    slurm.ask("scontrol", *created, *words)


def end_of(slurm, job):
    return slurm.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")


def reason(slurm, node):
    return slurm.ask("sinfo", "-h", "-n", node, "-o", "%E")


def test_idle_node_is_drained_readably_and_returned(slurm):
    assert all(each.idle and each.up and not each.drains for each in Slurm().status(NAMES).values())
    assert take_out(Slurm(), ["n0"], "replace n0", wait_s=20)["n0"].is_ok
    assert "rdmaprov: replace n0" in slurm.ask("sinfo", "-R", "-h", "-o", "%E|%N")
    assert Slurm().status(["n1"])["n1"].idle
    note(Slurm(), "n0", "validate failed, see runs/20261123-120000-validate")
    assert reason(slurm, "n0").startswith("rdmaprov: validate failed, see runs/")
    assert give_back(Slurm(), "n0", drained_by_us=True).is_ok
    assert Slurm().status(["n0"])["n0"].idle


def test_job_that_runs_is_seen_and_ends_unharmed(slurm, tmp_path):
    job = begin_job(slurm, *ALONE, command=f"sleep 3; touch {tmp_path}/end")
    seen = Slurm().status(["n0"])["n0"]
    assert (seen.busy, seen.idle, seen.jobs) == (True, False, (job,))
    said: list[str] = []
    assert take_out(Slurm(), ["n0"], "replace", wait_s=60, tell=said.append)["n0"].is_ok
    assert f"job {job}; waiting" in said[0]
    assert (tmp_path / "end").exists()
    assert end_of(slurm, job) in ("COMPLETED", "")


def test_job_that_does_not_end_in_time_keeps_its_node(slurm):
    job = begin_job(slurm, *ALONE)
    assert take_out(Slurm(), ["n0"], "replace", wait_s=0)["n0"].code is ExitCode.UNKNOWN
    assert end_of(slurm, job) == "RUNNING"
    assert Slurm().status(["n0"])["n0"].is_ours


def test_suspended_job_counts_though_slurm_may_call_its_node_idle(slurm):
    job = begin_job(slurm, *ALONE)
    slurm.ask("scontrol", "suspend", job)
    assert until(lambda: end_of(slurm, job) == "SUSPENDED")
    seen = Slurm().status(["n0"])["n0"]
    assert (seen.busy, seen.idle) == (True, False)
    slurm.ask("scontrol", "resume", job)
    slurm.ask("scancel", job)


def test_reason_of_an_administrator_is_neither_overwritten_nor_resumed(slurm):
    slurm.ask("scontrol", "update", "nodename=n0", "state=drain", "reason=bad board")
    assert take_out(Slurm(), ["n0"], "replace", wait_s=20)["n0"].is_ok
    assert reason(slurm, "n0") == "bad board"
    found = give_back(Slurm(), "n0", drained_by_us=True)
    assert found.code is ExitCode.PENDING
    assert found.text.endswith("scontrol update nodename=n0 state=resume")
    assert reason(slurm, "n0") == "bad board"


def test_held_node_gets_no_job_of_others_until_it_is_released(slurm):
    Slurm().hold(["n1"], "rdmaprov-test", 300)
    Slurm().hold(["n1"], "rdmaprov-test", 300)  # what a killed run left is replaced
    assert "ReservationName=rdmaprov-test " in slurm.ask("scontrol", "-o", "show", "reservation")
    assert until(lambda: not Slurm().status(["n1"])["n1"].idle)
    job = submit(slurm, "-w", "n1", command="true")
    asked = ("squeue", "-h", "-j", job, "-o", "%T %r")
    assert until(lambda: "reserv" in slurm.ask(*asked).lower(), 60), slurm.ask(*asked)
    Slurm().release(["n1"], "rdmaprov-test")
    Slurm().release(["n1"], "rdmaprov-test")
    assert until(lambda: end_of(slurm, job) in ("COMPLETED", ""))


@pytest.fixture
def reserved(slurm):
    """Return a reservation of the site's for its tests, with the node n1."""
    reserve(slurm, "tests", "now")
    assert until(lambda: not Slurm().status(["n1"])["n1"].idle)
    yield choose_witness_scheduler(Slurm(), "tests")
    slurm.ask("scontrol", "delete", "reservationname=tests")
    assert until(lambda: Slurm().status(["n1"])["n1"].idle)


def test_idle_nodes_of_a_reservation_are_witnesses_and_no_others(slurm, reserved):
    assert {name: each.idle for name, each in reserved.status(NAMES).items()} == {
        "n0": False,
        "n1": True,
    }
    reserved.hold(["n1"], "rdmaprov-test", 300)
    assert "rdmaprov-test" not in slurm.ask("scontrol", "-o", "show", "reservation")
    reserved.release(["n1"], "tests")
    assert "=tests " in slurm.ask("scontrol", "-o", "show", "reservation")


def test_node_of_a_reservation_with_a_job_is_no_witness(slurm, reserved):
    job = begin_job(slurm, "--reservation=tests")
    assert not reserved.status(["n1"])["n1"].idle
    slurm.ask("scancel", job)
    assert until(lambda: reserved.status(["n1"])["n1"].idle)


@pytest.mark.usefixtures("slurm")
def test_reservation_that_is_not_there_or_has_not_begun_is_an_error(slurm):
    with pytest.raises(SchedulerError, match="Reservation nobody not found"):
        choose_witness_scheduler(Slurm(), "nobody").status(["n1"])
    reserve(slurm, "later", "now+1hour")
    with pytest.raises(SchedulerError, match="the reservation later is not active"):
        choose_witness_scheduler(Slurm(), "later").status(["n1"])
    slurm.ask("scontrol", "delete", "reservationname=later")


@pytest.mark.usefixtures("slurm")
def test_node_that_slurm_does_not_know_is_an_error():
    with pytest.raises(SchedulerError, match="Node gpu07 not found"):
        Slurm().status(["n0", "gpu07"])


def test_slurmctld_that_is_away_is_one_clear_error(slurm, monkeypatch, tmp_path):
    text = Path(slurm.environment["SLURM_CONF"]).read_text().splitlines()
    away = [
        "SlurmctldPort=1" if each.startswith("SlurmctldPort=") else each
        for each in [*text, "MessageTimeout=2"]
    ]
    (tmp_path / "slurm.conf").write_text("\n".join(away) + "\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(SchedulerError) as error:
        Slurm().status(["n0"])
    assert "Unable to contact slurm controller" in error.value.message
    assert (error.value.hint, error.value.exit_code) == (
        "Run: sinfo -N; names in the inventory must be Slurm's NodeName",
        ExitCode.UNKNOWN,
    )


def test_machine_without_slurm_says_where_to_run(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SchedulerError, match="scontrol: No such file") as error:
        Slurm().status(["n0"])
    assert "login node" in error.value.hint


STATE = '#!/bin/sh\ncat "{place}/$1" 2>/dev/null || echo idle\n'
DRAIN = '#!/bin/sh\necho "drained $2" > "{place}/$1"\n'
RESUME = '#!/bin/sh\nrm -f "{place}/$1"\n'


@pytest.fixture
def own(tmp_path):
    words = []
    for name, text in (("state", STATE), ("drain", DRAIN), ("resume", RESUME)):
        path = tmp_path / name
        path.write_text(text.replace("{place}", str(tmp_path / "nodes")))
        path.chmod(0o755)
        words.append((str(path), "{node}", *(["{reason}"] if name == "drain" else [])))
    (tmp_path / "nodes").mkdir()
    return OwnPrograms(*words)


def test_own_programs_drain_hold_and_return(own, tmp_path):
    assert take_out(own, ["n0"], "replace", wait_s=5)["n0"].is_ok
    assert own.status(["n0"])["n0"].is_ours
    assert give_back(own, "n0", drained_by_us=True).is_ok
    own.hold(["n0", "n1"], "witness", 60)
    (tmp_path / "nodes/n1").write_text("drained by an administrator\n")
    own.release(["n0", "n1"], "witness")
    assert [own.status(NAMES)[name].word for name in NAMES] == ["idle", "drained"]


@pytest.mark.parametrize("said", ["", "ready\n", "\x1b[2J\n", "IDLE\n"])
def test_own_program_that_says_no_state_is_an_error(own, tmp_path, said):
    (tmp_path / "nodes/n0").write_text(said)
    with pytest.raises(SchedulerError, match="as the state of n0") as error:
        own.status(["n0"])
    assert error.value.message.isprintable()


def test_own_program_that_fails_is_an_error_with_its_words(own, tmp_path):
    (tmp_path / "state").write_text("#!/bin/sh\necho no route >&2; exit 3\n")
    with pytest.raises(SchedulerError, match="no route"):
        own.status(["n0"])


def test_reason_reaches_own_programs_as_one_word(own, tmp_path):
    (tmp_path / "drain").write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/words\n')
    own.drain("n0", "rdmaprov: a b")
    assert (tmp_path / "words").read_text() == "n0|rdmaprov: a b|"
