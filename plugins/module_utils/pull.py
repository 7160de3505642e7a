"""A node that applies its bundle by itself. Runs on the node, from the bundle, without Ansible.

No controller confirms a change to the management path over a new connection, so the default
gateways do: each that answered ARP or neighbor discovery before must do so after it.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

from . import long_step
from .busy import Busy, refusal
from .converge import converge
from .guard import confirm
from .lock import NodeLock, read_record
from .machine import Machine, NodeError
from .plan import NotYet, Plan, Refused, Unsupported
from .replaced import Replaced
from .survey import interruptions, remaining, remember, survey

if TYPE_CHECKING:
    from collections.abc import Callable

PROVEN, FAILED, UNKNOWN, PENDING = "proven", "failed", "unknown", "pending"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_RUN = "pull-"  # with the bundle's number
_GUARDED = "guard_revert_s"  # the argument of a role that can change the management path
_CONFIRMATIONS = 3  # as the action plugin of the roles has it
_LOOKS, _PAUSE_S = 10, 0.5  # for a gateway: a link that was changed may come up for seconds
# Drivers take minutes for a card's firmware; the units of a boot wait as long for its devices.
_BOOT_S, _LATE_PAUSE_S = 300, 5
_UNITS, _OWN_UNIT = "rdmaprov-", "rdmaprov-node.service"  # docs/pull.md has the latter
_MOST_REBOOTS = 3  # for one bundle, each for other causes; our choice
_KINDS = {Busy: "busy", Unsupported: "unsupported", Refused: "refused", NotYet: "waits"}


class Pull:
    """One run on a node, and its state.

    Args:
        bundle: the verified one: `arguments` by role, `standing`, and what the state repeats.
        before: the state of the last run, empty for none.
        reboots: whether a node that requires a reboot gets it.
        force: whether traffic may be interrupted although somebody uses the node.
        save: keeps the state. That is done first, too: a run that is killed leaves no proof.
    """

    def __init__(
        self,
        bundle: dict[str, Any],
        before: dict[str, Any],
        *,
        reboots: bool,
        force: bool,
        save: Callable[[dict[str, Any]], None],
    ) -> None:
        self._arguments: dict[str, dict[str, Any]] = bundle["arguments"]
        self._standing, self._save = bundle["standing"], save
        self._reboots, self._force = reboots, force
        self._machine, self._is_due = self._new_machine(), False
        self.state: dict[str, Any] = {
            **{name: bundle[name] for name in ("node", "number", "site", "bundle")},
            "code": bundle.get("code", ""),  # a program of before states does not say it
            "boot_id": self._machine.value(_BOOT_ID) or "",
            "began": time.time(),
            "verdict": UNKNOWN,
            "kind": "interrupted",
            "why": "the run did not end",
            "roles": {},
            "reboot": before.get("reboot"),  # the last one that was asked for
        }

    def run(self) -> dict[str, Any]:
        """Bring the node to the state of its bundle; return what is known then, which is saved.

        Raises:
            NodeError: nothing is known, as of a node that another run holds.
        """
        self._machine.require_root()
        holder = holder_of(self._machine, f"{_RUN}{self.state['number']}")
        left = read_record(self._machine)[0]
        # Of a run that was killed: one that lives has the kernel's lock until its end.
        gone = left.get("id") if str(left.get("run")).startswith(_RUN) else None
        with NodeLock(self._machine, {"holder": holder, "replace": gone}):
            long_step.refuse(self._machine, holder["id"])
            self._save(self.state)
            try:
                self._converge()
            except NodeError as error:
                self._end(FAILED, str(error), _kind(error))
            uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            self.state.update(ended=time.time(), uptime_s=uptime_s)
            self._save(self.state)
            if self._is_due:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that why is said, to the end
                self._machine.run(["systemctl", "reboot"])
        return self.state

    def _converge(self) -> None:
        found = self._survey_after_boot()
        if found["problems"]:
            kinds = dict.fromkeys(found["not_cured"], "not_cured")
            kinds.update(dict.fromkeys(found["unknown"], "unsupported"))
            for text in found["problems"]:
                role, _, why = text.partition(": ")
                self._note(role, FAILED, kinds.get(role, FAILED), why)
            seen = {entry["kind"] for entry in self.state["roles"].values()}
            verdict = UNKNOWN if seen == {"unsupported"} else FAILED
            self._end(verdict, "; ".join(found["problems"]), "problems")
            return
        self._refuse_busy(found)
        for role in found["roles"]:
            self._note(role, PENDING if role in found["pending"] else "unchanged")
        for role in found["pending"]:
            try:
                self._note(role, "changed", changes=self._carry_out(role))
            except NodeError as error:
                self._note(role, FAILED, _kind(error), str(error))
                break  # others may stand on it
        self._judge(self._survey() if found["pending"] else found)

    def _judge(self, found: dict[str, Any]) -> None:
        """Say what the last survey of a run shows."""
        remember(self._machine, found, rebooted=False)
        failed = {role: each for role, each in self.state["roles"].items() if each["why"]}
        causes = {role: each["reboot"] for role, each in found["roles"].items() if each["reboot"]}
        if causes and all(each["kind"] == "waits" for each in failed.values()):
            self._require_reboot(causes, found)
            return
        said = [f"{role}: {each['why']}" for role, each in failed.items()]
        said = said or [*found["problems"], *filter(None, [remaining(found, "")])]
        self._end(FAILED if said else PROVEN, "; ".join(said), "roles" if said else "")
        self.state["reboot"] = self.state["reboot"] if said else None

    def _require_reboot(self, causes: dict[str, list[str]], found: dict[str, Any]) -> None:
        """Ask for a reboot where that may be, once for the same causes."""
        asked = self.state["reboot"] or {}
        own = {name: self.state[name] for name in ("bundle", "boot_id")}
        count = asked.get("count", 0) if asked.get("bundle") == own["bundle"] else 0
        why = "; ".join(f"{role}: {each}" for role, them in causes.items() for each in them)
        self._end(PENDING, f"reboot required: {why}", "reboot")
        if not self._reboots:
            return
        self._refuse_busy(found)
        if asked.get("boot_id") == own["boot_id"]:
            self._end(PENDING, f"{self.state['why']} (asked for already)", "reboot")
        elif count >= _MOST_REBOOTS:
            self._end(FAILED, f"still required after {count} reboots: {why}", "reboot")
        else:
            self.state["reboot"] = {**own, "causes": causes, "count": count + 1}
            self._is_due = True

    def _survey(self) -> dict[str, Any]:
        """Return what differs; while the node boots, what is missing or not set may still come."""
        late: list[str] = []

        def plan(name: str, machine: Machine, arguments: dict[str, Any]) -> Plan:
            try:
                return _plan(name, machine, arguments)
            except NotYet:
                late.append(name)
                raise

        while True:
            busy = self._is_being_set()
            found = survey(self._machine, self._arguments, plan, reboots=self._reboots)
            since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
            is_set_late = found["pending"] and (busy or self._is_being_set())
            is_early = is_set_late or (late and found["problems"])
            if not is_early or since_boot > _BOOT_S:
                return found
            late.clear()
            time.sleep(_LATE_PAUSE_S)

    def _is_being_set(self) -> bool:
        """Return whether units that roles left for a boot are at work, or about to be."""
        jobs = self._machine.run(["systemctl", "--no-legend", "list-jobs"]).splitlines()
        names = [job.split()[1] for job in jobs if len(job.split()) > 2]
        return any(each.startswith(_UNITS) and each != _OWN_UNIT for each in names)

    def _survey_after_boot(self) -> dict[str, Any]:
        """Return the first survey; a cause that a reboot was for, and is still there, is kept."""
        found, asked = self._survey(), self.state["reboot"]
        if not asked or asked["boot_id"] == self.state["boot_id"]:
            return found
        left = {}
        for role, entry in found["roles"].items():
            known = asked["causes"].get(role, [])
            left[role] = {"reboot": [why for why in entry["reboot"] if why in known]}
        remember(self._machine, {**found, "roles": left}, rebooted=True)
        return self._survey()

    def _carry_out(self, role: str) -> list[str]:
        """Make a role's changes; return what they were, without values, which may be secrets.

        Raises:
            NodeError: as `converge` does, and if a gateway does not answer any more.
        """
        arguments, machine = self._arguments[role], self._new_machine()
        kept = Replaced(self._new_machine(), f"{_RUN}{self.state['number']}", role)
        machine.keep, machine.note = kept.keep, kept.note
        gateways = _guards(machine, role, arguments) if _GUARDED in arguments else []
        changes: list[str] = []
        module = importlib.import_module(f".roles.{role}", __package__)
        for _ in range(_CONFIRMATIONS):
            result = converge(machine, module, arguments, check=False, force=self._force)
            changes += ["{device}: {setting} ({layer})".format(**one) for one in result["changes"]]
            if "confirm" not in result:
                return changes
            for each in gateways:
                if each not in _gateways(machine) or not _answers(machine, *each):
                    raise NodeError(f"{each[1]} does not answer any more; the change is reverted")
            confirm(machine, result["confirm"])
        raise NodeError("the management path still changes after confirmed changes")

    def _new_machine(self) -> Machine:
        machine = Machine()
        machine.standing = self._standing
        return machine

    def _refuse_busy(self, found: dict[str, Any]) -> None:
        if found["busy"] and not self._force:
            raise Busy(refusal(found["busy"], interruptions(found["roles"])))

    def _note(
        self, role: str, state: str, kind: str = "", why: str = "", changes: list[str] | None = None
    ) -> None:
        own = {"state": state, "kind": kind, "why": why, "changes": changes or []}
        self.state["roles"][role] = own

    def _end(self, verdict: str, why: str, kind: str) -> None:
        self.state.update(verdict=verdict, kind=kind, why=why)


def _kind(error: NodeError) -> str:
    return next((_KINDS[each] for each in _KINDS if isinstance(error, each)), FAILED)


def _plan(name: str, machine: Machine, arguments: dict[str, Any]) -> Plan:
    plan: Plan = importlib.import_module(f".roles.{name}", __package__).plan(machine, arguments)
    return plan


def _guards(machine: Machine, role: str, arguments: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the default gateways that answer, before a role may change the management path.

    Raises:
        Refused: nothing would show that it is cut.
    """
    found = _gateways(machine)
    answer = [each for each in found if _answers(machine, *each)]
    if not found or (not answer and _plan(role, machine, arguments).guarded):
        why = "answers" if found else "is known"
        raise Refused(
            f"no default gateway {why}, so nothing would show that a change cuts the management "
            "path; apply this role from a controller"
        )
    return answer


