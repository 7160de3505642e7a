"""What a boot gives a device: the suite's reading of files, and after it the managers' own answers.

A node of NetworkManager and one of netplan with systemd-networkd get files that match a rail other
than by its name alone; what the suite reads in them is then what the kernel and the managers show.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.lab.handle import LabHandle
from tests.lab.test_shapes import reboot_all

from rdmaprov.facts import link_files
from rdmaprov.facts.host import Result

pytestmark = [pytest.mark.lab, pytest.mark.hours]

NM, NETWORKD = "node1", "node2"
KEYFILES = "/etc/NetworkManager/system-connections"
CONF, NETWORK, NETPLAN = (
    "/etc/NetworkManager/conf.d/90-test.conf",
    "/etc/systemd/network",
    "/etc/netplan/60-test.yaml",
)


def keyfile(name: str, connection: str, ethernet: str = "", match: str = "") -> tuple[str, str]:
    text = f"[connection]\nid={name}\ntype=ethernet\n{connection}\n[ethernet]\n{ethernet}\n"
    text += "[ipv4]\nmethod=disabled\n[ipv6]\nmethod=link-local\n"
    return f"{KEYFILES}/{name}.nmconnection", text + (f"[match]\n{match}\n" if match else "")


def network(name: str, match: str, mtu: str) -> tuple[str, str]:
    return f"{NETWORK}/{name}.network", f"[Match]\n{match}\n[Link]\nMTUBytes={mtu}\n"


def netplan(*definitions: str) -> tuple[str, str]:
    entries = "".join(f"    {each}\n" for each in definitions)
    return NETPLAN, f"network:\n  version: 2\n  ethernets:\n{entries}"


# By node and file; {mac0}, {path0} and the like are those of its rails. Then what each rail gets:
# the MTU, and what its manager calls the profile, the file or the definition.
ROUNDS = [
    (
        {
            NM: dict(
                [
                    keyfile("by-mac", "", "mac-address={mac0}\nmtu=1400"),
                    keyfile("by-glob", "", match="interface-name={glob1}"),
                    (CONF, "[connection-test]\nmatch-device=type:ethernet,except:"
                     "interface-name:enp0s2\nethernet.mtu=1300\n"),
                ]
            ),
            NETWORKD: dict(
                [
                    netplan(
                        "storage: {{match: {{macaddress: '{mac0}'}}, set-name: {rail0}, mtu: 1400}}"
                    ),
                    network("05-path", "Path={path1}", "2K"),
                    network("10-name", "Name={rail1}", "1300"),
                ]
            ),
        },
        {NM: [(1400, "by-mac"), (1300, "by-glob")],
         NETWORKD: [(1400, "storage"), (2048, "05-path")]},
    ),
    (
        {
            NM: dict(
                [
                    keyfile("by-name", "interface-name={rail0}", "mtu=1300"),
                    keyfile("by-path", "autoconnect-priority=5", "mtu=1400", "path={path0}"),
                    keyfile("left", "interface-name={rail1}", "mtu=1300"),
                    (CONF, "[keyfile]\nunmanaged-devices=mac:{mac1}\n"),
                ]
            ),
            NETWORKD: dict(
                [
                    netplan(
                        "a: {{match: {{name: '{rail0}*'}}, mtu: 1400}}",
                        "b: {{match: {{driver: virtio_net, name: 'ens*'}}, mtu: 1300}}",
                    ),
                ]
            ),
        },
        {NM: [(1400, "by-path"), (None, "")], NETWORKD: [(1400, "a"), (1300, "b")]},
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def managers(tmp_path_factory, at_large):
    given = os.environ.get("RDMAPROV_LAB_OF_MANAGERS_DIR")
    directory = tmp_path_factory.mktemp("managers")
    lab = LabHandle(Path(given) if given else directory / "lab", directory / "site")
    if given:
        lab.must("up")
        yield lab
        return
    at_large(lab.directory)
    try:
        lab.must("up", "--shape", "networkmanager,netplan", "--site", str(lab.site))
        yield lab
    finally:
        lab.must("down")


@dataclass(frozen=True)
class NodeHost:
    """A node of the lab as the suite's probes ask one."""

    lab: LabHandle
    node: str

    def run(self, command: str, *_args: str, **_options: object) -> Result:
        done = self.lab.call(self.node, command)
        return SimpleNamespace(rc=done.returncode, stdout=done.stdout, stderr=done.stderr)


