"""States of a fleet that applied its bundles, signed, and what can be wrong with one."""

import base64
import hashlib
import json
import random
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.certificate.states import States
from rdmaprov.drift import collection
from rdmaprov.drift.arguments import Arguments
from rdmaprov.inventory import load_site
from rdmaprov.inventory.site_files import site_digest
from rdmaprov.node import bundle as program

SSH = "-F /dev/null -o GlobalKnownHostsFile=/dev/null -o UserKnownHostsFile="
RAILS = """\
fabric_rails:
  - {netdev: ens1, address: "198.18.{{ unit // 250 }}.{{ unit % 250 + 1 }}/15"}
fabric_neighbor_entries: 131072
"""
DIGEST = "0" * 64
# By name, what can be wrong: the kind of the finding, and the change of what is signed.
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "of another site": ("proof.site", {"site": DIGEST}),
    "of an older bundle": ("proof.bundle", {"code": DIGEST}),
    "without a role": ("proof.bundle", {"roles": {}}),
    "stale": ("proof.stale", {"ended": -25 * 3600}),
    "of a clock ahead": ("proof.stale", {"ended": 3600}),
    "failed": ("proof.failed", {"verdict": "failed", "why": "mtu: \x1b[31mens1 is missing"}),
    "pending": ("proof.pending", {"verdict": "pending", "why": "reboot required: mlx5: prof_sel"}),
    "unknown": ("proof.unknown", {"verdict": "unknown", "why": "the run did not end"}),
    "of a newer program": ("proof.damaged", {"rdmaprov_state": 2}),
    "with a wrong boot": ("proof.damaged", {"boot_id": "../../etc"}),
    "with endless numbers": ("proof.damaged", {"uptime_s": 1e300}),
    "of another node": ("proof.node", {"node": "n0000"}),
    "unsigned": ("proof.unsigned", {}),
    "altered": ("proof.unsigned", {}),
    "of another purpose": ("proof.unsigned", {}),
    "of another key": ("proof.signer", {}),
    "cut": ("proof.damaged", {}),
    "too large": ("proof.damaged", {}),
    "missing": ("proof.missing", {}),
}
FAILED = ("proof.failed", "proof.pending")  # what a node says itself; all else is unknown


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def blob(key: Ed25519PrivateKey) -> bytes:
    return base64.b64decode(public(key).split()[1])


def public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def sign(data: bytes, key: Ed25519PrivateKey, purpose: str = program.STATE_NAMESPACE) -> str:
    """Return a signature as ssh-keygen writes it: ten thousand of its own would take a minute."""
    head = _string(purpose.encode()) + _string(b"") + _string(b"sha512")
    made = key.sign(b"SSHSIG" + head + _string(hashlib.sha512(data).digest()))
    signature = _string(_string(b"ssh-ed25519") + _string(made))
    text = b"SSHSIG\0\0\0\1" + _string(blob(key)) + head + signature
    armored = base64.encodebytes(text).decode()
    return f"-----BEGIN SSH SIGNATURE-----\n{armored}-----END SSH SIGNATURE-----\n"


class SignedFleet:
    """A site, the host keys of its nodes in known_hosts, and a directory with their states.

    Args:
        size: bytes of each state; 0 for what it needs.
    """

    def __init__(self, place: Path, count: int, size: int = 0, seed: int = 1) -> None:
        self.random, self.size = random.Random(seed), size
        self.place, self.states = place, place / "states"
        self.names = [f"n{number:04}" for number in range(1, count + 1)]
        self.keys = {name: self.new_key() for name in self.names}
        hosts = "".join(f"    n{n:04}: {{unit: {n}}}\n" for n in range(1, count + 1))
        common = f"ansible_ssh_common_args: {SSH}{place}/known_hosts\n{RAILS}"
        site = {"hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}", "group_vars/nodes.yml": common}
        self.site = write(place / "site", {**GOOD, **site})
        lines = (f"{name} {public(key)}\n" for name, key in self.keys.items())
        (place / "known_hosts").write_text("".join(lines))
        self.fleet = load_site(self.site)
        self.roles = sorted(Arguments(self.fleet, ()).roles)
        self.digests = {
            "site": site_digest(self.site),
            "code": hashlib.sha256(collection.archive()).hexdigest(),
        }
        self.now = time.time()
        self.states.mkdir()
        for name in self.names:
            self.write(name)

    def new_key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.random.randbytes(32))

    def said(self, name: str, **changed: Any) -> dict[str, Any]:
        """Return what a node says; what it ended is counted from now."""
        found = {
            **self.digests,
            "why": "",
            "rdmaprov_state": program.STATE_VERSION,
            "node": name,
            "number": 7,
            "bundle": DIGEST,
            "boot_id": str(UUID(bytes=self.random.randbytes(16))),
            "uptime_s": 400.0,
            "verdict": program.PROVEN,
            "roles": {each: {"state": "unchanged", "kind": "", "why": ""} for each in self.roles},
        }
        return {**found, **changed, "ended": self.now + changed.get("ended", -3600)}

    def write(self, name: str, what: str = "", **changed: Any) -> None:
        """Write the state of a node, right or with one of WRONG."""
        path, key = self.states / f"{name}.state", self.keys[name]
        said = self.said(name, **{**(WRONG[what][1] if what else {}), **changed})
        for number in range(max(self.size - 2500, 0) // 4090):
            said["roles"][f"other{number}"] = {"state": "", "kind": "", "why": "x" * 4000}
        text = json.dumps(said)
        purpose = "file" if what == "of another purpose" else program.STATE_NAMESPACE
        key = self.new_key() if what == "of another key" else key
        signed = text.replace('"number": 7', '"number": 8') if what == "altered" else text
        signature = "" if what == "unsigned" else sign(text.encode(), key, purpose)
        data = json.dumps({"signed": signed, "signature": signature})
        data = {"cut": data[:-9], "too large": data + " " * program.MOST_STATE}.get(what, data)
        path.write_text(data)
        if what == "missing":
            path.unlink()

    def judge(self, **options: Any) -> States:
        given = {"words": {}, "max_age_s": 24 * 3600, "now": self.now, **options}
        return States(self.fleet, **given)
