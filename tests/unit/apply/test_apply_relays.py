"""Ansible from relays: what is sent there, what is taken from there, and what stays."""

import base64
import io
import json
import os
import signal
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.tables import cases
from tests.unit.apply.test_apply_results import EVENTS, events
from tests.unit.helpers.local_node import here
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.waiting import has_ended, until

from rdmaprov.apply.events import known_event, parse_event
from rdmaprov.apply.relays import NodeWay, RelayJob, find_ways, missing, run_all
from rdmaprov.apply.run import ApplyRequest, open_run
from rdmaprov.boundary import OddAnswer
from rdmaprov.inventory import load_site
from rdmaprov.probe.ways import Takeover
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="/run is root's")

NODES = ("n1", "n2")
EVENT = {"event": "runner_on_ok", "stdout": "ok: [n1]", "event_data": {"host": "n1", "task": "A"}}
RUNNER = cases(__file__, "runner")


SLEEPS = "busy = subprocess.Popen(['sleep', '600'], start_new_session=True)"


class Relay:
    def __init__(self, at, acts, core="2.19.14"):
        (at / "bin").mkdir()
        playbook = (
            f"#!/bin/sh\necho 'ansible-playbook [core {core}]'\n" if core else "#!/bin/sh\nexit 1\n"
        )
        programs = {
            "ansible-runner": RUNNER.format(at=str(at)) + acts,
            "ansible-playbook": playbook,
        }
        for name, text in programs.items():
            (at / "bin" / name).write_text(text)
            (at / "bin" / name).chmod(0o755)
        script = f'echo $$ >{at}/pid; PATH={at}/bin:$PATH; eval "exec $0"'
        target = here("r1", "/usr/bin/python3", ("/bin/sh", "-c", script))
        self.at = at
        self.target = replace(target, interpreter="/usr/bin/python3")
        self.job = RelayJob(
            (self.target,),
            {name: {"fabric_kind": "roce"} for name in NODES},
            "plan",
            {"extravars": {}, "envvars": {}},
        )
        self.heard, self.lost, self.moved = [], [], []

    def run(self, hear=lambda _event: None, signals=lambda: 0):
        def take(event):
            self.heard.append(event)
            hear(event)

        def move(_names, took):
            self.moved.append(took)
            return ["n2"]

        run_all([self.job], take, lambda *lost: self.lost.append(lost), move, signals)
        return self

    @property
    def place(self):
        return Path((self.at / "place").read_text())


def artifacts():
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as opened:
        opened.writestr("../../evil", "here")
    data = written.getvalue()
    return json.dumps({"zipfile": len(data)}) + "\n" + base64.b64encode(data).decode()


def test_events_are_taken_and_artifacts_are_not(tmp_path):
    acts = f"say({EVENT!r}); say({artifacts()!r} + '{{\"eof\": true}}'); sys.exit(2)"
    relay = Relay(tmp_path, acts).run()
    assert relay.heard == [EVENT]
    assert [(why, whole) for _, why, whole in relay.lost] == [
        ("its relay r1 ended (2): no reason given", False)
    ]
    assert relay.place.parent == Path("/run")
    assert not relay.place.exists()
    assert not list(tmp_path.rglob("evil"))


def test_failed_node_says_by_itself_why_the_others_did_not_begin(tmp_path):
    failed = {"event": "runner_on_failed", "event_data": {"host": "n2", "res": {"msg": "no"}}}
    relay = Relay(tmp_path, f"say({failed!r}); sys.exit(2)").run()
    assert len(relay.heard) == 1
    assert relay.lost == []


@pytest.mark.parametrize(
    "lie",
    [
        {**EVENT, "event_data": {"host": "n3"}},
        {**EVENT, "event_data": {"host": ["n1"]}},
        {**EVENT, "event_data": ["n1"]},
        {**EVENT, "event_data": {"host": "n1", "duration": -1}},
        {**EVENT, "event_data": {"host": "n1", "res": {"roles": {"mtu": {}}, "pending": ["nccl"]}}},
        {**EVENT, "event_data": {"host": "n1", "res": {"changes": ["mtu"]}}},
        "no JSON",
        "[" * 100_000,
        "[]",
        "x" * (17 << 20),
    ],
    ids=lambda lie: str(lie)[:60],
)
def test_relay_that_lies_loses_all_its_nodes(tmp_path, lie):
    (tmp_path / "lie").write_text(lie if isinstance(lie, str) else json.dumps(lie))
    relay = Relay(
        tmp_path, f"{SLEEPS}; say({EVENT!r}); say(open(at + '/lie').read()); busy.wait()"
    ).run()
    assert relay.heard == [EVENT]
    ((nodes, why, whole),) = relay.lost
    assert (tuple(nodes), whole) == (NODES, True)
    assert why.startswith("its relay r1 sent what is no event of its nodes: ")
    assert until(lambda: not relay.place.exists())


