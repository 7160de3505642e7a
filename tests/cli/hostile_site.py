"""A site that a stranger may send, for tests of `check` in a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# What any code that runs leaves behind; replaced by a path.
CANARY = "@CANARY@"
HOSTS = "nodes:\n  hosts:\n    n1:\n    n2:\n"
GOOD = {
    "hosts.yml": HOSTS,
    "group_vars/all.yml": """\
fabric_kind: roce
fabric_link_gbps: 400
fabric_rails: [{netdev: ens1}, {netdev: ens2}]
""",
}


@dataclass(frozen=True)
class Hostile:
    """A good site with something hostile in it.

    Args:
        id: its name.
        files: what is written over the good site; None removes.
        make: does the rest.
    """

    id: str
    files: dict[str, str | bytes | None] = field(default_factory=dict)
    make: Callable[[Path], object] = lambda _site: None

    def write(self, site: Path, canary: Path) -> None:
        for name, content in {**GOOD, **self.files}.items():
            if content is None:
                continue
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            raw = content.encode() if isinstance(content, str) else content
            path.write_bytes(raw.replace(CANARY.encode(), str(canary).encode()))
            if raw.startswith(b"#!"):
                path.chmod(0o755)
        self.make(site)
