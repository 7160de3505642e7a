"""The steps of a replacement, failed, killed and met by others at any point; no node is lost."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.helpers.examples import examples
from tests.unit.helpers.waiting import Time
from tests.unit.scheduler.test_scheduler_service import IDLE

from rdmaprov.exit_codes import ExitCode
from rdmaprov.replace.journal import KEPT_S, Journal
from rdmaprov.replace.steps import PROOFS, Replacement, Step, runs_elsewhere
from rdmaprov.scheduler.model import MARK
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.service import StepOutcome, is_foreign

OPERATORS = ("ann", "bob")
POINTS = ("look", "drain", *PROOFS, "resume", "status")


class Killed(BaseException):
    """The controller is gone, before or after what it asked for took effect."""


def proofs_of(world):
    def step(name):
        return Step(name, lambda _nodes: world.prove(name))

    return [step(name) for name in PROOFS]


class World:
    """One node, its scheduler, its health, and where the controller is killed next."""

    def __init__(self):
        self.status_now = IDLE
        self.machine, self.healthy, self.asked = 1, True, []
        self.kill, self.is_after, self.is_away = "", False, False
        # What another operator does, and when.
        self.meanwhile: tuple[str, Callable[[], object]] = ("", lambda: None)
        self.breaks_at, self.is_locked = "", False
        self.good: list[str] = []  # the proofs of this machine, as they are
        self.resumed_unproven = self.took_others = self.harmed = False

    def _at(self, point, effect=lambda: None):
        if self.meanwhile[0] == point:
            meet, self.meanwhile = self.meanwhile[1], ("", lambda: None)
            meet()
        if self.kill == point and not self.is_after:
            raise Killed
        effect()
        if self.kill == point:
            raise Killed

    def status(self, nodes):
        if self.is_away:
            raise SchedulerError("scontrol: Unable to contact slurm controller", "scontrol ping")
        self._at("status")
        return dict.fromkeys(nodes, self.status_now)

    def drain(self, node, reason):  # noqa: ARG002
        if self.status_now.drains and not self.status_now.is_ours:
            self.took_others = True
        now = replace(self.status_now, drains=True, idle=False, reason=reason)
        self._at("drain", lambda: setattr(self, "status_now", now))

    def resume(self, node):  # noqa: ARG002
        if self.good != list(PROOFS):
            self.resumed_unproven = True
        if not self.status_now.is_ours:
            self.took_others = True
        self._at("resume", lambda: setattr(self, "status_now", replace(IDLE)))

    def hold(self, nodes, label, seconds):
        raise AssertionError(nodes, label, seconds)

    def release(self, nodes, label):
        raise AssertionError(nodes, label)

    def resume_command(self, node):
        return f"resume {node}"

    def look(self, journal):
        self._at("look")
        journal.bind("n1", f"machine {self.machine}")
        return StepOutcome()

    def prove(self, step):
        if self.status_now.busy or not self.status_now.drains:
            self.harmed = True
        if step == "apply":
            if self.is_locked:
                return StepOutcome(ExitCode.UNKNOWN, "another run holds the node's lock")
            self.is_locked = True
        try:
            return self._prove(step)
        finally:
            self.is_locked = self.is_locked and step != "apply"

    def _prove(self, step):
        # What comes after is broken by what comes before it.
        self.good = self.good[: PROOFS.index(step)]
        if self.healthy and step != self.breaks_at:
            before = PROOFS[: PROOFS.index(step)]
            self._at(step, lambda: self.good.__setitem__(slice(len(before), None), [step]))
            return StepOutcome()
        self._at(step)
        return StepOutcome(ExitCode.FAILED, "broken")


def made_with(journal, world, proofs=None, *, looks=True, clock=None, **options):
    """Return a replacement of the world's node, whose look binds the machine to the journal."""
    look = [Step("look", lambda _nodes: world.look(journal))] if looks else []
    steps = (look, proofs or proofs_of(world))
    clock = clock or Time().clock
    return Replacement(("n1",), *steps, world, journal, wait_s=5, clock=clock, **options)


