"""`rdmaprov apply`: bring nodes to the state that the site describes."""

from typing import Any

import click

from rdmaprov.cli import options
from rdmaprov.cli.publish import publish_options
from rdmaprov.cli.verbosity import verbosity_options


@click.command(
    short_help="Bring nodes to the state that the site describes.",
    epilog="Exit codes: 0 done, 1 a node failed, 3 the site is invalid, 4 a node is unreachable"
    " or another run holds SITE, 5 reboot required.",
)
@options.site_argument_or_plan
@options.limit_option
@options.roles_option
@click.option(
    "--serial",
    metavar="N|N%",
    help="Change this many nodes at a time; with scheduler_kind, drain them first, then validate"
    " and undrain them.  [default: all]",
)
@click.option(
    "--max-failures",
    metavar="N|N%",
    help="Start no new node once more than this many of a batch have failed; with scheduler_kind,"
    " once more than this many stay drained.",
)
@click.option(
    "--reboot",
    type=click.Choice(["never", "if-needed"]),
    help="Reboot nodes that require it.  [default: reboot_policy of SITE]",
)
@click.option(
    "--drifted", is_flag=True, help="Probe all nodes first; change only those that differ."
)
@options.change_options
@options.json_option
@publish_options
@options.password_options
@verbosity_options
def apply(**given: Any) -> int:  # noqa: ANN401 - apply_run.converge has their types
    """Bring nodes to the state that SITE describes, then verify it.

    Nodes already in that state are only surveyed. If a change would interrupt traffic, a node on
    which a job runs is refused. To resume an interrupted run, run the same command again. Logs and
    results go to runs/, without secrets.

    On a terminal, it shows what will change, on how many nodes it interrupts traffic and reboots,
    and asks once. With the file that `rdmaprov plan --output` wrote in place of SITE, it surveys
    the nodes again, does what the plan says and nothing else, and does not ask. It refuses a node
    that changed since, a site that changed since, and the plan of another site.

    With --serial, where scheduler_kind names a scheduler, nodes that differ are drained, changed,
    rebooted if required, validated and undrained, each as its jobs end: first one node alone, then
    never two of one leaf or rack. A node that fails stays drained; one that is unreachable, or
    still busy after scheduler_wait_s, is returned as it was and named.
    """
    from rdmaprov.cli.apply_run import converge

    return converge(**given)
