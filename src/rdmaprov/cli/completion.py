"""`rdmaprov completion`: the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    To install it, for
    bash:
      mkdir -p ~/.local/share/bash-completion/completions
      rdmaprov completion bash > ~/.local/share/bash-completion/completions/rdmaprov
    zsh:
      rdmaprov completion zsh > "${fpath[1]}/_rdmaprov"
    fish:
      mkdir -p ~/.config/fish/completions
      rdmaprov completion fish > ~/.config/fish/completions/rdmaprov.fish
    """
    root = context.find_root()
    completer = get_completion_class(shell)
    if completer is None:  # this version of click no longer supports the shell
        raise click.UsageError(f"this version of click has no completion for {shell}", ctx=context)
    click.echo(completer(root.command, {}, "rdmaprov", "_RDMAPROV_COMPLETE").source())