class Replacing(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.place = tempfile.TemporaryDirectory()
        self.world, self.at = World(), 1e9

    def teardown(self):
        self.place.cleanup()

    def replacement(self, operator, take_over=False, clock=None):
        """Return a replacement as one of two operators runs it, each on a controller of theirs."""
        journal = Journal(Path(self.place.name) / operator, PROOFS, lambda: self.at)
        take_over = take_over and not is_foreign(self.world.status_now)
        return made_with(journal, self.world, clock=clock, take_over=take_over)

    @rule(
        operator=st.sampled_from(OPERATORS),
        kill=st.sampled_from(("", "", "", *POINTS)),
        is_after=st.booleans(),
        job_ends=st.booleans(),
        take_over=st.booleans(),
    )
    def run(self, operator, kill, is_after, job_ends, take_over):
        if is_foreign(self.world.status_now) and operator != OPERATORS[0]:
            return  # a reason of somebody else's stays, so it tells one run nothing of another
        self.world.kill, self.world.is_after = kill, is_after
        time = Time()
        if job_ends:
            pause = time.clock.pause

            def end_job(seconds):
                self.world.status_now = replace(self.world.status_now, busy=False)
                pause(seconds)

            time.clock = replace(time.clock, pause=end_job)
        try:
            self.end(self.replacement(operator, take_over, time.clock))
        except Killed:
            pass
        finally:
            self.world.kill = ""

    @precondition(lambda self: not is_foreign(self.world.status_now))
    @rule(
        operators=st.permutations(OPERATORS),
        meet=st.sampled_from(("look", *PROOFS, "status")),
        kill=st.sampled_from(("", *POINTS)),
        is_after=st.booleans(),
    )
    def two_run(self, operators, meet, kill, is_after):
        """Run the second one while the first one is at a point; the second may be killed.

        Not within a drain or a resume: no scheduler has one that looks and writes at once.
        """
        world = self.world
        first, second = operators

        def meanwhile():
            world.kill, world.is_after = kill, is_after
            try:
                self.end(self.replacement(second))
            except Killed:
                pass
            finally:
                world.kill = ""

        world.meanwhile = (meet, meanwhile)
        self.end(self.replacement(first))
        world.meanwhile = ("", lambda: None)

    def end(self, replacement):
        world = self.world
        ended = replacement.run()
        elsewhere = runs_elsewhere({"n1": world.status_now}, "replace", replacement.journal)
        if ended.code is ExitCode.OK:
            assert world.good == list(PROOFS)
            assert not world.status_now.drains
        elif world.status_now.is_ours and not world.is_away and not elsewhere:
            assert world.status_now.reason.startswith(f"{MARK} replace stopped at")

    @rule()
    def a_job_starts(self):
        if self.world.status_now.idle:
            self.world.status_now = replace(self.world.status_now, idle=False, busy=True)

    @rule()
    def a_job_ends(self):
        now = self.world.status_now
        self.world.status_now = replace(now, busy=False, idle=not now.drains)

    @rule()
    def it_breaks(self):
        self.world.healthy = False

    @rule()
    def it_is_healed(self):
        self.world.healthy = True

    @rule()
    def it_is_replaced_again(self):
        self.world.machine += 1
        self.world.good = []

    @rule()
    def a_day_passes(self):
        self.at += KEPT_S
        self.world.good = []

    @rule()
    def some_hours_pass(self):
        self.at += KEPT_S * 0.4

    @rule(away=st.booleans())
    def the_scheduler_goes_or_returns(self, away):
        self.world.is_away = away

    @rule()
    def an_administrator_drains(self):
        now = self.world.status_now
        self.world.status_now = replace(now, drains=True, idle=False, reason="bad board")

    @precondition(lambda self: self.world.status_now.reason == "bad board")
    @rule()
    def the_administrator_resumes(self):
        now = self.world.status_now
        self.world.status_now = replace(now, drains=False, idle=not now.busy, reason="")

    @invariant()
    def nobody_is_lost(self):
        world = self.world
        assert not world.resumed_unproven
        assert not world.took_others
        assert not world.harmed
        assert not world.status_now.drains or world.status_now.reason


Replacing.TestCase.settings = settings(
    max_examples=examples(1000, in_check=50), stateful_step_count=25
)
TestReplacing = Replacing.TestCase


def made(tmp_path, world, **options):
    return made_with(Journal(tmp_path, PROOFS), world, **options)


def test_failed_step_is_said_in_the_scheduler_and_the_next_run_goes_on_there(tmp_path):
    world = World()
    said: list[str] = []
    world.breaks_at = "validate"
    ended = made(tmp_path, world).run()
    assert (ended.code, ended.step, ended.text) == (ExitCode.FAILED, "validate", "broken")
    assert world.status_now.reason == "rdmaprov: replace stopped at validate: failed"
    world.breaks_at = ""
    ended = made(tmp_path, world, tell=said.append).run()
    assert ended.code is ExitCode.OK
    assert said == ["look", "drain", "apply: passed before", "validate", "accept", "return"]
    assert world.status_now.idle


def test_ticket_is_in_each_reason_and_parts_no_runs(tmp_path):
    world = World()
    world.breaks_at = "validate"
    assert made(tmp_path, world, label=" (RMA 4711)").run().code is ExitCode.FAILED
    assert world.status_now.reason == "rdmaprov: replace stopped at validate: failed (RMA 4711)"
    world.breaks_at = ""
    assert made(tmp_path, world).run().code is ExitCode.OK  # without the ticket


def test_node_of_another_administrator_is_proven_and_left(tmp_path):
    world = World()
    world.status_now = replace(IDLE, drains=True, idle=False, reason="bad board")
    ended = made(tmp_path, world).run()
    assert (ended.code, ended.step) == (ExitCode.PENDING, "return")
    assert world.status_now.reason == "bad board"
    assert made(tmp_path, world, take_over=True).run().code is ExitCode.OK
    assert world.status_now.idle


def test_proofs_from_before_somebody_else_had_the_node_count_no_more(tmp_path):
    """Ann left no word: the reason was an administrator's while she was at work."""
    world = World()
    for operator, kill in (("bob", "validate"), ("ann", "apply")):
        world.kill = kill
        with pytest.raises(Killed):
            made(tmp_path / operator, world).run()
        world.status_now = replace(world.status_now, drains=True, idle=False, reason="bad board")
    world.kill, world.status_now = "", IDLE
    said: list[str] = []
    assert made(tmp_path / "bob", world, tell=said.append).run().code is ExitCode.OK
    assert said == ["look", "drain", *PROOFS, "return"]
    assert world.good == list(PROOFS)


def test_scheduler_that_is_away_stops_before_anything_is_changed(tmp_path):
    world = World()
    world.is_away = True
    ended = made(tmp_path, world).run()
    assert (ended.code, ended.step) == (ExitCode.UNKNOWN, "drain")
    assert "Unable to contact slurm controller. scontrol ping" in ended.text
    assert world.good == []


def test_run_that_is_taken_over_stops_at_its_next_step_and_returns_nothing(tmp_path):
    """Whoever takes over says that it will not come back; here it does."""
    world = World()
    journal = Journal(tmp_path / "bob", PROOFS)
    bob = made_with(journal, world, proofs_of(world)[:1], looks=False, take_over=True)
    world.meanwhile = ("validate", bob.run)
    ended = made(tmp_path, world).run()
    assert (ended.code, ended.step) == (ExitCode.UNKNOWN, "accept")
    assert "another run has worked on it meanwhile: rdmaprov: replace stopped at" in ended.text
    assert not world.resumed_unproven


def stop_at(tmp_path, world, step):
    """Have a replacement stop at a step; what is before it is proven then."""
    world.breaks_at = step
    assert made(tmp_path, world).run().step == step
    world.breaks_at = ""


def test_machine_that_is_replaced_meanwhile_is_proven_from_the_beginning(tmp_path):
    world = World()
    stop_at(tmp_path, world, "accept")
    world.machine, world.good = 2, []
    assert made(tmp_path, world).run().code is ExitCode.OK
    assert not world.resumed_unproven


def test_step_that_is_done_again_takes_later_proofs_with_it(tmp_path):
    """A kill while apply runs again must not leave what was validated before it."""
    world, later = World(), 0.0
    journal = Journal(tmp_path, PROOFS, lambda: later)
    stop_at(tmp_path, world, "accept")
    journal.keep("n1", "accept")
    journal.note("n1", passed={"apply": -KEPT_S, "validate": 0.0, "accept": 0.0})
    assert made_with(journal, world, looks=False).run().code is ExitCode.OK
    assert not world.resumed_unproven


def test_proof_that_grows_too_old_while_others_are_made_returns_nothing(tmp_path):
    world, now = World(), [1e9]
    journal = Journal(tmp_path, PROOFS, lambda: now[0])
    *others, accept = proofs_of(world)

    def slow(nodes):
        now[0] += KEPT_S
        return accept.act(nodes)

    ended = made_with(journal, world, [*others, Step("accept", slow)], looks=False).run()
    assert (ended.code, ended.step) == (ExitCode.UNKNOWN, "return")
    assert world.status_now.is_ours
