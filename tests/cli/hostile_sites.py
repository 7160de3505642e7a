"""Sites that strangers may send: what each does to a program that reads it carelessly."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

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
    """A good site with something hostile in it."""

    id: str  # its name
    # what is written over the good site; None removes
    files: dict[str, str | bytes | None] = field(default_factory=dict)
    make: Callable[[Path], object] = lambda _site: None  # does the rest

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


_VARS = "group_vars/nodes.yml"
_SCRIPT = f"#!/bin/sh\ntouch {CANARY}\necho '{{}}'\n"
_PYTHON = f"open({CANARY!r}, 'w')\n"
_LAUGHS = "a0: &a0 [1, 1]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
_MERGES = "m0: &m0 {k0: 1}\n" + "".join(
    f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}], k{i}: 1}}\n" for i in range(1, 12)
)
_DOUBLES = "b0: xxxxxxxx\n" + "".join(
    f'b{i}: "{{{{ b{i - 1} }}}}{{{{ b{i - 1} }}}}"\n' for i in range(1, 60)
)
_LISTS = "b0: [1, 1]\n" + "".join(
    f'b{i}: ["{{{{ b{i - 1} }}}}", "{{{{ b{i - 1} }}}}"]\n' for i in range(1, 60)
)
_LOOKUP = f"{{{{ lookup('pipe', 'touch {CANARY}') }}}}"


def _sparse(site: Path, size: int) -> None:
    with (site / _VARS).open("wb") as stream:
        stream.truncate(size)


def _socket(site: Path) -> None:
    here = Path.cwd()
    os.chdir(site)  # the name of a socket has 107 characters at most
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("extra.yml")
    finally:
        os.chdir(here)


def _many(site: Path) -> None:
    (site / "host_vars").mkdir()
    for number in range(25_100):
        (site / "host_vars" / f"h{number}.yml").touch()


def _deep(site: Path) -> None:
    path = site / "group_vars" / "nodes"
    for _ in range(40):
        path /= "d"
    path.mkdir(parents=True)


def _link(name: str, target: str) -> Callable[[Path], None]:
    def make(site: Path) -> None:
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).symlink_to(target)

    return make


def _hosts(text: str) -> dict[str, str | bytes | None]:
    return {"hosts.yml": text}


def _vars(text: str | bytes) -> dict[str, str | bytes | None]:
    return {_VARS: text}


_EVIL_CFG = f"[defaults]\nfilter_plugins = .\nvars_plugins = .\ninventory_plugins = {CANARY}\n"

RUNS_CODE = [
    Hostile("script", {"hosts.sh": _SCRIPT}),
    Hostile("script-yml", {"run.yml": _SCRIPT}),
    Hostile("script-alone", {"hosts.yml": None, "hosts": _SCRIPT}),
    Hostile("shebang", make=lambda site: (site / "x.yml").write_text("#!/bin/sh\nall:\n")),
    Hostile("ini", {"inventory.ini": "[nodes]\nn1\n"}),
    Hostile("ansible-cfg", {"ansible.cfg": _EVIL_CFG, "evil.py": _PYTHON}),
    Hostile("plugin-file", {"vars.py": _PYTHON}),
    Hostile("plugin-directory", {"vars_plugins/evil.py": _PYTHON}),
    Hostile("plugin-constructed", {"c.yml": f'plugin: constructed\ncompose: {{x: "{_LOOKUP}"}}\n'}),
    Hostile("plugin-generator", {"g.yml": "plugin: generator\n"}),
]

FILES = [
    Hostile("fifo", make=lambda site: os.mkfifo(site / "hosts2.yml")),
    Hostile("fifo-vars", make=lambda site: os.mkfifo(site / _VARS)),
    Hostile("socket", make=_socket),
    Hostile("zero", make=_link(_VARS, "/dev/zero")),
    Hostile("link-out", make=_link(_VARS, "/etc/passwd")),
    Hostile("link-directory", make=_link("host_vars", "/")),
    Hostile("link-loop", make=_link("group_vars/nodes", "../group_vars")),
    Hostile("link-itself", make=_link("self.yml", "self.yml")),
    Hostile("link-hidden", make=_link("README.md", "/dev/zero")),
    Hostile("directory-as-file", {"hosts.yml": None, "hosts.yml/a.yml": HOSTS}),
    Hostile("deep-directories", make=_deep),
    Hostile("many-files", make=_many),
    Hostile("sparse", make=lambda site: _sparse(site, 100_000_000)),
    Hostile("sparse-9-mb", make=lambda site: _sparse(site, 9_000_000)),
    Hostile("name-escape", {"group_vars/\x1b[2J.yml": "a: 1\n"}),
    Hostile("name-bidi", {"group_vars/\u202etxt.yml": "a: 1\n"}),
    Hostile("name-newline", {"host_vars/n1\n::error::x": "a: 1\n"}),
    Hostile("orphan", {"group_vars/nodse.yml": "a: 1\n"}),
]

TEXTS = [
    Hostile("binary", _vars(b"a: 1\n\0\1\2")),
    Hostile("not-utf-8", _vars(b"a: 1\nb: \xff\n")),
    Hostile("bom", _vars(b"\xef\xbb\xbfa: 1\n")),
    Hostile("utf-16", _vars("a: 1\n".encode("utf-16"))),
    Hostile("escape", _vars("a: 1 # \x1b]0;title\x07\n")),
    Hostile("bidi-comment", _vars("a: 1 # \u202e\n")),
    Hostile("laughs", _vars(_LAUGHS)),
    Hostile("merge-laughs", _vars(_MERGES)),
    Hostile("brackets", _vars("[" * 200_000)),
    Hostile("dashes", _vars("- " * 100_000)),
    Hostile("indent", _vars("".join(" " * i + "a:\n" for i in range(300)))),
    Hostile("digits", _vars(f"a: {'9' * 100_000}\n")),
    Hostile("base-60", _vars(f"a: {'1:' * 5_000}1\n")),
    Hostile("long-text", _vars(f"a: {'x' * 1_000_000}\n")),
    Hostile("doubling", _vars(_DOUBLES + 'fabric_kind: "{{ b59 }}"\n')),
    Hostile("doubling-lists", _vars(_LISTS + 'fabric_rails: "{{ b59 }}"\n')),
    Hostile("values", _vars("a: [" + "1," * 2_000_000 + "1]\n")),
    Hostile("rails", _vars("fabric_rails: [" + "{netdev: e}," * 10_000 + "]\n")),
    Hostile("bad-names", _vars("".join(f'"{i} x": 1\n' for i in range(5_000)))),
]

GROUPS = [
    Hostile("nested-ranges", _hosts("a: {hosts: {'" + "n[0:9]" * 40 + "': }}\n")),
    Hostile("range-digits", _hosts(f"a: {{hosts: {{'n[1:{'9' * 500}]': }}}}\n")),
    Hostile(
        "million-hosts",
        _hosts("a:\n  hosts:\n" + "".join(f"    n{i}:\n" for i in range(1_000_000))),
    ),
    Hostile(
        "many-hosts", _hosts("a:\n  hosts:\n" + "".join(f"    n{i}:\n" for i in range(20_000)))
    ),
    Hostile(
        "memberships", _hosts("".join(f"g{i}: {{hosts: {{'n[1:9000]': }}}}\n" for i in range(100)))
    ),
    Hostile("many-groups", _hosts("".join(f"g{i}: {{hosts: {{n1: }}}}\n" for i in range(6_000)))),
    Hostile(
        "chain", _hosts("".join(f"g{i}: {{children: {{g{i + 1}: }}}}\n" for i in range(4_000)))
    ),
    Hostile(
        "all-values",
        {
            "hosts.yml": "a: {hosts: {'n[1:9000]': }}\n",
            _VARS.replace("nodes", "a"): "".join(f"v{i}: 1\n" for i in range(1_000)),
        },
    ),
]

_WRITTEN = yaml.load(Path(__file__).with_suffix(".yml").read_text(), Loader=yaml.CSafeLoader)
SITES = [
    *(Hostile(name, _vars(text)) for name, text in _WRITTEN["vars"].items()),
    *(Hostile(name, _hosts(text)) for name, text in _WRITTEN["hosts"].items()),
    *RUNS_CODE,
    *FILES,
    *TEXTS,
    *GROUPS,
]
