"""What `rdmaprov explain sizing` does; apart from its options, so that help stays fast."""

from collections.abc import Mapping
from typing import Any

from rdmaprov.cli.options import require_rails
from rdmaprov.errors import UsageError
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
from rdmaprov.sizing.step import StepNeed, need_head, need_rows
from rdmaprov.sizing.traffic import flows

Given = Mapping[str, Any]
_LINK_GBPS = 400.0


def answer(given: Given) -> list[str]:
    """Return the answer as lines.

    Raises:
        UsageError: options are missing, or no job has such numbers.
    """
    if given["parameters"] is None:
        hint = "Pass --parameters 7e9 --gpus 256 --step-s 1."
        raise UsageError("the model is not given", hint)
    for name in ("layers", "hidden"):
        if not 0 <= given[name] <= 10**6:
            message = f"--{name} must be from 1 to 1000000, not {given[name]}"
            raise SizingError(message, f"Pass --{name} of the model.")
    parameters = parse_parameters(given["parameters"])
    model = TrainedModel(parameters, SHORT[given["dtype"]], given["layers"], given["hidden"])
    need = step_need(given, model)
    return [need_head(model, need), *need_rows(model, need)]


def step_need(given: Given, model: TrainedModel) -> StepNeed:
    """Return what a step of the model needs, over the links of the options."""
    spread = _spread(given)
    tokens = given["batch_tokens"] or 0.0
    if given["batch_tokens"] is not None:
        positive("--batch-tokens", tokens)
    link = _LINK_GBPS if given["link_gbps"] is None else given["link_gbps"]
    if not 1 <= link <= 1600:  # as of every fabric here
        raise SizingError(f"--link-gbps must be from 1 to 1600, not {link:g}", "Pass it in Gb/s.")
    require_rails(link, spread.rails)
    seconds = _seconds(given, model, spread, tokens)
    return StepNeed(tuple(flows(model, spread, tokens)), spread, seconds, link)


def _spread(given: Given) -> Spread:
    per_node = given["gpus_per_node"] or given["rails"] or 1
    rails = given["rails"] or per_node
    gpus = given["gpus"]
    if gpus is None:
        raise UsageError("the GPUs of the job are not given", "Pass --gpus, such as 256.")
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
