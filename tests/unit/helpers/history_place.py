"""Where `rdmaprov history` finds the runs of a made-up fleet."""

from __future__ import annotations

import json

from rdmaprov.cli import run

SITE = "inventory/prod"


def history(capsys, *words):
    code = run(["history", SITE, "--json", "-", *words])
    out, err = capsys.readouterr()
    return code, json.loads(out), err