def _gateways(machine: Machine) -> list[tuple[str, ...]]:
    """Return the default gateways: family, address, device, and the node's address towards it."""
    found: list[tuple[str, ...]] = []
    for family in ("-4", "-6"):
        ip = ["ip", "-j", family, "route"]
        for route in json.loads(machine.run([*ip, "show", "default"]) or "[]"):
            for hop in route.get("nexthops", [route]):
                to = [hop.get("gateway", ""), "oif", hop.get("dev", "")]
                own = json.loads(machine.run([*ip, "get", *to]) or "[]") if to[0] else []
                found += [(family, to[0], to[2], each.get("prefsrc", "")) for each in own]
    return found


def _answers(machine: Machine, family: str, address: str, netdev: str, _own: str) -> bool:
    """Return whether a neighbor answers ARP or neighbor discovery now."""
    words = ["ip", "-j", family, "neigh"]
    try:
        machine.run([*words, "flush", "to", address, "dev", netdev])
        for _ in range(_LOOKS):
            _knock(family, address, netdev)
            time.sleep(_PAUSE_S)
            text = machine.run([*words, "show", "to", address, "dev", netdev])
            if any("REACHABLE" in each.get("state", []) for each in json.loads(text or "[]")):
                return True
    except (NodeError, OSError):
        return False
    return False


def _knock(family: str, address: str, netdev: str) -> None:
    """Have the kernel look for a neighbor, by a datagram for its port `discard`."""
    of = socket.AF_INET6 if family == "-6" else socket.AF_INET
    to = (address, 9, 0, socket.if_nametoindex(netdev)) if family == "-6" else (address, 9)
    with socket.socket(of, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, netdev.encode())
        opened.sendto(b"", to)


def holder_of(machine: Machine, run: str) -> dict[str, Any]:
    """Return this process as the holder of the node's lock, as plugin_utils.holder reads it."""
    pid = os.getpid()
    ticks = (machine.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()[19]
    boot = machine.value(_BOOT_ID)
    return {
        "id": secrets.token_hex(16),
        "user": "root",
        "host": socket.gethostname(),
        "pid": pid,
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "run": run,
        "machine": f"{boot} {os.readlink('/proc/self/ns/pid')}",
        "started": int(ticks),
    }
