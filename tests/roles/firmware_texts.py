"""Texts of mstconfig, as NICs gave them."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures" / "mstconfig"


def query_text(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()
