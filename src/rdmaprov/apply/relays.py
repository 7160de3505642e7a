"""Ansible from relays: ansible-runner's worker on each, whose events are a stranger's."""

import asyncio
import base64
import io
import json
import re
import shlex
import time
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import requires
from math import inf
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from rdmaprov import boundary, tuning
from rdmaprov.apply.events import known_event
from rdmaprov.boundary import Document, OddAnswer
from rdmaprov.interrupt import GRACE_S
from rdmaprov.inventory import Fleet
from rdmaprov.inventory.ansible_api import import_plugin
from rdmaprov.inventory.resolve import ResolveError
from rdmaprov.probe.errors import NodeError, RelayLied, RelayLost
from rdmaprov.probe.fleet import RELAY, FleetTargets
from rdmaprov.probe.link import SshLink
from rdmaprov.probe.login import files_elsewhere
from rdmaprov.probe.output import MOST_NODE_BYTES, ErrorOutput
from rdmaprov.probe.session import Limits
from rdmaprov.probe.target import Target
from rdmaprov.probe.ways import Takeover, Ways
from rdmaprov.problem import printable
from rdmaprov.resources import data_dir

_WORKER = Path(__file__).with_name("worker.py")
_PLACE = "ansible_collections/rdmaprov/node"  # in the project, as Ansible looks for it
_SENT = ("plugins", "roles", "playbooks", "meta")
_BY_NODE = ("apply_planned", "revert_made")
_MOST_LINE, _MOST_PARTS = 16 << 20, 1 << 18  # a survey is less than 1 MiB
_BEGIN_S = 150  # two programs are asked for their versions first
_LOOK_S = 0.5
_VERSION = re.compile(r"\d+(\.\w+)+")
_HERE = boundary.fields(
    {name: boundary.text() for name in ("ansible-core", "ansible-runner", "place")}
    | {"cores": boundary.integer(1, 1 << 16)}
)
_FAILED = ("runner_on_failed", "runner_on_unreachable")

Hear = Callable[[Document], object]
"""Gets an event of one of a relay's nodes."""
Lose = Callable[[Collection[str], str, bool], None]
"""Gets a relay's nodes, why it tells no more, and whether nothing counts that it told before."""
Move = Callable[[Collection[str], Takeover], Collection[str]]
"""Gets a relay's nodes, and which one is asked in its place; returns those that have no result."""


@dataclass(frozen=True)
class NodeWay:
    """How Ansible reaches a node: from here, from its relays, or not, and why.

    Args:
        values: for a relay, the node's variables, with no template left.
    """

    relays: tuple[Target, ...] = ()
    values: Document = field(default_factory=dict)
    lost: str = ""


def find_ways(fleet: Fleet, become_password: str) -> Callable[[str], NodeWay]:
    """Return what returns how Ansible reaches a node of a fleet."""
    targets = cache(lambda: FleetTargets(fleet, become_password))
    nodes = {node.name: node for node in fleet.nodes}

    @cache
    def find(name: str) -> NodeWay:
        node = nodes[name]
        try:
            relays = targets().of(name).relays if node.get(RELAY) else ()
            if not relays:
                return NodeWay()
            known = fleet.role_variables(name, {})
            own = {each: known.value(each) for each in node.written & node.values.keys()}
            values = own | targets().as_variables(name, node.written)
            return NodeWay(relays, json.loads(json.dumps(values)))
        except (NodeError, ResolveError, TypeError, ValueError) as error:
            why = str(error).removeprefix(f"{name}: ")
            is_known = isinstance(error, NodeError)
            return NodeWay(lost=why if is_known else f"no variable for its relay: {why}")

    return find


@dataclass(frozen=True)
class RelayJob:
    """What Ansible does from a relay.

    Args:
        relays: in the order in which they are tried.
        inventory: the variables of each of its nodes.
        settings: of ansible-runner; `extravars` has those of all nodes.
    """

    relays: tuple[Target, ...]
    inventory: Mapping[str, Document]
    verb: str
    settings: Mapping[str, Document]

    @property
    def acts(self) -> bool:
        """Return whether it may change a node."""
        return self.verb != "plan" and not self.settings["extravars"].get("revert_only_shows")

    def stream(self, cores: int) -> bytes:
        """Return it as `ansible-runner transmit` writes it, from memory: it may hold secrets."""
        given = dict(self.settings["extravars"])
        for name in given.keys() & set(_BY_NODE):
            own = given[name].keys() & self.inventory.keys()
            given[name] = {node: given[name][node] for node in own}
        if "apply_lock" in given:
            living = import_plugin("plugin_utils.holder").living()
            given["apply_lock"] = {**given["apply_lock"], "living": living}
        settings = {
            "playbook": f"{_PLACE}/playbooks/{self.verb}.yml",
            "inventory": "hosts.json",
            "extravars": given,
            "envvars": self.settings["envvars"] | tuning.on_relay(len(self.inventory), cores),
            "settings": {"pexpect_timeout": 1, "suppress_output_file": True},
        }
        hosts = json.dumps({"all": {"hosts": _unsafe(self.inventory)}}).encode()
        files = {"hosts.json": hosts, "project/ansible.cfg": b""}
        login = files_elsewhere(Limits().open, Limits().opening)
        files |= {f"login/{name}": data for name, data in login.items()}
        return b"".join([_line(kwargs=settings), _collection(), _packed(files), _line(eof=True)])


