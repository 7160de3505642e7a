"""The museum: what real machines said in public, and what an expert reads in it.

`tests/fixtures/machines/NAME/machine.yml` describes one machine; its captured files lie beside it.
docs/contributing.md has the format. A file in another form is an error: a key that nothing reads
would look like a fact that is tested.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MACHINES = Path(__file__).resolve().parents[2] / "fixtures/machines"
_TEXTS = ("title", "left_out", "surprises", "not_known")
_KEYS = {*_TEXTS, "shows", "sources", "commands", "files", "expert", "taught", "not_read"}
_REQUIRED = {"title", "shows", "sources", "left_out", "expert", "not_known"}
_CLASS = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
FACTS = (
    "rails", "left_out_rails", "ofed", "ofed_version", "trust", "pfc", "ets", "dscp_map",
    "buffer_manual", "cable_length_m", "firmware", "psid", "firmware_settings", "link_layer",
    "port_state", "rate_gb_s", "gids", "pcie", "gpus", "numa_nodes", "bluefield_mode", "vfs",
    "bond", "vlan", "network_manager", "hugepages", "kernel_arguments", "peermem", "mtu", "os",
    "nccl", "lids",
)  # fmt: skip


class WrongMachine(ValueError):
    """A machine.yml that is not in the format; the message says where and why."""


@dataclass(frozen=True)
class Command:
    """A program that ran on a machine; if `part`, the source shows a part of what it printed."""

    argv: tuple[str, ...]
    stdout: str
    part: bool = False
    stderr: str = ""
    rc: int = 0

    @property
    def line(self) -> str:
        return " ".join(self.argv)


@dataclass(frozen=True)
class Museum:
    """A machine of the museum; `not_read` is by fact, `taught` what was read wrongly before."""

    name: str
    title: str
    shows: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    commands: tuple[Command, ...]
    files: Mapping[str, str]
    expert: Mapping[str, Any]
    not_read: Mapping[str, str]
    taught: tuple[str, ...]
    texts: Mapping[str, str]

    @property
    def facts(self) -> dict[str, Any]:
        return {key: value for key, value in self.expert.items() if key != "notes"}

    def printed(self, program: str) -> list[Command]:
        return [each for each in self.commands if each.argv[0].rpartition("/")[2] == program]


def names() -> list[str]:
    return sorted(each.parent.name for each in MACHINES.glob("*/machine.yml"))


def load(directory: Path) -> Museum:
    path = directory / "machine.yml"
    if not path.is_file():
        raise WrongMachine(f"{path}: there is no such file")
    try:
        written = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        return _machine(directory, _mapping(written, "the file"))
    except (yaml.YAMLError, WrongMachine) as error:
        raise WrongMachine(f"{path}: {error}") from error


def _machine(directory: Path, written: dict[str, Any]) -> Museum:
    _keys(written, _KEYS, _REQUIRED, "the file")
    used: set[str] = {"machine.yml"}
    commands = tuple(_command(directory, used, each) for each in _list(written, "commands"))
    files = {
        path: _file(directory, used, path, value)
        for path, value in _mapping(written.get("files") or {}, "files").items()
    }
    if not commands and not files:
        raise WrongMachine("it has neither commands nor files")
    there = {str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_file()}
    if unlisted := sorted(there - used):
        raise WrongMachine(f"nothing lists {', '.join(unlisted)}")
    shows = tuple(str(each) for each in _list(written, "shows"))
    if wrong := [each for each in shows if not _CLASS.fullmatch(each)]:
        raise WrongMachine(f"shows: {', '.join(wrong)} is no class")
    expert = _mapping(written["expert"], "expert")
    _keys(expert, {*FACTS, "notes"}, set(), "expert")
    not_read = _mapping(written.get("not_read") or {}, "not_read")
    _keys(not_read, {*expert} - {"notes"}, set(), "not_read")
    texts = {each: _text(written.get(each)) for each in _TEXTS}
    if not texts["title"]:
        raise WrongMachine("title: it is empty")
    return Museum(
        name=directory.name,
        title=texts["title"],
        shows=shows,
        sources=tuple(_source(each) for each in _sources(written)),
        commands=commands,
        files=files,
        expert=expert,
        not_read={key: _text(why) for key, why in not_read.items()},
        taught=tuple(_text(each) for each in _several(written.get("taught"))),
        texts=texts,
    )


def _sources(written: dict[str, Any]) -> list[Any]:
    found = _list(written, "sources")
    if not found:
        raise WrongMachine("sources: there is none")
    return found


def _source(value: object) -> tuple[str, str]:
    source = _mapping(value, "sources")
    _keys(source, {"url", "what"}, {"url", "what"}, "sources")
    if not str(source["url"]).startswith("https://"):
        raise WrongMachine(f"sources: {source['url']!r} is no https address")
    return str(source["url"]), _text(source["what"])


def _command(directory: Path, used: set[str], value: object) -> Command:
    command = _mapping(value, "commands")
    _keys(command, {"argv", "stdout", "stderr", "rc", "part"}, {"argv", "stdout"}, "commands")
    argv, part, rc = command["argv"], command.get("part", False), command.get("rc", 0)
    if not isinstance(argv, list) or not argv or not all(isinstance(each, str) for each in argv):
        raise WrongMachine(f"commands: argv is {argv!r}, not a list of texts")
    if not isinstance(part, bool) or type(rc) is not int:
        raise WrongMachine(f"commands: part of {argv} is not true or false, or rc is no number")
    errors = _beside(directory, used, command["stderr"]) if "stderr" in command else ""
    return Command(tuple(argv), _beside(directory, used, command["stdout"]), part, errors, rc)


def _file(directory: Path, used: set[str], path: object, value: object) -> str:
    if not isinstance(path, str) or not path.startswith("/") or ".." in path:
        raise WrongMachine(f"files: {path!r} is no path of a node's")
    if isinstance(value, str):
        return value
    _keys(_mapping(value, f"files: {path}"), {"from"}, {"from"}, f"files: {path}")
    return _beside(directory, used, _mapping(value, path)["from"])


def _beside(directory: Path, used: set[str], name: object) -> str:
    path = directory / str(name)
    if not isinstance(name, str) or not path.is_file() or directory not in path.parents:
        raise WrongMachine(f"there is no file {name!r} beside it")
    used.add(name)
    return path.read_text(encoding="utf-8")


def _keys(written: Mapping[str, Any], known: set[str], needed: set[str], where: str) -> None:
    if unknown := sorted(str(each) for each in written.keys() - known):
        raise WrongMachine(f"{where}: unknown key {', '.join(unknown)}")
    if missing := sorted(needed - written.keys()):
        raise WrongMachine(f"{where}: there is no {', '.join(missing)}")


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongMachine(f"{where}: not a mapping")
    return value


def _list(written: dict[str, Any], key: str) -> list[Any]:
    value = written.get(key) or []
    if not isinstance(value, list):
        raise WrongMachine(f"{key}: not a list")
    return value


def _several(value: object) -> list[Any]:
    if not value:
        return []
    return value if isinstance(value, list) else [value]


def _text(value: object) -> str:
    return " ".join(" ".join(str(each).split()) for each in _several(value))
