"""The contract for readers: docs/contract.md."""

from __future__ import annotations

from rdmaprov.contract import RULES


def markdown() -> str:
    """Return docs/contract.md: every rule with its sentence and source."""
    lines = [
        "# The contract",
        "",
        "The rules between variables that `rdmaprov check` holds a site to. Written by",
        "`python -m rdmaprov.contract.document` from the rules themselves.",
        "",
        "| rule | what must hold | source |",
        "|---|---|---|",
    ]
    lines += [f"| `{rule.id}` | {rule.sentence} | {rule.source} |" for rule in RULES]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
