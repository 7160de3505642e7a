"""What `rdmaprov explain sizing` does; apart from its options, so that help stays fast."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.sizing import switches
from rdmaprov.sizing.model import (
    DEFAULT_MFU,
    SHORT,
    SizingError,
    Spread,
    TrainedModel,
    check_spread,
    parse_parameters,
    positive,
    step_seconds,
)
from rdmaprov.sizing.step import StepNeed, need_as_data, need_head, need_rows
from rdmaprov.sizing.switches import FleetPorts
from rdmaprov.sizing.traffic import flows

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
Given = Mapping[str, Any]
_LINK_GBPS = 400.0


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
    for needed, options in (("parameters", _OF_STEP), ("ports", _OF_SWITCHES)):
        for name, default in options.items():
            if given[needed] is None and given[name] != default:
                option = f"--{name.replace('_', '-')}"
                message = f"{option} has no meaning without --{needed}"
                raise UsageError(message, f"Pass --{needed} too, or leave {option} out.")
    asked = _questions(given)
    if as_json:
        yield json.dumps(_document(asked), indent=2)
        return
    yield from "\n\n".join("\n".join(part) for part in _sections(asked)).split("\n")


def _questions(given: Given) -> _Questions:
    wanted = _wanted(given)
    if given["parameters"] is None:
        if not wanted:
            raise UsageError("neither a model nor switches are given", _HINT)
        return _Questions(None, wanted, None)
    for name in ("layers", "hidden"):
        if not 0 <= given[name] <= 10**6:
            message = f"--{name} must be from 1 to 1000000, not {given[name]}"
            raise SizingError(message, f"Pass --{name} of the model.")
    parameters = parse_parameters(given["parameters"])
    model = TrainedModel(parameters, SHORT[given["dtype"]], given["layers"], given["hidden"])
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


def step_need(given: Given, model: TrainedModel) -> StepNeed:
    """Return what a step of the model needs, over the links of the options."""
    spread = _spread(given)
    tokens = given["batch_tokens"] or 0.0
    if given["batch_tokens"] is not None:
        positive("--batch-tokens", tokens)
    link = _LINK_GBPS if given["link_gbps"] is None else given["link_gbps"]
    if not 1 <= link <= 1600:  # as of every fabric here
        raise SizingError(f"--link-gbps must be from 1 to 1600, not {link:g}", "Pass it in Gb/s.")
    seconds = _seconds(given, model, spread, tokens)
    return StepNeed(tuple(flows(model, spread, tokens)), spread, seconds, link)


def _spread(given: Given) -> Spread:
    per_node = given["gpus_per_node"] or given["rails"] or 1
    rails = given["rails"] or per_node
    gpus = given["gpus"]
    if gpus is None:
        if given["nodes"] is None:
            raise UsageError("the GPUs of the job are not given", "Pass --gpus, such as 256.")
        gpus = given["nodes"] * per_node
    spread = Spread(gpus, per_node, rails, given["strategy"], given["tp"], given["pp"])
    for option, value, least in (
        ("--gpus", gpus, 2),
        ("--gpus-per-node", given["gpus_per_node"], 1),
        ("--rails", given["rails"], 1),
        ("--tp", given["tp"], 1),
        ("--pp", given["pp"], 1),
    ):
        if value is not None and not least <= value <= 10**7:
            raise SizingError(
                f"{option} must be at least {least}, not {value}", f"Pass {option} {least} or more."
            )
    return check_spread(spread)


def _seconds(given: Given, model: TrainedModel, spread: Spread, tokens: float) -> float:
    """Return how long a step computes, from the options that say it."""
    if (given["step_s"] is None) == (given["gpu"] is None):
        both = given["gpu"] is not None
        raise UsageError(
            "--step-s and --gpu exclude each other" if both else "the time of a step is not given",
            "Pass --step-s SECONDS, or --gpu NAME with --batch-tokens.",
        )
    if given["step_s"] is not None:
        if given["mfu"] is not None:
            raise UsageError("--mfu has no meaning with --step-s", "Leave one of them out.")
        return positive("--step-s", given["step_s"])
    if not tokens:
        raise UsageError("--gpu needs the tokens of a step", "Pass --batch-tokens, such as 4e6.")
    mfu = DEFAULT_MFU if given["mfu"] is None else given["mfu"]
    if not 0 < mfu <= 1:
        raise SizingError(f"--mfu must be above 0 and up to 1, not {mfu:g}", "Pass 0.4, or yours.")
    return step_seconds(model, spread.gpus, given["gpu"], tokens, mfu)
