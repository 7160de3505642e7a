"""`rdmaprov apply` against ansible-playbook with the same settings as stock tasks, on one machine.

    python bench/apply.py [NODES [NODES_OF_BASELINES]]     as root; 64 and 16 by default
    python bench/apply.py --drifted [NODES]                128 by default; baselines on 16 of them
    python bench/apply.py --jump [NODES]                   plan behind one jump host; 512 by default

Two baselines: stock (Ansible's defaults: 5 forks, facts, no pipelining) and tuned (50 forks,
pipelining, ControlPersist, no facts). They run on fewer nodes and are scaled, as their time is
proportional to the number of nodes. Each runs on nodes with nothing set, then again with nothing
to do. Nodes and controller share the processors of this machine (see fleet.py), so compare the
ratios, not the seconds. Nodes have no RDMA device: the settings are those of the role limits, 24
kernel settings and the locked memory of logins, which is 26 stock tasks.

With --drifted: nothing to do, then one setting lost on one node. The nodes' sshd logs show that no
other node was changed: one session each, that of the probe.

With --jump: `plan` of the role hugepages over a path of 20 ms each way to one jump host with sshd's
own MaxStartups, then behind one that drops no login. One sshd of this machine stands for all nodes
(see tests/unit/helpers/bastion.py), so it takes as many logins as all of them would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.processes import measure as measure_processes
from tests.unit.helpers.bastion import Bastion
from tests.unit.helpers.fleet import Fleet

BIN = Path(sys.executable).parent
# Settings that each network namespace has of its own.
SETTINGS = {
    f"net.ipv4.conf.{device}.{name}": value
    for device in ("all", "default", "rail0", "rail1")
    for name, value in {
        "log_martians": 1,
        "arp_filter": 1,
        "accept_source_route": 0,
        "accept_redirects": 0,
        "send_redirects": 0,
        "promote_secondaries": 1,
    }.items()
}
MEMLOCK_USERS = ["*", "root"]
SITE = {
    "fabric_kind": "roce",
    "fabric_link_gbps": 100,
    "fabric_rails": [{"netdev": "rail0"}, {"netdev": "rail1"}],
    "limits_sysctl": SETTINGS,
    "limits_memlock_users": MEMLOCK_USERS,
    "limits_memlock_services": [],
}
TUNED = {
    "ANSIBLE_FORKS": "50",
    "ANSIBLE_PIPELINING": "1",
    "ANSIBLE_GATHERING": "explicit",
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=120s",
}


def stock_tasks() -> list[dict[str, object]]:
    """Return the settings as tasks of ansible.builtin, one per setting, as in a usual playbook."""
    tasks: list[dict[str, object]] = [
        {
            "name": f"Set {name}",
            "ansible.builtin.lineinfile": {
                "path": "/etc/sysctl.d/99-bench.conf",
                "regexp": f"^{name} = ",
                "line": f"{name} = {value}",
                "create": True,
                "mode": "0644",
            },
        }
        for name, value in SETTINGS.items()
    ]
    tasks.append(
        {
            "name": "Load the settings",
            "ansible.builtin.command": "sysctl -q -p /etc/sysctl.d/99-bench.conf",
            "changed_when": False,
        }
    )
    text = "".join(f"{user} - memlock unlimited\n" for user in MEMLOCK_USERS)
    copy = {"dest": "/etc/security/limits.d/99-bench.conf", "content": text, "mode": "0644"}
    tasks.append({"name": "Raise the limit of locked memory", "ansible.builtin.copy": copy})
    return tasks


def measure_time(name: str, argv: list[object], environment: dict[str, str]) -> float:
    """Run a command; return its duration in seconds."""
    home = {"HOME": str(Path(environment["FLEET"]) / "home"), **environment}
    start = time.perf_counter()
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=environment["FLEET"],
        env={**os.environ, **home},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"  {name:32} {seconds:7.1f} s", flush=True)
    return seconds


def prepare_fleet(fleet: Fleet) -> tuple[dict[str, str], list[object]]:
    """Write site and playbook; return the environment, and the command that runs stock tasks."""
    (fleet.site / "group_vars").mkdir()
    (fleet.site / "group_vars/all.yml").write_text(json.dumps(SITE))
    playbook = fleet.directory / "stock.yml"
    playbook.write_text(json.dumps([{"hosts": "all", "tasks": stock_tasks()}]))
    environment = {"FLEET": str(fleet.directory), "ANSIBLE_NOCOLOR": "1"}
    return environment, [BIN / "ansible-playbook", "-i", fleet.site, playbook]


def our_command(fleet: Fleet, *options: str) -> list[object]:
    """Return the command line of rdmaprov on a fleet."""
    return [BIN / "rdmaprov", "apply", fleet.site, "--roles", "limits", *options]


def measure_kind(kind: str, count: int) -> dict[str, float]:
    """Return the seconds of a first and a second run on nodes with nothing set."""
    with Fleet(count) as fleet:
        environment, argv = prepare_fleet(fleet)
        if kind == "tuned":
            environment.update(TUNED)
        if kind == "rdmaprov":
            argv = our_command(fleet)
        return {
            turn: measure_time(f"{kind}, {count} nodes, {turn}", argv, environment)
            for turn in ("first", "again")
        }


def measure(count: int, baselines_count: int) -> None:
    """Run all cells for a number of nodes, and print the ratios."""
    print(f"{count} nodes, {len(stock_tasks())} stock tasks, {os.cpu_count()} processors")
    ours = measure_kind("rdmaprov", count)
    baselines = {name: measure_kind(name, baselines_count) for name in ("tuned", "stock")}
    scale = count / baselines_count
    note = "" if scale == 1 else f" (scaled from {baselines_count} nodes)"
    for turn in ("first", "again"):
        for name, seconds in baselines.items():
            ratio = seconds[turn] * scale / ours[turn]
            print(f"  {turn}: {ratio:.1f} x as fast as {name}{note}")


def count_sessions(fleet: Fleet) -> list[int]:
    """Return the number of commands that each node's sshd has run."""
    logs = [fleet.directory / f"n{index:03}" / "log" for index in range(fleet.count)]
    return [log.read_text().count("Starting session: ") for log in logs]


