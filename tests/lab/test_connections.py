"""A node behind a jump host, by an ssh configuration and with a vaulted password for sudo."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.lab.fleet import Fleet
from tests.tables import cases

from rdmaprov.exit_codes import ExitCode
from rdmaprov.lab import ssh

pytestmark = pytest.mark.lab

NODE, JUMP = "node2", "node1"
SHARED = True
USER, SUDO, VAULT = "keeper", "open sesame", "vault's own"
# From inside a node this is the host, whose ports lead to the nodes (QEMU's user network).
HOST_FROM_A_NODE = "10.0.2.2"
CREATE = f"""
useradd --create-home --shell /bin/bash {USER} && echo '{USER}:{SUDO}' | chpasswd
echo '{USER} ALL=(ALL) ALL' > /etc/sudoers.d/{USER}
install -d -o {USER} /home/{USER}/.ssh && cat > /home/{USER}/.ssh/authorized_keys
"""
CONFIG = cases(__file__, "config")


@pytest.fixture(scope="module")
def user(lab):
    """Provide a user of the node whom sudo asks for a password."""
    public = ssh.user_key(lab.layout).with_suffix(".pub")
    lab.run(NODE, f"{CREATE.rstrip()} <<'END'\n{public.read_text()}END")
    return USER


@pytest.fixture
def site(lab, user, tmp_path):
    copy = Fleet(lab, tmp_path).site
    hosts = yaml.safe_load((copy / "hosts.yml").read_text())
    ports = {name: host["ansible_port"] for name, host in hosts["lab"]["hosts"].items()}
    options = ssh.options(lab.layout)
    config = tmp_path / "ssh_config"
    config.write_text(
        CONFIG.format(
            address=ssh.ADDRESS,
            port=ports[JUMP],
            user=ssh.USER,
            key=options["IdentityFile"],
            known_hosts=options["UserKnownHostsFile"],
            behind=HOST_FROM_A_NODE,
            behind_port=ports[NODE],
        )
    )
    hosts["lab"]["hosts"][NODE].update(
        ansible_host="behind",
        ansible_user=user,
        ansible_become=True,
        ansible_become_password="{{ vault_sudo_password }}",
        ansible_ssh_extra_args=f"-F {config}",
    )
    (copy / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (tmp_path / "vault-password").write_text(VAULT + "\n")
    return copy


def keep(site, password):
    file = site / "group_vars" / "lab.yml"
    file.write_text(yaml.safe_dump({"vault_sudo_password": password}))
    program = Path(sys.executable).with_name("ansible-vault")
    subprocess.run(
        [program, "encrypt", "--vault-password-file", site.parent / "vault-password", file],
        check=True,
        capture_output=True,
    )


def rdmaprov(lab, site, *words):
    return subprocess.run(
        [sys.executable, "-m", "rdmaprov", *words],
        cwd=site.parent,
        env={
            **os.environ,
            "ANSIBLE_VAULT_PASSWORD_FILE": str(site.parent / "vault-password"),
            "ANSIBLE_TIMEOUT": "60",  # for sudo's prompt; an emulated node may need more than 10 s
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=lab.limit_s(300),
        check=False,
    )


def test_plan_and_discover_reach_the_node(lab, site):
    keep(site, SUDO)
    planned = rdmaprov(lab, site, "plan", str(site), "--limit", NODE, "--roles", "limits")
    assert planned.returncode == 5, planned.stdout + planned.stderr
    assert "node2: kernel vm.swappiness" in planned.stdout
    found = rdmaprov(lab, site, "discover", str(site), "--limit", NODE)
    assert found.returncode == 0, found.stderr
    assert "fabric_numa_nodes: 2" in found.stdout
    for path in (site.parent / "runs").rglob("*"):
        assert not path.is_file() or SUDO not in path.read_text()


def test_wrong_password_for_sudo_is_said_and_not_shown(lab, site):
    keep(site, "close sesame")
    planned = rdmaprov(lab, site, "plan", str(site), "--limit", NODE, "--roles", "limits")
    assert planned.returncode in (1, 4)
    assert "node2" in planned.stdout
    assert "sudo" in planned.stdout.lower()
    assert "close sesame" not in planned.stdout + planned.stderr


def test_node_whose_sshd_hangs_is_named_after_one_limit_more(lab, tmp_path):
    """It is waited for twice in the whole run, and not for each question."""
    fleet = Fleet(lab, tmp_path)
    lab.must("fault", NODE, "sshd-hangs")
    try:
        code, said = fleet.run("validate", *fleet.patient(), "--limit", NODE)
    finally:
        lab.must("heal", NODE)
    hosts = yaml.safe_load((fleet.site / "hosts.yml").read_text())["lab"]["hosts"]
    limit = hosts[NODE]["ansible_ssh_timeout"]
    assert f"in {limit} s, nor in {limit} s more. Is it up" in said
    assert code == ExitCode.UNKNOWN, said
    assert fleet.results()["seconds"] < 4 * limit
