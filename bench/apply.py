"""`rdmaprov apply` against ansible-playbook with the same settings as stock tasks, on one machine.

    python bench/apply.py [NODES [NODES_OF_BASELINES]]     as root; 64 and 16 by default

Two baselines: stock (Ansible's own defaults: 5 forks, facts, no pipelining) and tuned (50 forks,
pipelining, ControlPersist, no facts). They run on fewer nodes and are scaled, as their cost grows
with the number. Each runs first on nodes with nothing set, and again with nothing to do. Nodes
and controller share this machine's processors (see fleet.py), so the ratios count and the seconds
do not. Nodes have no RDMA device: the settings are those of the role limits, 24 kernel settings
and the locked memory of logins, which is 26 stock tasks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fleet import Fleet

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
    """Return the settings as tasks of ansible.builtin, one for each, as a playbook has them."""
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
            "name": "Put all of them in force",
            "ansible.builtin.command": "sysctl -q -p /etc/sysctl.d/99-bench.conf",
            "changed_when": False,
        }
    )
    text = "".join(f"{user} - memlock unlimited\n" for user in MEMLOCK_USERS)
    copy = {"dest": "/etc/security/limits.d/99-bench.conf", "content": text, "mode": "0644"}
    tasks.append({"name": "Lift locked memory", "ansible.builtin.copy": copy})
    return tasks


def timed(name: str, argv: list[object], environment: dict[str, str]) -> float:
    """Return how many seconds a command took."""
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


def cell(kind: str, count: int) -> dict[str, float]:
    """Return the seconds of a first and of a second run on nodes with nothing set."""
    with Fleet(count) as fleet:
        environment = {"FLEET": str(fleet.directory), "ANSIBLE_NOCOLOR": "1"}
        (fleet.site / "group_vars").mkdir()
        (fleet.site / "group_vars/all.yml").write_text(json.dumps(SITE))
        playbook = fleet.directory / "stock.yml"
        playbook.write_text(json.dumps([{"hosts": "all", "tasks": stock_tasks()}]))
        argv: list[object] = [BIN / "ansible-playbook", "-i", fleet.site, playbook]
        if kind == "tuned":
            environment.update(TUNED)
        if kind == "rdmaprov":
            argv = [BIN / "rdmaprov", "apply", fleet.site, "--roles", "limits"]
        return {
            turn: timed(f"{kind}, {count} nodes, {turn}", argv, environment)
            for turn in ("first", "again")
        }


def measure(count: int, baselines_count: int) -> None:
    """Run all cells for a number of nodes, and print the ratios."""
    print(f"{count} nodes, {len(stock_tasks())} stock tasks, {os.cpu_count()} processors")
    ours = cell("rdmaprov", count)
    baselines = {name: cell(name, baselines_count) for name in ("tuned", "stock")}
    scale = count / baselines_count
    note = "" if scale == 1 else f" (scaled from {baselines_count} nodes)"
    for turn in ("first", "again"):
        for name, seconds in baselines.items():
            ratio = seconds[turn] * scale / ours[turn]
            print(f"  {turn}: {ratio:.1f} x as fast as {name}{note}")


if __name__ == "__main__":
    if os.geteuid() != 0:
        raise SystemExit("bench/apply.py makes network namespaces: run it as root")
    words = [int(word) for word in sys.argv[1:]] or [64, 16]
    measure(words[0], words[-1])
