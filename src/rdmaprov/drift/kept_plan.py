"""A plan that is kept: the file of `plan --output`, and how a node differs from it now."""

import errno
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.apply.changes import change_lines
from rdmaprov.apply.events import Change, Survey
from rdmaprov.apply.results import NodeResult, NodeState, Results
from rdmaprov.boundary import parse_file
from rdmaprov.errors import UsageError
from rdmaprov.inventory.ansible_api import import_plugin
from rdmaprov.inventory.site_files import site_digest
from rdmaprov.problem import printable
from rdmaprov.runs.files import read_whole
from rdmaprov.runs.masks import Mask

KEY = "rdmaprov_plan"
VERSION = 1
# Nodes with equal changes share an entry; 10,000 nodes that differ in eight rails are 30 MB.
MOST_BYTES = 64 * 1024 * 1024
_MOST_PARTS = 1 << 22
_HEAD = re.compile(rb'\s*\{\s*"rdmaprov_plan"\s*:')
_TEXTS = ("reboot", "interrupts")
_CHANGE = ("layer", "device", "setting", "seen", "wanted")

Announced = Mapping[str, Mapping[str, Any]]  # by role, as plugin_utils.planned has it


@dataclass(frozen=True)
class KeptPlan:
    """What `apply FILE` may do."""

    file: Path
    site: Path  # the inventory directory, absolute
    site_sha256: str
    roles: tuple[str, ...]  # names of the roles; empty for all
    nodes: Mapping[str, Announced]  # by name, what was announced

    def require_site(self, names: tuple[str, ...]) -> None:
        """Raise UsageError if the site is not the one that was planned, or was changed since."""
        again = f"Make a new one: rdmaprov plan {self.site} --output {self.file}"
        if other := sorted(self.nodes.keys() - set(names)):
            what = (
                f"{self.file} is of another site: {printable(other[0])} is no node of {self.site}"
            )
            raise UsageError(what, again)
        if site_digest(self.site) != self.site_sha256:
            what = f"{self.file} is of another site, or {self.site} was changed since"
            raise UsageError(what, again)


def due(node: NodeResult) -> bool:
    """Return whether a node that was surveyed has changes pending, or requires a reboot."""
    return node.state is NodeState.PENDING or (
        node.state is NodeState.UNCHANGED and node.reboot != ()
    )


def announced(survey: Survey) -> dict[str, dict[str, Any]]:
    """Return what a survey announces, by role."""
    found: dict[str, dict[str, Any]] = _planned().announced(_data(survey))
    return found


def digest(survey: Survey) -> str:
    """Return the digest of what a survey announces, as the playbook compares it."""
    return str(_planned().digest(_data(survey)))


def _planned() -> Any:  # noqa: ANN401 - a module
    return import_plugin("plugin_utils.planned")


def _data(survey: Survey) -> dict[str, Any]:
    roles = {name: asdict(plan) for name, plan in survey.roles.items()}
    return json.loads(json.dumps({"roles": roles, "pending": survey.pending}))  # type: ignore[no-any-return]


def kept_text(site: Path, roles: tuple[str, ...], results: Results, mask: Mask) -> str:
    """Return the content of a plan's file, without secrets.

    Args:
        roles: names of the roles; empty for all.
    """
    groups: dict[str, list[str]] = {}
    left_out = []
    for name, node in results.nodes.items():
        if node.before is None or node.problem:
            left_out.append(name)
        elif due(node):
            text = json.dumps(mask.data(announced(node.before)), ensure_ascii=False)
            groups.setdefault(text, []).append(name)
    data = {
        KEY: VERSION,
        "rdmaprov": rdmaprov.__version__,
        "made": datetime.now().astimezone().isoformat(timespec="seconds"),
        "site": str(site.resolve()),
        "site_sha256": site_digest(site),
        "roles": list(roles),
        "not_surveyed": left_out,
        "plans": [{"nodes": names, "roles": json.loads(text)} for text, names in groups.items()],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def read_plan(path: Path) -> KeptPlan | None:
    """Return the plan that a file holds; None if it is none, by its first key.

    Raises:
        UsageError: it is one, and is damaged, too large, or of a newer version.
    """
    if not path.is_file():
        return None
    again = f"Make a new one: rdmaprov plan SITE --output {shlex.quote(str(path))}"
    try:
        text = read_whole(path, MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            what = f"{path} is no plan: it has more than {MOST_BYTES} bytes"
            raise UsageError(what, again) from error
        what = f"{path} cannot be read: {error.strerror}"
        raise UsageError(what, "Name a readable file") from error
    if not _HEAD.match(text):
        return None
    try:
        data = parse_file(text, _MOST_PARTS)
        if data[KEY] != VERSION:
            what = f"{path} is a plan of version {printable(str(data[KEY]))[:20]}, not {VERSION}"
            raise UsageError(what, again)
        return _parse(path, data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is a damaged plan", again) from error


def _parse(path: Path, data: Mapping[str, Any]) -> KeptPlan:
    nodes: dict[str, Announced] = {}
    for entry in data["plans"]:
        asked = {_text(role): _entry(each) for role, each in entry["roles"].items()}
        for name in entry["nodes"]:
            if _text(name) in nodes:
                raise ValueError(name)
            nodes[name] = asked
    if "\0" in data["site"]:
        raise ValueError
    site, roles = Path(_text(data["site"])), tuple(map(_text, data["roles"]))
    return KeptPlan(path, site, _text(data["site_sha256"]), roles, nodes)


def _entry(each: Mapping[str, Any]) -> dict[str, Any]:
    changes = [{name: _text(change[name]) for name in _CHANGE} for change in each["changes"]]
    texts = {name: [_text(one) for one in each[name]] for name in _TEXTS}
    return {"changes": changes, **texts, "waits": _text(each["waits"])}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def differences(planned: Announced, now: Announced) -> Iterator[str]:
    """Yield what a node's survey announces now that was not planned, and the reverse."""
    for role in dict.fromkeys((*planned, *now)):
        was, found = _lines(planned.get(role)), _lines(now.get(role))
        yield from (f"{role}: {line} is not pending any more" for line in was if line not in found)
        yield from (f"{role}: {line} was not planned" for line in found if line not in was)


def _lines(entry: Mapping[str, Any] | None) -> list[str]:
    if entry is None:
        return []
    lines = change_lines([Change(**change) for change in entry["changes"]])
    lines += [f"reboot ({each})" for each in entry["reboot"]]
    lines += [f"interruption ({each})" for each in entry["interrupts"]]
    return lines + ([f"wait for an earlier role ({entry['waits']})"] if entry["waits"] else [])
