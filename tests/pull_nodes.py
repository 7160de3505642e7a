"""Nodes that apply by themselves, as tests of them share it: the page's units, Slurm, bundles."""

import json
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plugins.module_utils.argument_specs import ARGUMENTS
from tests.tables import cases

from rdmaprov.lab.monitor import ProgramExit
from rdmaprov.node.bundle import NAMESPACE

PAGE = Path(__file__).parents[1] / "docs/pull.md"
BUNDLE = "/etc/rdmaprov/bundle"
LIMIT_S, ANSWER_S = 300, 20  # of a boot or a run, and of what only looks
NO_KEY = "its signature is of no key"
MTU = {name: of.get("default") for name, of in ARGUMENTS["mtu"].items()}
STARTED, REFUSED = "success active 1", "exec-condition inactive 0"


def image_files(public: Path, program: Path, **slurm: str) -> dict[str, str]:
    """Return by path what an image has for a node that applies by itself, and for Slurm."""
    units, page = "etc/systemd/system", PAGE.read_text()
    own = page.split(f"# /{units}/rdmaprov-node.service\n")[1]
    drop_in = page.partition("journal has the reason:\n\n```\n")[2]
    return {
        f"{units}/rdmaprov-node.service": own.partition("```")[0],
        f"{units}/slurmd.service.d/rdmaprov.conf": drop_in.partition("```")[0],
        "etc/rdmaprov/signers": f"ops {public.read_text()}",
        "etc/slurm/slurm.conf": cases(__file__, "slurm").format(**slurm),
        "etc/slurm/cgroup.conf": "CgroupPlugin=cgroup/v1\n",
        "usr/local/sbin/modinfo": cases(__file__, "modinfo"),
        "usr/local/sbin/rdmaprov-node": program.read_text(),
    }


def signed(bundle: str) -> dict[str, Any]:
    own: dict[str, Any] = json.loads(json.loads(bundle)["signed"])
    return own


def sign(own: dict[str, Any], by: Path) -> str:
    return sign_text(json.dumps(own), by)


def sign_text(text: str, by: Path, purpose: str = NAMESPACE) -> str:
    words = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(by), "-n", purpose]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    return json.dumps({"signed": text, "signature": done.stdout})


def wrong_bundles(bundle: str, others: str, older: str, key: Path) -> dict[str, str]:
    """Return what a node refuses, and why: of its bundle, another node's, an older one, a key."""
    tampered = {**json.loads(bundle), "signed": json.dumps({**signed(bundle), "arguments": {}})}
    names = (signed(each)["node"] for each in (others, bundle))
    return {
        json.dumps(tampered): NO_KEY,
        sign(signed(bundle), key): NO_KEY,
        others: "it is for {}, and this is {}".format(*names),
        older: f"it is older (number {signed(older)['number']})",
    }


def cutting(bundle: str, netdev: str, by: Path) -> str:
    """Return a newer bundle that gives a device an MTU at which its gateway does not answer."""
    mtu = {"rails": [{"netdev": netdev}], "mtu_bytes": 1400, "guard_revert_s": 15}
    given = {**MTU, **mtu, "guard_allowed_netdevs": [netdev]}
    own = signed(bundle)
    return sign({**own, "number": own["number"] + 1, "arguments": {"mtu": given}}, by)


Ended = subprocess.CompletedProcess[str] | ProgramExit


class PullNode(ABC):
    """A node that applies by itself; each kind says how a script is run there."""

    pause_s = 0.5  # between two looks, each of which takes time of the node's processor

    @abstractmethod
    def call(self, script: str, limit_s: float = LIMIT_S) -> Ended: ...

    def limit_s(self, base_s: float) -> float:
        """Return a time limit for the machine as it is now, from that of a quiet one."""
        return base_s

    def until(self, what: Callable[[], object], limit_s: float = LIMIT_S) -> None:
        end = time.monotonic() + self.limit_s(limit_s)
        while not what():
            assert time.monotonic() < end
            time.sleep(self.pause_s)

    def run(self, script: str) -> str:
        done = self.call(script)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def bring(self, text: str, to: str = BUNDLE, mode: str = "600") -> None:
        self.run(f"mkdir -p $(dirname {to}); cat > {to} << 'END'\n{text}\nEND\nchmod {mode} {to}")

    def is_settled(self) -> bool:
        """Return whether the boot's run has ended, and slurmd is started or refused."""
        show = "systemctl show -p ActiveState --value rdmaprov-node; systemctl list-jobs"
        done = self.call(show, ANSWER_S)
        ended = done.returncode == 0 and not done.stdout.startswith("activating")
        return ended and "No jobs" in done.stdout

    def wait(self) -> dict[str, Any]:
        """Return the state once the node is settled."""
        self.until(self.is_settled)
        return self.state

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("cat /var/lib/rdmaprov/state.json"))
        return found

    def slurmd(self) -> str:
        """Return what systemd says of slurmd, and which processes of it there are."""
        show = "systemctl show -p ActiveState -p Result --value slurmd; pgrep -xc slurmd"
        return " ".join(self.call(show).stdout.split())

    def require_order(self) -> None:
        """Require that slurmd was started after the run of this boot had ended."""
        asked = {"rdmaprov-node": "ExecMainExit", "slurmd": "ExecMainStart"}
        show = "; ".join(
            f"systemctl show -p {what}TimestampMonotonic --value {unit}"
            for unit, what in asked.items()
        )
        ended, started = map(int, self.run(show).split())
        assert 0 < ended < started

    def require_refused(self, wrong: dict[str, str], running: str) -> None:
        """Require that bundles are refused, nothing changes, and what was proven still is."""
        files = "find /etc /usr/local /var/lib/rdmaprov -type f ! -name state.json"
        tree = f"{files} -exec sha256sum {{}} +; {running}"
        before = self.run(f"rm /etc/sysctl.d/99-z-rdmaprov-limits.conf; {tree}")
        for text, why in wrong.items():
            self.bring(text, "/root/wrong")
            done = self.call("rdmaprov-node apply --reboot /root/wrong")
            seen = (done.returncode, done.stderr.count("\n"), why in done.stderr)
            assert seen == (1, 1, True), (done.stdout, done.stderr)
            assert why in self.state["refused"]["why"]
        assert self.run(tree) == before
        assert self.call("rdmaprov-node check").returncode == 0

    def require_reverted(self, text: str, netdev: str, gateway: str) -> None:
        """Require that a change that cuts the network is taken back by the node alone."""
        files = "find /etc/systemd/network | sort"
        before = self.run(files)
        self.bring(text, "/root/cut")
        done = self.call(cases(__file__, "cut").format(device=netdev))
        assert done.returncode == 1, (done.stdout, done.stderr)
        why = self.state["roles"]["mtu"]["why"]
        assert why == f"{gateway} does not answer any more; the change is reverted"
        self.until(lambda: self.run(f"cat /sys/class/net/{netdev}/mtu") == "1500", 30)
        assert self.run(files) == before