def measure_drifted(count: int) -> None:
    """Measure `apply --drifted` on nodes that match the site, and with one that differs."""
    print(f"{count} nodes, {len(stock_tasks())} stock tasks, {os.cpu_count()} processors")
    with Fleet(count) as fleet:
        environment, stock = prepare_fleet(fleet)
        measure_time(f"apply, {count} nodes, first", our_command(fleet), environment)
        nothing = measure_time(
            f"--drifted, {count} nodes", our_command(fleet, "--drifted"), environment
        )
        check_changed(fleet, [])
        before = count_sessions(fleet)
        lost = count // 2
        set_back = ["sysctl", "-qw", "net.ipv4.conf.rail0.arp_filter=0"]
        subprocess.run(["ip", "netns", "exec", f"rdmaprov{lost}", *set_back], check=True)
        measure_time(
            f"--drifted, {count} nodes, 1 lost", our_command(fleet, "--drifted"), environment
        )
        check_changed(fleet, [f"n{lost:03}"])
        asked = [now - then for now, then in zip(count_sessions(fleet), before, strict=True)]
        others = [number for index, number in enumerate(asked) if index != lost]
        if set(others) - {1} or asked[lost] < 2:
            raise SystemExit(f"commands on the nodes: {asked}, wanted 1, and more on {lost}")
        few = min(count, 16)
        of_few = ["--limit", ",".join(f"n{index:03}" for index in range(few))]
        for name, more in (("tuned", TUNED), ("stock", {})):
            measure_time(f"{name}, {few} nodes, first", [*stock, *of_few], {**environment, **more})
            again = measure_time(
                f"{name}, {few} nodes, again", [*stock, *of_few], {**environment, **more}
            )
            note = "" if few == count else f" (scaled from {few} nodes)"
            print(f"  nothing to do: {again * count / few / nothing:.1f} x as fast as {name}{note}")


def check_changed(fleet: Fleet, wanted: list[str]) -> None:
    """Exit unless the last run changed exactly these nodes and only probed all others."""
    run = max((fleet.directory / "runs").glob("*-apply*"), key=lambda path: path.stat().st_mtime)
    nodes = json.loads((run / "results.json").read_text())["nodes"]
    changed = [name for name, node in nodes.items() if node["state"] == "changed"]
    rest = [name for name, node in nodes.items() if not node["probed"]]
    if changed != wanted or rest != wanted:
        raise SystemExit(f"changed: {changed}, not verified by the probe: {rest}, wanted: {wanted}")


def measure_jump(count: int) -> None:
    """Measure `plan` of nodes behind one jump host; exit if a node is lost, or no login dropped."""
    for takes_all in (False, True):
        with tempfile.TemporaryDirectory(prefix="rdmaprov-jump-") as name:
            at = Path(name)
            with Bastion(at, count, takes_all=takes_all) as fleet:
                argv = [str(BIN / "rdmaprov"), "plan", "site", "--roles", "hugepages"]
                done = measure_processes(argv, at, {"HOME": str(at)}, 0)
                drops = fleet.drops
            (path,) = at.glob("runs/*/results.json")
            nodes = json.loads(path.read_text())["nodes"].values()
        states = Counter(node["state"] for node in nodes)
        kind = "takes all" if takes_all else "sshd's default"
        print(f"  {kind:14} {done.line()}  {drops} logins dropped, {dict(states)}", flush=True)
        if states.total() != count or set(states) - {"pending", "unchanged"}:
            raise SystemExit(f"exit code {done.code}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        if not (takes_all or drops):
            raise SystemExit("the jump host dropped no login, so this run shows nothing")


if __name__ == "__main__":
    if os.geteuid() != 0:
        raise SystemExit("bench/apply.py makes network namespaces: run it as root")
    if sys.argv[1:2] == ["--drifted"]:
        measure_drifted(int((sys.argv[2:] or ["128"])[0]))
    elif sys.argv[1:2] == ["--jump"]:
        measure_jump(int((sys.argv[2:] or ["512"])[0]))
    else:
        words = [int(word) for word in sys.argv[1:]] or [64, 16]
        measure(words[0], words[-1])
