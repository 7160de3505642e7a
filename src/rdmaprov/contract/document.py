"""docs/contract.md, written from the rules."""

from __future__ import annotations

from rdmaprov.contract import RULES


def markdown() -> str:
    """Return docs/contract.md: every rule with its sentence and source."""
    lines = [
        "# The contract",
        "",
        "The rules between variables that `rdmaprov check` verifies in a site. Generated from the",
        "rules by `python -m rdmaprov.contract.document`.",
        "",
        "| rule | what must be true | source |",
        "|---|---|---|",
    ]
    lines += [f"| `{rule.id}` | {rule.sentence} | {rule.source} |" for rule in RULES]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
