"""`rdmaprov explain`: find what files are and what they show; judge a number, a fabric."""

import importlib
import re
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from rdmaprov.cli.lazy import LazyGroup

COMMANDS = {
    "floor": "rdmaprov.cli.explain_floor:floor",
    "nccl-log": "rdmaprov.cli.explain_nccl_log:nccl_log",
    "subnet": "rdmaprov.cli.explain_subnet:subnet",
    "switch": "rdmaprov.cli.explain_switch:switch",
}
_FILES = "rdmaprov.cli.explain_files"
_VERB = re.compile(r"[a-z][a-z-]*")


class FileGroup(LazyGroup):
    """A group whose first word, if it is no command, begins a list of files."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word, or the one that takes files."""
        first = args[0]
        if first in self.table or (_VERB.fullmatch(first) and not Path(first).exists()):
            return super().resolve_command(ctx, args)
        command: click.Command = importlib.import_module(_FILES).files
        return "", command, args

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, then the files."""
        found = super().shell_complete(ctx, incomplete)
        return [*found, CompletionItem(incomplete, type="file")]


@click.group(
    cls=FileGroup,
    table=COMMANDS,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[--json]",
    subcommand_metavar="FILE... | COMMAND [ARGS]...",
    short_help="Find what files show; judge a measurement, a fabric.",
)
def explain() -> None:
    """Find what FILEs are and what they show, or run one of the commands below.

    \b
    A FILE is, in any mixture:
      a log of NCCL (NCCL_DEBUG=INFO), or of torch: its watchdog, its last error
      a table of nccl-tests, or its JSON
      a report of NCCL's RAS (ncclras), as text or JSON
      a dump of torch's flight recorder
      the output of ib_write_bw and the like, ibv_devinfo, ibstat, nvidia-smi -q, topo -m
      a log of the kernel: dmesg, journalctl -k, /var/log/messages
      what infiniband-diags print of a subnet, or a switch of its configuration

    Says what each shows, what they show together, and what would tell more; docs/explain.md
    has the table. A FILE that is named like a command is given as ./NAME; - is standard input.
    With --json, prints JSON. Nothing needs a site.

    \b
    Exit codes with FILEs:
      0  what they show is right
      1  something is wrong
      2  wrong usage, or a file is missing
      4  something is unknown, or a file is of no known kind
    """
