"""Runs of a made-up fleet over a month, as the verbs' own code writes them, with a drift."""

import copy
import functools
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.report import gate_runs

from rdmaprov.cli import run

FIRST = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
DRIVERS = ("570.86.15", "580.65.06")
NOISE = 0.01  # of one measurement; repeated runs on healthy fleets differ by 1 to 2 %
DRIFT_FROM, DRIVER_FROM = 17, 23  # runs, from 1
DRIFT = 0.015  # of each run


@functools.cache
def _healthy() -> dict[str, Any]:
    return gate_runs.accepted(4, bad=False)


def started(number: int) -> datetime:
    return FIRST + timedelta(days=number - 1)


def acceptance(number: int, *, drift: bool = True, seed: int = 7) -> dict[str, Any]:
    chance = random.Random(f"{seed} {number}")
    data = copy.deepcopy(_healthy())
    data |= {
        "started": started(number).isoformat(),
        "ended": (started(number) + timedelta(seconds=data["seconds"])).isoformat(),
        "commit": "a" * 40 if number < 5 else "b" * 40,
    }
    lost = DRIFT * max(0, number - DRIFT_FROM + 1) if drift else 0.0
    for rail in data["samples"]["rails"]:
        share = 1 - lost if rail["rail"] == 3 else 1
        rail["mean_gb_s"] = round(rail["mean_gb_s"] * share * chance.gauss(1, NOISE), 4)
    for row in data["planes"][0]["rows"]:
        row["busbw_gb_s"] *= chance.gauss(1, NOISE)
    for node in data["nodes"].values():
        node["versions"] = {"kernel": "6.8.0-45-generic", "nvidia": DRIVERS[number >= DRIVER_FROM]}
        node["firmware"] = ["28.43.1014"] * 8
    return data


def keep(directory: Path, data: dict[str, Any], suffix: str = "") -> Path:
    time = datetime.fromisoformat(data["started"])
    place = directory / "runs" / f"{time:%Y%m%d-%H%M%S}-{data['verb']}{suffix}"
    place.mkdir(parents=True)
    (place / "results.json").write_text(json.dumps(data))
    return place


def thirty(directory: Path) -> list[Path]:
    return [keep(directory, acceptance(number)) for number in range(1, 31)]


SITE = "inventory/prod"


def history(capsys, *words):
    code = run(["history", SITE, "--json", "-", *words])
    out, err = capsys.readouterr()
    return code, json.loads(out), err