BUSY = f"""
busy = subprocess.Popen(["sleep", "600"], start_new_session=True)
write("busy", busy.pid)
write("worker", os.getppid())
say({EVENT!r})
status = busy.wait()
say({{**{EVENT!r}, "stdout": str(status)}})
"""


def worker_of(relay):
    """Return the process that watches ansible-runner, and the one that watches that."""
    inner = int((relay.at / "worker").read_text())
    return inner, int(Path(f"/proc/{inner}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("who", ["the line", "inner", "outer"])
def test_nothing_stays_on_a_relay_of_which_something_is_killed(tmp_path, who):
    relay = Relay(tmp_path, BUSY)

    def kill(_event):
        inner, outer = worker_of(relay)
        line = int((tmp_path / "pid").read_text())
        os.kill({"the line": line, "inner": inner, "outer": outer}[who], signal.SIGKILL)

    relay.run(kill)
    ((nodes, why, whole),) = relay.lost
    assert (tuple(nodes), whole) == (NODES, False)
    assert why.startswith("its relay r1")
    assert has_ended(tmp_path / "busy")
    assert until(lambda: not relay.place.exists())


def test_interrupt_comes_to_ansible_and_its_last_events_count(tmp_path):
    relay = Relay(tmp_path, BUSY)
    relay.run(signals=lambda: int(bool(relay.heard)))
    assert [event["stdout"] for event in relay.heard] == ["ok: [n1]", str(-signal.SIGINT)]
    assert relay.lost == []
    assert not relay.place.exists()


@pytest.mark.parametrize(
    ("core", "says"),
    [
        ("2.14.18", "its relay r1 has ansible-core 2.14.18. On it, run: "),
        ("none", "its relay r1 has no ansible-core. On it"),
    ],
)
def test_relay_that_lacks_something_gets_no_job(tmp_path, core, says):
    ((nodes, why, whole),) = Relay(tmp_path, "", core).run().lost
    assert (tuple(nodes), whole) == (NODES, False)
    assert why.startswith(says)
    assert "run: python3 -m pip install 'ansible-core<" in why
    assert not (tmp_path / "place").exists()


LINE = "os.kill(int(open(at + '/pid').read()), 9); time.sleep(600)"


@pytest.mark.parametrize(
    ("first", "verb", "why"),
    [
        ("", "apply", "ended (127)"),
        ("core", "apply", "has no ansible-core. On it, run: "),
        (f"say({EVENT!r}); {LINE}", "plan", "the connection ended (-9)"),
        (f"say({EVENT!r}); {LINE}", "apply", ""),
        ("say('[]'); time.sleep(600)", "plan", ""),
        ("sys.exit(2)", "plan", ""),
    ],
)
def test_another_relay_takes_over_where_nothing_can_be_done_twice(tmp_path, first, verb, why):
    places = tmp_path / "1", tmp_path / "2"
    for place in places:
        place.mkdir()
    one = Relay(places[0], first, "" if first == "core" else "2.19.14")
    other = {**EVENT, "event_data": {"host": "n2"}}
    two = Relay(places[1], f"say({other!r})")
    relays = one.target, replace(two.target, name="r2")
    if not first:
        relays = replace(one.target, argv=("/bin/sh", "-c", "exec /none/ssh")), relays[1]
    one.job = replace(one.job, relays=relays, verb=verb)
    one.run()
    assert [(each.relay, each.by) for each in one.moved] == [("r1", "r2")] * bool(why)
    assert (places[1] / "place").exists() == bool(why)
    ((nodes, said, _),) = one.lost
    if why:
        assert one.heard[-1] == other
        assert why in one.moved[0].why
        assert (tuple(nodes), said) == (("n2",), "its relay r2 ended (0): no reason given")
    else:
        assert (tuple(nodes), said[:12]) == (NODES, "its relay r1")


def test_all_that_is_missing_is_named():
    there = {"ansible-core": "[core 2.19.14]", "ansible-runner": "2.4.3", "place": "/run"}
    assert missing(there) == ""
    assert missing({**there, "place": ""}).startswith("has no XDG_RUNTIME_DIR")
    nothing = missing({**there, "ansible-core": "", "ansible-runner": ""})
    assert nothing.startswith("has no ansible-core, no ansible-runner. On it, run: python3 -m pip")
    assert "'ansible-runner>=2.4'" in nothing


@pytest.mark.parametrize("name", [path.stem for path in sorted(EVENTS.glob("*.jsonl"))])
def test_events_of_real_runs_mean_the_same_by_a_relay(name):
    found = events(name)
    for one in found:
        if "roles" in one["event_data"].get("res", {}):
            one["event_data"]["res"].setdefault("boot_id", "0")  # they were recorded before it was
    nodes = {str(one["event_data"].get("host")) for one in found}
    assert [parse_event(known_event(one, nodes)) for one in found] == list(map(parse_event, found))


def test_text_of_a_relay_has_nothing_that_a_terminal_obeys():
    odd = {**EVENT, "event_data": {"host": "n1", "res": {"msg": "\x1b[2Jgone"}}}
    assert known_event(odd, NODES)["event_data"]["res"]["msg"] == "\\x1b[2Jgone"
    with pytest.raises(OddAnswer, match="one of n9"):
        known_event({**EVENT, "event_data": {"host": "n9"}}, NODES)


SITE = cases(__file__, "site")


def test_site_is_resolved_here_and_each_relay_gets_its_nodes_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("ODD_USER", "ana")
    site = write(tmp_path / "site", {**GOOD, "hosts.yml": SITE})
    find = find_ways(load_site(site), "sesame")
    assert find("n3") == NodeWay()
    relays, nodes = find("n1").relays, {"n1": find("n1").values}
    assert ([relay.name for relay in relays], find("n1").lost) == (["r1", "r2"], "")
    assert nodes["n1"]["fabric_rails"][0]["address"] == "198.18.0.1/24"
    assert nodes["n1"]["ansible_ssh_common_args"] == "-o KexAlgorithms=x"
    assert nodes["n1"]["ansible_ssh_args"].startswith("-o ProxyJump=none ")
    assert "unused" not in nodes["n1"]
    settings = {"extravars": {"apply_planned": {"n1": "a", "n2": "b"}}, "envvars": {}}
    stream = RelayJob(relays, nodes, "plan", settings).stream(2)
    kwargs = json.loads(stream.split(b"\n", 1)[0])["kwargs"]
    assert kwargs["extravars"] == {"apply_planned": {"n1": "a"}}
    packed = base64.b64decode(stream.split(b"\n")[3].partition(b"{")[0])
    with zipfile.ZipFile(io.BytesIO(packed)) as opened:
        sent = json.loads(opened.read("hosts.json"))["all"]["hosts"]["n1"]
    assert sent["ansible_user"] == {"__ansible_unsafe": "ana"}
    assert sent["ansible_sudo_pass"] == {"__ansible_unsafe": "sesame"}


def test_what_only_ansible_knows_at_run_time_is_refused(tmp_path):
    facts = "fabric_gpu_count: \"{{ ansible_facts['gpus'] | default(8) }}\"\n"
    site = write(tmp_path / "site", {**GOOD, "hosts.yml": SITE, "group_vars/nodes.yml": facts})
    way = find_ways(load_site(site), "")("n1")
    assert way.relays == ()
    assert "only Ansible knows ansible_facts, at run time" in way.lost


@pytest.mark.parametrize(("most", "begun"), [(49, [["n1", "n3"]]), (51, [["n1", "n3"], ["n2"]])])
def test_batches_are_of_nodes_by_all_ways(tmp_path, monkeypatch, most, begun):
    fleet = load_site(write(tmp_path / "site", {**GOOD, "hosts.yml": SITE}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODD_USER", "ana")
    seen: list[list[str]] = []
    asked = []

    def run(_hosts, beside, limit, extravars, event_handler, **_settings):
        jobs, _hear, lose, move = beside.args
        own = [name for job in jobs for name in job.inventory]
        asked.append([relay.name for job in jobs for relay in job.relays])
        if not seen:
            assert move(own, Takeover("r1", "r2", "gone")) == own
        seen.append([*own, *Path(limit.removeprefix("@")).read_text().split()])
        assert extravars["apply_serial"] == "100%"
        data = {"host": "n3", "task": "A", "res": {"msg": "no"}}
        event_handler({"event": "runner_on_failed", "event_data": data})
        lose([name for name in own if name == "n2"], "its relay r1 ended", False)
        return 0

    monkeypatch.setattr("rdmaprov.apply.run.run_ansible", run)
    variables = {"apply_serial": "2", "apply_max_failures": most}
    request = ApplyRequest("apply", fleet.site, ("n1", "n3", "n2"), None, (), variables, ())
    screen = Screen(Console(file=io.StringIO()), Mask([]))
    with open_run(request, fleet, "", Mask([]), screen) as one:
        results = one.run_playbook("apply")
        text = one.write(results)
    assert seen == begun
    assert asked == [["r1", "r2"], ["r2", "r1"]][: len(begun)]
    assert json.loads(text)["relays"] == [{"relay": "r1", "by": "r2", "why": "gone"}]
    states = {"n1": "not_begun", "n3": "failed", "n2": "unreachable" if begun[1:] else "not_begun"}
    assert {name: str(node.state) for name, node in results.nodes.items()} == states
