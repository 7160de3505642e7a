"""Nodes behind a real jump host with sshd's own MaxStartups; one sshd stands for all nodes."""

import contextlib
import getpass
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import SSHD, Sshd, passed_on
from tests.unit.helpers.waiting import until

ROOT = Path(__file__).parents[3]
# Of both sshds; the jump host's is sshd's default besides, with MaxStartups 10:30:100.
SETTINGS = cases(__file__, "settings")
CLIENT = cases(__file__, "client")
# As sites.GOOD has them, for more nodes than a /24 has addresses.
ADDRESS = ("{{ unit }}/24", "{{ unit // 250 }}.{{ unit % 250 + 1 }}/16")


class Bastion(contextlib.ExitStack):
    """A site of nodes behind a jump host, until the context ends.

    If `scanned`, strangers hold nine of the ten logins that it takes before it drops any, so that
    two of ours at once are enough, however slow this machine is.
    """

    def __init__(
        self,
        at: Path,
        count: int,
        delay_s: float = 0.02,
        dead: int = 0,
        hung: int = 0,
        *,
        takes_all: bool = False,
        scanned: bool = False,
        variables: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self.at = at
        self._parts: dict[str, subprocess.Popen[bytes]] = {}
        self.site = at / "site"
        keys = at / "keys"
        keys.mkdir()
        Sshd(keys)
        # One sshd stands for all nodes, so it takes as many logins as all of them would.
        node = self._sshd(keys, "node", "MaxStartups 2000\nMaxSessions 2000")
        jump = self._sshd(keys, "bastion", "MaxStartups 2000" if takes_all else "")
        if scanned:
            self._scan(jump)
        self._start(
            [sys.executable, "-m", "tests.unit.helpers.slow_relay", str(delay_s), str(jump)],
            "relay",
        )
        silent = self.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        assert until(lambda: (at / "relay.log").read_text().strip())
        ports = {
            "relay": (at / "relay.log").read_text().strip(),
            "port": node,
            "hung": silent.getsockname()[1],
        }
        config = at / "ssh_config"
        config.write_text(CLIENT.format(user=getpass.getuser(), at=keys, **ports))
        public = (keys / "host_key.pub").read_text()
        (keys / "known_hosts").write_text(f"bastion {public}node {public}")
        kinds = ["node"] * count + ["dead"] * dead + ["hung"] * hung
        names = [f"n{number:03}" for number in range(1, len(kinds) + 1)]
        self.bad = names[count:]
        self._write_site(dict(zip(names, kinds, strict=True)), config, variables or {})

    def _write_site(
        self, kinds: Mapping[str, str], config: Path, variables: Mapping[str, object]
    ) -> None:
        hosts = {
            name: {"unit": number, "ansible_host": f"{name}.{kind}"}
            for number, (name, kind) in enumerate(kinds.items())
        }
        shared = {
            "ansible_ssh_common_args": f"-F {config}",
            "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s",
            "ansible_python_interpreter": sys.executable,
            "ansible_ssh_timeout": 60,  # all nodes share this machine's processors
            "ansible_control_path_dir": str(self.at / "cp"),
            **variables,
        }
        away = {
            "hosts": {"bastion": {"fabric_node": False}},
            "vars": {**shared, "fabric_relay": ""},
        }
        groups = {"nodes": {"hosts": hosts, "vars": shared}, "away": away}
        files = {**GOOD, "hosts.yml": json.dumps(groups)}
        rails = GOOD["group_vars/all.yml"].replace("198.18.", "10.").replace(*ADDRESS)
        write(self.site, {**files, "group_vars/all.yml": rails})

    def _scan(self, jump: int) -> None:
        over = threading.Event()
        strangers = threading.Thread(target=_knock, args=(jump, over))
        strangers.start()
        self.callback(strangers.join)
        self.callback(over.set)

    def _sshd(self, keys: Path, name: str, more: str) -> int:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
        config = self.at / f"{name}.conf"
        config.write_text(SETTINGS.format(port=port, at=keys, more="\n".join([more, *passed_on()])))
        self._start([SSHD or "sshd", "-D", "-e", "-f", str(config)], name)
        assert until(lambda: "Server listening" in (self.at / f"{name}.log").read_text())
        return port

    def end(self, name: str) -> None:
        self._parts[name].kill()

    def _start(self, argv: Sequence[str], name: str) -> None:
        log = self.enter_context((self.at / f"{name}.log").open("wb"))
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT)
        self.callback(process.wait)
        self.callback(process.terminate)
        self._parts[name] = process

    @property
    def drops(self) -> int:
        own = r"drop connection #\d+ from \[127\.0\.0\.1\]"
        return len(re.findall(own, (self.at / "bastion.log").read_text()))


def _knock(port: int, over: threading.Event) -> None:
    """Hold logins that never go on, from another address; anew before LoginGraceTime ends them."""
    while not over.is_set():
        with contextlib.ExitStack() as held:
            for _ in range(9):
                one = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0))
                held.enter_context(one)
            over.wait(60)
