"""`rdmaprov schema`: print every variable of a site."""

import json

import click


@click.command(short_help="Print every variable of a site.")
@click.option("--json", "style", flag_value="json", help="Print a JSON Schema for editors.")
@click.option(
    "--markdown", "style", flag_value="markdown", help="Print the page docs/variables.md."
)
def schema(style: str | None) -> None:
    """Print every variable of a site: type, choices, default and meaning.

    With the JSON Schema, an editor completes and checks group_vars and host_vars.
    """
    from rdmaprov.contract.json_schema import json_schema
    from rdmaprov.inventory import document
    from rdmaprov.inventory.schema import load_shipped

    shipped = load_shipped()
    if style == "json":
        click.echo(json.dumps(json_schema(shipped), indent=2))
    elif style == "markdown":
        click.echo(document.markdown(shipped), nl=False)
    else:
        click.echo("\n".join(document.table(shipped.variables.values())))
