"""docs/contract.md, written from the rules."""

import textwrap

from rdmaprov.contract import RULES
from rdmaprov.contract.waivers import NOT_WAIVABLE

_WAIVERS = (
    "The variable `fabric_waivers` accepts what a rule finds, with a reason. Each run prints it;",
    "`results.json` and the report keep it:",
    "",
    "```yaml",
    "fabric_waivers:",
    "  - {rule: qos.pfc-one, reason: storage has a lossless priority of its own, nodes: ['gpu*']}",
    "```",
    "",
    *textwrap.wrap(f"Not to be waived: {', '.join(sorted(NOT_WAIVABLE))}.", 100),
)


def markdown() -> str:
    """Return docs/contract.md: every rule with its sentence and source."""
    lines = [
        "# The contract",
        "",
        "The rules between variables that `rdmaprov check` verifies in a site. Generated from the",
        "rules by `python -m rdmaprov.contract.document`.",
        "",
        *_WAIVERS,
        "",
        "| rule | what must be true | source |",
        "|---|---|---|",
    ]
    lines += [f"| `{rule.id}` | {rule.sentence} | {rule.source} |" for rule in RULES]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