def _unsafe(value: Any) -> Any:  # noqa: ANN401 - of JSON
    """Return a value in which Ansible takes no text for a template."""
    if isinstance(value, str):
        return {"__ansible_unsafe": value}
    if isinstance(value, Mapping):
        return {name: _unsafe(each) for name, each in value.items()}
    return [_unsafe(each) for each in value] if isinstance(value, list) else value


def _line(**content: object) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _packed(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as opened:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = 0o700 << 16, zipfile.ZIP_DEFLATED
            opened.writestr(entry, data)
    return _line(zipfile=written.tell()) + base64.b64encode(written.getvalue())


@cache
def _collection() -> bytes:
    paths = {part: data_dir(part) for part in _SENT}
    return _packed(
        {
            f"project/{_PLACE}/{part}/{path.relative_to(root)}": path.read_bytes()
            for part, root in paths.items()
            for path in root.rglob("*")
            if path.suffix in (".py", ".yml")
        }
    )


def missing(here: Document) -> str:
    """Return what a relay lacks, and what to do about it; nothing if it has all."""
    lacks = {}
    for one in map(Requirement, requires("rdmaprov") or ()):
        found = _VERSION.search(here.get(one.name, "0.0"))
        if one.name in here and not (found and one.specifier.contains(found[0], prereleases=True)):
            lacks[f"'{one}'"] = f"{one.name} {found[0]}" if found else f"no {one.name}"
    if lacks:
        return (
            f"has {', '.join(lacks.values())}. On it, run: python3 -m pip install {' '.join(lacks)}"
            " (Python 3.11 or newer; of a virtual environment, set its ansible_python_interpreter)"
        )
    how = "has no XDG_RUNTIME_DIR for its user. On it, run: loginctl enable-linger"
    return "" if here["place"] else how


def run_all(
    jobs: Sequence[RelayJob], hear: Hear, lose: Lose, move: Move, signals: Callable[[], int]
) -> None:
    """Run jobs, on all relays at the same time; a first signal interrupts, a second one ends them.

    Args:
        signals: returns how many there were.
    """
    asyncio.run(_run_all([_Worker(job, hear, lose, move) for job in jobs], signals))


async def _run_all(workers: Sequence["_Worker"], signals: Callable[[], int]) -> None:
    ways = Ways({}, 1)
    tasks = {asyncio.create_task(one.follow(ways)): one for one in workers}
    stop_s = inf
    try:
        while waiting := [task for task in tasks if not task.done()]:
            await asyncio.wait(waiting, timeout=_LOOK_S)
            now, count = time.monotonic(), signals()
            if count and stop_s == inf:
                stop_s = now + GRACE_S + 4 * _LOOK_S
            for task in waiting:
                is_there = tasks[task].tell(is_over=count > 0)
                if (count and not is_there) or count > 1 or now > stop_s:
                    task.cancel()
        for task in tasks:
            if not task.cancelled():
                task.result()
    finally:
        ways.close()


class _Worker(asyncio.Protocol):
    """ansible-runner's worker on a relay, and what it writes."""

    def __init__(self, job: RelayJob, hear: Hear, lose: Lose, move: Move) -> None:
        self._job, self._hear, self._lose, self._move = job, hear, lose, move
        self._is_interrupted = False
        self._start(job.relays[0])

    def _start(self, relay: Target) -> None:
        self._relay = replace(relay, relays=(relay,))  # what runs on it
        self._link: SshLink | None = None
        self._data, self._seen = bytearray(), 0
        self._room = MOST_NODE_BYTES * len(self._job.inventory)
        self._is_at_work = self._is_over = self._has_failed = False
        self._said = ""

    async def follow(self, ways: Ways) -> None:
        """Run the job to its end, and say of which nodes nothing is known.

        Another relay takes over where nothing can be done twice; see docs/sizes.md.
        """
        others = self._job.relays[1:]
        while why := await self._try(ways):
            nodes = self._job.inventory
            if (self._is_at_work and self._job.acts) or self._is_interrupted or not others:
                self._lose(nodes.keys(), f"its relay {why}", False)
                return
            name, by, others = self._relay.name, others[0], others[1:]
            took = Takeover(name, by.name, why.removeprefix(name).lstrip(": "))
            left = self._move(nodes.keys(), took)
            if not left:
                return
            self._job = replace(self._job, inventory={node: nodes[node] for node in left})
            self._start(by)

    async def _try(self, ways: Ways) -> str:
        """Run the job from one relay; if that was lost, return its name and the reason."""
        name, nodes = self._relay.name, self._job.inventory.keys()
        try:
            if why := await self._run(ways):
                self._lose(nodes, f"its relay {name} {why}", False)
        except OddAnswer as error:
            why = f"its relay {name} sent what is no event of its nodes: {error}. Nothing counts "
            self._lose(nodes, f"{why}that it told: check who changed the relay", True)
        except RelayLied as error:
            self._lose(nodes, str(error).removeprefix(f"{name}: "), True)
        except RelayLost as error:
            return str(error).removeprefix(f"{name}: its relay ")
        return ""

    async def _run(self, ways: Ways) -> str:
        """Run the job; return why it told less than all, nothing if that is known."""
        loop, name = asyncio.get_running_loop(), self._relay.name
        self._began: asyncio.Future[bytes] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        argv = [*shlex.split(self._relay.interpreter), "-I", "-S", "-c", _WORKER.read_text()]
        errors = ErrorOutput(lambda: None)
        link = self._link = await ways.start(self._relay, argv)
        await link.open(self, errors)
        either: list[asyncio.Future[Any]] = [self._began, self._ended]
        await asyncio.wait(either, timeout=_BEGIN_S, return_when=asyncio.FIRST_COMPLETED)
        if self._began.done():
            here = boundary.parse_file(self._began.result(), 99, _HERE)
            if lacks := missing(here):
                link.stop()
                raise RelayLost(f"{name}: its relay {name} {lacks}", "")
            stream = self._job.stream(here["cores"])
            link.write([b"%d\n" % len(stream), stream])
            self._is_at_work = True
        elif not self._ended.done():
            link.stop()
            raise RelayLost(f"{name}: its relay {name} did not begin in {_BEGIN_S} s", "")
        await self._ended
        if link.lost is not None:
            raise link.lost.of_relay(name)
        if self._is_interrupted or (link.poll() and self._has_failed):
            return ""
        said = [*errors.said.decode(errors="replace").split("\n"), self._said or "no reason given"]
        why = next(filter(str.strip, reversed(said)))
        return f"ended ({link.poll()}): {printable(why)[:300]}"

    def tell(self, *, is_over: bool) -> bool:
        """Tell the worker that we are there, or to end its run; return whether there is one."""
        if self._link is not None and not (self._ended.done() or self._is_interrupted):
            if is_over:
                self._link.end_input()
            elif self._is_at_work:
                self._link.write([b"\n"])
        self._is_interrupted |= is_over
        return self._link is not None

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._room -= len(data)
        self._data += data
        try:
            while not self._is_over and (end := self._data.find(b"\n", self._seen)) >= 0:
                line, self._seen = bytes(self._data[:end]), 0
                del self._data[: end + 1]
                self._take(line)
        except OddAnswer as error:
            self._end(error)
        self._seen = 0 if self._is_over else len(self._data)
        if self._seen > _MOST_LINE or self._room < 0:
            self._end(OddAnswer("more than they write"))
        if self._is_over:
            self._data.clear()

    def _take(self, line: bytes) -> None:
        if not self._began.done():
            self._began.set_result(line)
            return
        found = boundary.parse_file(line, _MOST_PARTS, _is_mapping)
        # Its artifacts, after the last event: nothing of them is needed, and nothing is unpacked.
        self._is_over = "zipfile" in found
        self._said = str(found.get("job_explanation") or self._said)
        if "event" in found:
            event = known_event(found, self._job.inventory)
            self._has_failed |= event["event"] in _FAILED
            self._hear(event)

    def connection_lost(self, _error: Exception | None) -> None:
        """Note the end."""
        self._end(None)

    def _end(self, error: OddAnswer | None) -> None:
        self._is_over = True
        if error is not None and self._link is not None:
            self._link.stop()
        if not self._ended.done():
            self._ended.set_exception(error) if error else self._ended.set_result(None)


def _is_mapping(value: object) -> str | None:
    return boundary.RIGHT if isinstance(value, dict) else boundary.WRONG
