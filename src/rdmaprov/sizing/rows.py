"""Lines of an answer on sizes."""

from __future__ import annotations


def number_row(name: str, result: str, formula: str = "") -> str:
    """Return the line of a number, with how it follows."""
    return f"{name}: {result}" + (f" = {formula}" if formula else "")


def remark_row(text: str) -> str:
    """Return the line of a remark on the line above it."""
    return f"  {text}"
