"""What `rdmaprov explain sizing` does; apart from its options, so that help stays fast."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rdmaprov.cli.explain_sizing_step import Given, step_need, trained_model
from rdmaprov.errors import UsageError
from rdmaprov.sizing import switches
from rdmaprov.sizing.model import TrainedModel
from rdmaprov.sizing.need import need_as_data, need_head, need_rows
from rdmaprov.sizing.step import StepNeed
from rdmaprov.sizing.switches import FleetPorts

# Options of each question, with what they are if they are not given.
_OF_STEP = {
    "gpus": None,
    "step_s": None,
    "gpu": None,
    "batch_tokens": None,
    "mfu": None,
    "layers": 0,
    "hidden": 0,
    "dtype": "bf16",
    "strategy": "ddp",
    "tp": 1,
    "pp": 1,
    "gpus_per_node": None,
}
_OF_SWITCHES = {"oversubscription": "1", "planes": 0}


@dataclass(frozen=True)
class _Questions:
    """What was asked: a step, switches, or both."""

    need: StepNeed | None
    wanted: FleetPorts | None
    model: TrainedModel | None


def answer(given: Given, as_json: bool) -> Iterator[str]:
    """Yield the answer as text or JSON.

    Raises:
        UsageError: options are missing, or no job or fabric has such numbers.
    """
    _refuse_unused(given)
    asked = _questions(given)
    if as_json:
        yield json.dumps(_document(asked), indent=2)
        return
    yield from "\n\n".join("\n".join(part) for part in _sections(asked)).split("\n")


def _refuse_unused(given: Given) -> None:
    """Refuse options that have no meaning without others."""
    for needed, options in (("parameters", _OF_STEP), ("ports", _OF_SWITCHES)):
        for name, default in options.items():
            if given[needed] is None and given[name] != default:
                option = f"--{name.replace('_', '-')}"
                message = f"{option} has no meaning without --{needed}"
                raise UsageError(message, f"Pass --{needed} too, or leave {option} out.")


def _questions(given: Given) -> _Questions:
    wanted = _wanted(given)
    if given["parameters"] is None:
        if not wanted:
            raise UsageError("neither a model nor switches are given", _HINT)
        return _Questions(None, wanted, None)
    model = trained_model(given)
    return _Questions(step_need(given, model), wanted, model)


_SWITCHES_HINT = "Pass --nodes 512 --rails 8 --link-gbps 400 --ports 64."
_HINT = "Pass --parameters 7e9 --gpus 256 --step-s 1; or --nodes, --rails, --link-gbps and --ports."


def _wanted(given: Given) -> FleetPorts | None:
    """Return the switches that were asked for, None if there was no question."""
    if given["ports"] is None:
        if given["nodes"] is not None and (given["gpus"] or given["parameters"] is None):
            raise UsageError("the ports of a switch are not given", "Pass --ports, such as 64.")
        return None
    have = {name: given[name] for name in ("nodes", "rails", "link_gbps")}
    if missing := [name.replace("_", "-") for name, value in have.items() if value is None]:
        raise UsageError(
            f"--ports counts switches, and --{' and --'.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not given",
            _SWITCHES_HINT,
        )
    ratio = switches.parse_ratio(given["oversubscription"])
    return switches.check_ports(
        FleetPorts(**have, ports=given["ports"], oversubscription=ratio, planes=given["planes"])
    )


def _document(asked: _Questions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if asked.need and asked.model:
        found |= need_as_data(asked.model, asked.need)
    if asked.wanted:
        found |= switches.as_data(asked.wanted, asked.wanted.tree(asked.wanted.separate))
    return found


def _sections(asked: _Questions) -> Iterator[list[str]]:
    if asked.need and asked.model:
        yield [need_head(asked.model, asked.need), *need_rows(asked.model, asked.need)]
    if wanted := asked.wanted:
        tree = wanted.tree(wanted.separate)
        rows = [*switches.rows(wanted, tree), *switches.other_rows(wanted, tree)]
        yield [switches.head(wanted, tree), *rows]
