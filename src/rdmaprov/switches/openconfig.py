"""OpenConfig: what `gnmic get` printed of openconfig-interfaces and openconfig-qos.

The models: openconfig/public, release/models/interfaces and qos. They have no PFC; Enterprise
SONiC adds it as openconfig-qos-ext. Queues and classes have names, of which only numbers can be
compared with priorities.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.switches.model import EcnCurve, SwitchFact, SwitchReading, SwitchSystem
from rdmaprov.switches.reader import ReadingDraft, SwitchAsk, SwitchReader
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import counts, inner, members, whole, words

_MOST_NODES = 500_000
_MOST_DEPTH = 32
_SPEED = re.compile(r"(?:[\w-]+:)?SPEED_(\d{1,4})GB")
_QUEUE = re.compile(r"(?:[\w/.-]+:)?(\d{1,2})")


def _bare(document: object) -> Any:  # noqa: ANN401 - JSON
    """Return a document without the names of modules before its keys."""
    left = _MOST_NODES

    def bare(value: object, depth: int) -> Any:  # noqa: ANN401 - JSON
        nonlocal left
        left -= 1
        if left < 0 or depth > _MOST_DEPTH:
            return None
        if isinstance(value, dict):
            return {
                str(key).rpartition(":")[2]: bare(each, depth + 1) for key, each in value.items()
            }
        return [bare(each, depth + 1) for each in value] if isinstance(value, list) else value

    return bare(document, 0)


def _trees(document: object) -> Iterator[Mapping[str, Any]]:
    """Yield the trees of an answer: of a get of gnmic, or a tree itself.

    gnmic gives each value under its path, such as `openconfig-interfaces:interfaces`.
    """
    for each in document if isinstance(document, list) else [document]:
        updates = members(each).get("updates")
        if not isinstance(updates, list):
            yield members(each)
            continue
        for update in updates[:10_000]:
            for path, value in members(members(update).get("values")).items():
                name = path.rpartition("/")[2].rpartition(":")[2].partition("[")[0]
                yield {name: value} if name and name not in members(value) else members(value)


def _is_openconfig(document: object) -> bool:
    for tree in _trees(document):
        for key, value in tree.items():
            name = key.rpartition(":")[2]
            bare_value = members(_bare(value))
            if name == "interfaces" and isinstance(bare_value.get("interface"), list):
                return True
            if name == "qos" and "interfaces" in bare_value:
                return True
    return False


def _knows(answer: SavedAnswer) -> bool:
    return answer.document is not None and _is_openconfig(answer.document)


def _read(name: str, answers: Sequence[SavedAnswer]) -> SwitchReading:
    draft = ReadingDraft(name, SwitchSystem.OPENCONFIG)
    for answer in answers:
        for tree in _trees(answer.document):
            found = members(_bare(dict(tree)))
            for each in _listed(found.get("interfaces"), "interface"):
                _read_interface(each, answer, draft)
            _read_qos(members(found.get("qos")), answer, draft)
    return draft.finish()


def _listed(value: object, name: str) -> list[Mapping[str, Any]]:
    found = members(value).get(name)
    return [members(each) for each in found[:4096]] if isinstance(found, list) else []


def _state(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of a container; the configuration, where the state says nothing."""
    return {**members(value.get("config")), **members(value.get("state"))}


def _read_interface(own: Mapping[str, Any], answer: SavedAnswer, draft: ReadingDraft) -> None:
    state = _state(own)
    counters = members(state.get("counters"))
    speed = _SPEED.fullmatch(str(_state(members(own.get("ethernet"))).get("port-speed")))
    draft.ports.add(
        own.get("name"),
        description=words(state.get("description")),
        is_up={"UP": True, "DOWN": False}.get(str(state.get("oper-status"))),
        speed_gbps=int(speed[1]) if speed else None,
        mtu_bytes=whole(state.get("mtu"), most=65535),
        drops=counts({"rx": counters.get("in-discards"), "tx": counters.get("out-discards")}),
    )
    draft.where |= dict.fromkeys((SwitchFact.MTU, SwitchFact.DROPS), answer.label)


def _read_qos(qos: Mapping[str, Any], answer: SavedAnswer, draft: ReadingDraft) -> None:
    profiles = {
        str(each.get("name")): _state(members(inner(each, "wred", "uniform")))
        for each in _listed(qos.get("queue-management-profiles"), "queue-management-profile")
    }
    for own in _listed(qos.get("interfaces"), "interface"):
        paused = _paused(own)
        queues = _listed(inner(own, "output", "queues"), "queue")
        draft.ports.add(
            own.get("interface-id"),
            pfc_rx=paused,
            pfc_tx=paused,
            ecn=_curves(queues, profiles) if queues else None,
        )
        draft.where |= dict.fromkeys((SwitchFact.PFC, SwitchFact.ECN), answer.label)


def _paused(own: Mapping[str, Any]) -> frozenset[int] | None:
    listed = inner(own, "pfc", "pfc-priorities")
    if not isinstance(members(listed).get("pfc-priority"), list):
        return None
    found = set()
    for each in _listed(listed, "pfc-priority"):
        number, is_on = whole(each.get("dot1p"), 0, 7), _state(each).get("enable")
        if number is None or not isinstance(is_on, bool):
            return None
        found |= {number} if is_on else set()
    return frozenset(found)


def _curves(
    queues: list[Mapping[str, Any]], profiles: Mapping[str, Mapping[str, Any]]
) -> dict[int, EcnCurve] | None:
    found = {}
    for each in queues:
        number = _QUEUE.fullmatch(str(each.get("name")))
        if number is None:
            return None  # a name, which nothing here says the class of
        profile = profiles.get(str(_state(each).get("queue-management-profile")), {})
        found[int(number[1])] = EcnCurve(
            profile.get("enable-ecn") is True,
            whole(profile.get("min-threshold")),
            whole(profile.get("max-threshold")),
            percent=whole(profile.get("max-drop-probability-percent"), 0, 100),
        )
    return found


READER = SwitchReader(
    SwitchSystem.OPENCONFIG,
    (
        SwitchAsk(
            "gnmic get --path /interfaces",
            "MTU, rate, link and drops of each port",
            (SwitchFact.MTU, SwitchFact.DROPS),
        ),
        SwitchAsk(
            "gnmic get --path /qos",
            "ECN by queue; PFC, where the vendor adds it",
            (SwitchFact.PFC, SwitchFact.ECN),
        ),
    ),
    _knows,
    _read,
)