def rails(lab: LabHandle, node: str) -> list[str]:
    return [lab.netdev(node, rail) for rail in (0, 1)]


def write(lab: LabHandle, node: str, files: dict[str, str]) -> None:
    """Have these files, and none of an earlier round."""
    known: dict[str, str] = {}
    for number, name in enumerate(rails(lab, node)):
        mac = lab.run(node, f"cat /sys/class/net/{name}/address").strip()
        path = lab.run(node, f"udevadm info -q property /sys/class/net/{name}")
        found = re.search(r"(?m)^ID_PATH=(.+)$", path)
        assert found, path
        known |= {f"rail{number}": name, f"mac{number}": mac, f"path{number}": found[1]}
        known[f"glob{number}"] = f"{name[:-1]}[{name[-1]}]"
    old = " ".join([CONF, NETPLAN, f"{NETWORK}/*.network", f"{KEYFILES}/[!m]*"])
    lab.run(node, f"rm -f {old}")
    for path, text in files.items():
        filled = re.sub(r"\{(\w+)\}", lambda m: known[m[1]], text.replace("{{", "\0"))
        filled = filled.replace("\0", "{").replace("}}", "}")
        mode = "umask 022" if path.startswith(NETWORK) else "umask 077"
        lab.run(node, f"{mode}; mkdir -p {Path(path).parent}; cat > {path} <<'END'\n{filled}END")


def manager_says(lab: LabHandle, node: str, netdev: str) -> str:
    """Return what the manager calls what it configures a device by, without directory and end."""
    if node == NM:
        shown = lab.run(node, f"nmcli -g GENERAL.CONNECTION,GENERAL.MTU device show {netdev}")
        name, mtu = [*shown.splitlines(), "", ""][:2]
        assert mtu == lab.run(node, f"cat /sys/class/net/{netdev}/mtu").strip(), shown
        return name
    shown = lab.run(node, f"networkctl status --no-pager {netdev}")
    found = re.search(r"Network File: \S*/(?:10-netplan-)?(\S+)\.network", shown)
    assert found, shown
    if "10-netplan-" in found[0]:
        mtu = lab.run(node, f"netplan get ethernets.{found[1]}.mtu").strip()
        assert mtu == lab.run(node, f"cat /sys/class/net/{netdev}/mtu").strip(), shown
    return found[1]


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_boot_gives_what_the_suite_reads(managers, number):
    files, wanted = ROUNDS[number]
    for node, texts in files.items():
        write(managers, node, texts)
        read = link_files.read(NodeHost(managers, node))
        found = [link_files.boot_settings(read, netdev) for netdev in rails(managers, node)]
        assert [each.mtu_bytes for each in found] == [mtu for mtu, _ in wanted[node]]
        for each, (_, name) in zip(found, wanted[node], strict=True):
            stems = {Path(path).stem for path in each.files}
            assert not name or name in stems or NETPLAN in each.files, (name, each.files)
    reboot_all(managers)
    for node in files:
        for netdev, (mtu, name) in zip(rails(managers, node), wanted[node], strict=True):
            seen = managers.run(
                node,
                f"for i in $(seq 20); do [ $(cat /sys/class/net/{netdev}/mtu) = {mtu or 1500} ] "
                f"&& break; sleep 1; done; cat /sys/class/net/{netdev}/mtu",
            )
            assert seen.strip() == str(mtu or 1500), (node, netdev)
            if mtu is not None:
                assert manager_says(managers, node, netdev) == name
