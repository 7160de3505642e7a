"""Sites that strangers may send: what each does to a program that reads it carelessly."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from tests.cli.hostile_site import CANARY, HOSTS, Hostile

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
    Hostile("script", "hosts.sh:1:1: hosts.sh: is not YAML", {"hosts.sh": _SCRIPT}),
    Hostile("script-yml", "run.yml: is executable", {"run.yml": _SCRIPT}),
    Hostile("script-alone", "hosts: is not YAML", {"hosts.yml": None, "hosts": _SCRIPT}),
    Hostile("shebang", "Ansible would run this file", make=lambda site: (
        site / "x.yml").write_text("#!/bin/sh\nall:\n")),
    Hostile("ini", "inventory.ini: is not YAML", {"inventory.ini": "[nodes]\nn1\n"}),
    Hostile("ansible-cfg", "ansible.cfg: can make Ansible run code",
            {"ansible.cfg": _EVIL_CFG, "evil.py": _PYTHON}),
    Hostile("plugin-file", "vars.py: is not YAML", {"vars.py": _PYTHON}),
    Hostile("plugin-directory", "vars_plugins: is a directory that --untrusted does not read",
            {"vars_plugins/evil.py": _PYTHON}),
    Hostile("plugin-constructed", "plugin: makes Ansible run an inventory plugin",
            {"c.yml": f"plugin: constructed\ncompose: {{x: \"{_LOOKUP}\"}}\n"}),
    Hostile("plugin-generator", "plugin: makes Ansible run", {"g.yml": "plugin: generator\n"}),
    Hostile("lookup", "x: is a template", _vars(f'x: "{_LOOKUP}"\n')),
    Hostile("lookup-in-hosts", "hosts.yml:3:13: x: is a template",
            _hosts(f'nodes:\n  hosts:\n    n1: {{x: "{_LOOKUP}"}}\n')),
    Hostile("lookup-key", "is a template", _vars(f'x: {{"{_LOOKUP}": 1}}\n')),
    Hostile("lookup-host", "is a template", _hosts(f'nodes: {{hosts: {{"{_LOOKUP}": }}}}\n')),
    Hostile("lookup-group", "is a template", _hosts(f'"{_LOOKUP}": {{hosts: {{n1: }}}}\n')),
    Hostile("lookup-escaped", "is a template",
            _vars('x: "\\x7b\\u007b lookup(\'pipe\', \'id\') }}"\n')),
    Hostile("statement", "is a template", _vars('x: "{% for i in range(10**9) %}{% endfor %}"\n')),
    Hostile("comment", "is a template", _vars('x: "{# #}"\n')),
    Hostile("attribute", "is a template", _vars("x: \"{{ ''.__class__.__mro__ }}\"\n")),
    Hostile("power", "is a template", _vars('x: "{{ 9 ** 9 ** 9 }}"\n')),
    Hostile("other-marks", "is a template",
            _vars("x: \"#jinja2:variable_start_string:'[['\\n[[ lookup('pipe', 'id') ]]\"\n")),
    Hostile("brace-before-reference", "is a template", _vars('x: "{{{ a }} | b }}"\n')),
    Hostile("tag-python", "python/object/apply:os.system is not allowed",
            _vars(f"x: !!python/object/apply:os.system ['touch {CANARY}']\n")),
    Hostile("tag-python-name", "is not allowed", _vars("x: !!python/name:os.system ''\n")),
    Hostile("tag-own", "the YAML tag !evil is not allowed", _vars("x: !evil {a: 1}\n")),
    Hostile("tag-binary", "is not allowed", _vars("x: !!binary aGVsbG8=\n")),
    *(Hostile(text.partition(":")[0], "can make a later verb run a program", _vars(text + "\n"))
      for text in (
          "ansible_connection: local",
          f"ansible_python_interpreter: /bin/sh -c 'touch {CANARY}'",
          f"ansible_ssh_common_args: -o ProxyCommand='touch {CANARY}'",
          "ansible_ssh_executable: ./ssh",
          "ansible_become_exe: /tmp/sudo",
          "ansible_shell_executable: /tmp/sh",
      )),
    Hostile("option-as-host", "ansible_host: '-oProxyCommand=id' is not a safe name",
            _vars("ansible_host: -oProxyCommand=id\n")),
]  # fmt: skip

FILES = [
    Hostile("fifo", "hosts2.yml: is a FIFO", make=lambda site: os.mkfifo(site / "hosts2.yml")),
    Hostile("fifo-vars", "is a FIFO", make=lambda site: os.mkfifo(site / _VARS)),
    Hostile("socket", "is a socket", make=_socket),
    Hostile("zero", "nodes.yml: is a link", make=_link(_VARS, "/dev/zero")),
    Hostile("link-out", "nodes.yml: is a link", make=_link(_VARS, "/etc/passwd")),
    Hostile("link-directory", "host_vars: is a link", make=_link("host_vars", "/")),
    Hostile("link-loop", "is a link", make=_link("group_vars/nodes", "../group_vars")),
    Hostile("link-itself", "is a link", make=_link("self.yml", "self.yml")),
    Hostile("link-hidden", "README.md: is a link", make=_link("README.md", "/dev/zero")),
    Hostile(
        "directory-as-file",
        "hosts.yml: is a directory",
        {"hosts.yml": None, "hosts.yml/a.yml": HOSTS},
    ),
    Hostile("deep-directories", "is too deep", make=_deep),
    Hostile("many-files", "more than 25,000 files", make=_many),
    Hostile("sparse", "more than 33,554,432 bytes", make=lambda site: _sparse(site, 100_000_000)),
    Hostile("sparse-9-mb", "more than 8,388,608 bytes", make=lambda site: _sparse(site, 9_000_000)),
    Hostile("name-escape", "\\x1b[2J", {"group_vars/\x1b[2J.yml": "a: 1\n"}),
    Hostile("name-bidi", "\\u202e", {"group_vars/\u202etxt.yml": "a: 1\n"}),
    Hostile("name-newline", "\\n", {"host_vars/n1\n::error::x": "a: 1\n"}),
    Hostile("orphan", "there is no group nodse", {"group_vars/nodse.yml": "a: 1\n"}),
]

TEXTS = [
    Hostile("binary", "U+0000", _vars(b"a: 1\n\0\1\2")),
    Hostile("not-utf-8", "nodes.yml:2:4: nodes.yml: byte 0xff", _vars(b"a: 1\nb: \xff\n")),
    Hostile("bom", "byte order mark", _vars(b"\xef\xbb\xbfa: 1\n")),
    Hostile("utf-16", "byte order mark", _vars("a: 1\n".encode("utf-16"))),
    Hostile("escape", "U+001B", _vars("a: 1 # \x1b]0;title\x07\n")),
    Hostile("bidi-comment", "U+202E", _vars("a: 1 # \u202e\n")),
    Hostile("bidi-escaped", "U+202E", _vars('a: "\\u202e"\n')),
    Hostile("laughs", "more than 500,000 values", _vars(_LAUGHS)),
    Hostile("merge-laughs", "more than 500,000 values", _vars(_MERGES)),
    Hostile("recursive", "*a contains itself", _vars("a: &a [*a]\n")),
    Hostile("recursive-merge", "*a contains itself", _vars("a: &a {<<: *a}\n")),
    Hostile("no-anchor", "there is no &nowhere above", _vars("a: *nowhere\n")),
    Hostile("brackets", "more than 100 levels deep", _vars("[" * 200_000)),
    Hostile("dashes", "more than 100 levels deep", _vars("- " * 100_000)),
    Hostile("indent", "more than 100 levels deep",
            _vars("".join(" " * i + "a:\n" for i in range(300)))),
    Hostile("key-list", "a list or dictionary is no key", _vars("? [a, b]\n: 1\n")),
    Hostile("duplicate", "is written twice", _vars("a: 1\na: 2\n")),
    Hostile("documents", "more than one document", _vars("a: 1\n---\na: 2\n")),
    Hostile("digits", "the number has 100,000 characters", _vars(f"a: {'9' * 100_000}\n")),
    Hostile("base-60", "characters, and the limit is 64", _vars(f"a: {'1:' * 5_000}1\n")),
    Hostile("exponent", "is not a whole number", _vars("fabric_mtu_bytes: '1e1000000000'\n")),
    Hostile("date", "YAML reads it as timestamp", _vars("a: 2026-99-99\n")),
    Hostile("long-text", "the limit is 16,384", _vars(f"a: {'x' * 1_000_000}\n")),
    Hostile("doubling", "more than 16,384 characters",
            _vars(_DOUBLES + 'fabric_kind: "{{ b59 }}"\n')),
    Hostile("doubling-lists", "more than 20000 parts",
            _vars(_LISTS + 'fabric_rails: "{{ b59 }}"\n')),
    Hostile("reference-loop", "refers to itself",
            _vars('a: "{{ b }}"\nb: "{{ a }}"\nfabric_kind: "{{ a }}"\n')),
    Hostile("values", "more than 500,000 values", _vars("a: [" + "1," * 2_000_000 + "1]\n")),
    Hostile("rails", "more than 256 items",
            _vars("fabric_rails: [" + "{netdev: e}," * 10_000 + "]\n")),
    Hostile("bad-names", "is no name of a variable",
            _vars("".join(f'"{i} x": 1\n' for i in range(5_000)))),
    Hostile("vaulted-file", "the file is encrypted", _vars("$ANSIBLE_VAULT;1.1;AES256\n3336\n")),
    Hostile("vault-garbage", "the value is not vaulted", _vars("a: !vault garbage\n")),
    Hostile("vaulted-value", "is encrypted",
            _vars("fabric_mtu_bytes: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  33363965\n")),
    Hostile("no-dictionary", "the file is not a dictionary", _vars("- a\n- b\n")),
]  # fmt: skip

GROUPS = [
    Hostile("range", "more than 10,000 hosts", _hosts("a: {hosts: {'n[1:900000000]': }}\n")),
    Hostile("ranges", "more than 10,000 hosts", _hosts("a: {hosts: {'n[1:90000][1:90000]': }}\n")),
    Hostile("nested-ranges", "more than 10,000 hosts",
            _hosts("a: {hosts: {'" + "n[0:9]" * 40 + "': }}\n")),
    Hostile("range-digits", "a range is", _hosts(f"a: {{hosts: {{'n[1:{'9' * 500}]': }}}}\n")),
    Hostile("range-step-0", "is no range", _hosts("a: {hosts: {'n[1:9:0]': }}\n")),
    Hostile("million-hosts", "has more than 8,388,608 bytes",
            _hosts("a:\n  hosts:\n" + "".join(f"    n{i}:\n" for i in range(1_000_000)))),
    Hostile("many-hosts", "more than 10,000 hosts",
            _hosts("a:\n  hosts:\n" + "".join(f"    n{i}:\n" for i in range(20_000)))),
    Hostile("memberships", "name more than 100,000 hosts together",
            _hosts("".join(f"g{i}: {{hosts: {{'n[1:9000]': }}}}\n" for i in range(100)))),
    Hostile("many-groups", "more than 5,000 groups",
            _hosts("".join(f"g{i}: {{hosts: {{n1: }}}}\n" for i in range(6_000)))),
    Hostile("chain", "is in more than 32 groups", _hosts("".join(
        f"g{i}: {{children: {{g{i + 1}: }}}}\n" for i in range(4_000)))),
    Hostile("group-loop", "is in a loop of groups",
            _hosts("a: {children: {b: }, hosts: {n1: }}\nb: {children: {a: }}\n")),
    Hostile("all-values", "more than 2,000,000 values", {
        "hosts.yml": "a: {hosts: {'n[1:9000]': }}\n",
        _VARS.replace("nodes", "a"): "".join(f"v{i}: 1\n" for i in range(1_000))}),
    Hostile("host-path", "is no safe name of a host",
            _hosts("a: {hosts: {'../../etc/passwd': }}\n")),
    Hostile("host-option", "is no safe name", _hosts("a: {hosts: {'-oProxyCommand=id': }}\n")),
    Hostile("group-path", "is no safe name of a group",
            _hosts("'../../../etc': {hosts: {n1: }}\n")),
    Hostile("host-number", "is not text", _hosts("a: {hosts: {1: }}\n")),
    Hostile("hosts-list", "is not a dictionary", _hosts("a: {hosts: [n1]}\n")),
    Hostile("group-text", "is no group", _hosts("a: text\n")),
    Hostile("empty", "the file has no groups", _hosts("")),
    Hostile("priority", "is not a whole number",
            _hosts("a: {hosts: {n1: }, vars: {ansible_group_priority: x}}\n")),
]  # fmt: skip

SITES = [*RUNS_CODE, *FILES, *TEXTS, *GROUPS]


def unreadable(site: Path) -> None:
    """Make a file that its user cannot read."""
    (site / "hosts.yml").chmod(stat.S_IWUSR)
