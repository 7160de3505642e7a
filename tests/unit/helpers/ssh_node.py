"""Real ssh to this machine without a port: sshd as ssh's ProxyCommand, as this user."""

import getpass
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
PASSED_ON = ("PYTHONPATH", "RDMAPROV_TESTS_KEPT")  # has nodes share work of tests: conftest.py


class Sshd:
    """Keys and configuration of an sshd in a directory; `variables` reach it as Ansible would."""

    def __init__(self, directory: Path) -> None:
        if SSHD is None or (os.getuid() == 0 and not _has_privsep_directory()):
            pytest.skip("needs sshd (Debian's openssh-server)")
        self.directory = directory
        for name in ("host_key", "other_host_key", "key", "other_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(command, check=True)
        directory.joinpath("authorized_keys").write_text((directory / "key.pub").read_text())

    def variables(self, address: str, *settings: str, known: str = "host_key") -> dict[str, Any]:
        """Return connection variables of a node; known_hosts has the key `known`, none if empty."""
        config = self.directory / f"sshd_{address}"
        config.write_text(
            "\n".join(
                [
                    f"HostKey {self.directory}/host_key",
                    f"AuthorizedKeysFile {self.directory}/authorized_keys",
                    "StrictModes no",
                    "UsePAM no",
                    *settings,  # with a SetEnv of their own, that counts
                    *passed_on(),
                ]
            )
            + "\n"
        )
        hosts = self.directory / f"known_{address}"
        public = (self.directory / f"{known}.pub").read_text() if known else ""
        hosts.write_text(f"{address} {public}" if known else "")
        proxy = shlex.quote(f"-oProxyCommand={SSHD} -i -f {config}")
        return {
            "ansible_host": address,
            "ansible_user": getpass.getuser(),
            "ansible_ssh_private_key_file": str(self.directory / "key"),
            "ansible_ssh_common_args": f"-F none -oUserKnownHostsFile={hosts} {proxy}",
        }


def passed_on() -> list[str]:
    """Return the line of sshd's configuration that gives nodes PASSED_ON."""
    names = [name for name in PASSED_ON if name in os.environ]
    return ["SetEnv " + " ".join(f"{name}={os.environ[name]}" for name in names)] if names else []


def _has_privsep_directory() -> bool:
    try:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    except OSError:
        return False
    return True
