"""`rdmaprov init`: a new site from a few facts, or a copy of a reference site."""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rdmaprov.cli.options import line_rate, require_rails
from rdmaprov.errors import UsageError
from rdmaprov.words import quantity

if TYPE_CHECKING:
    from rdmaprov.inventory.starter import Facts
    from rdmaprov.problem import Problem

# Reference site → what to do with a copy of it.
_EDIT = "write your nodes into {0}/hosts.yml, then run: rdmaprov check {0}"
REFERENCES = {"prod": _EDIT, "ib": _EDIT, "dgx": _EDIT, "lab": "rdmaprov lab up --site {0}"}
_OF_ONE_KIND = {"subnet": "roce", "partition_keys": "infiniband"}
# What an answer is checked with before the others are known.
_NEUTRAL = {"kind": "roce", "nodes": "node1", "rails": "ens1", "gbps": 400, "gpus": 0}
# Option that is not asked for → variable of the fabric; all but the first only on RoCE.
_OPTIONS = {
    "mtu": "fabric_mtu_bytes",
    "dscp": "fabric_roce_dscp",
    "priority": "fabric_lossless_priority",
    "cnp_dscp": "fabric_cnp_dscp",
    "cnp_priority": "fabric_cnp_priority",
}
_REFUSED, _ASKING, _READING = (f"{__name__}.{word}" for word in ("refused", "asking", "reading"))
_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.PROMPT)


class AskedOption(click.Option):
    """An option that is asked for if it has a prompt and is not given.

    On a terminal, a wrong answer is asked for again at once. Elsewhere each question takes one line
    of standard input, and all answers that are wrong or missing are refused together at the end.
    """

    def prompt_for_value(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's interface
        """Return the answer; nothing if the command is refused already."""
        if not sys.stdin.isatty():
            return self._read_line(ctx)
        if ctx.meta.get(_REFUSED):
            return None
        ctx.meta[_ASKING] = True
        try:
            return super().prompt_for_value(ctx)
        finally:
            ctx.meta[_ASKING] = False

    def _read_line(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's interface
        """Return the next line of standard input, or the default; refuse if there is neither."""
        has_default = isinstance(self.default, str)
        if has_default and not ctx.meta.get(_READING):
            return self.default  # no other answer comes from there
        ctx.meta[_READING] = True
        default = self.default if has_default else ""
        try:
            text = click.prompt(str(self.prompt), default=default, show_default=has_default)
        except click.Abort as error:
            if not isinstance(error.__context__, EOFError):
                raise
            text = default
        if not text:
            refuse(ctx, self, "no answer")
        return text or None

    def process_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - click's interface
        """Return the value in its type; nothing if it is refused."""
        try:
            return super().process_value(ctx, value)
        except click.BadParameter as error:
            if ctx.meta.get(_ASKING) or ctx.resilient_parsing:
                raise
            refuse(ctx, self, error.message.rstrip("."))
            return None


class _Asked(AskedOption):
    """An option that is asked for, unless a site is copied."""

    def prompt_for_value(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's interface
        """Ask; for what one kind of fabric has only on that kind."""
        known = _answered(ctx)
        kind = _OF_ONE_KIND.get(str(self.name))
        if "source" in known or kind not in (None, known.get("kind")):
            return None
        return super().prompt_for_value(ctx)


def _answered(context: click.Context) -> dict[str, str | int]:
    """Return what is known so far; click has a mark of its own for what is not."""
    return {name: value for name, value in context.params.items() if isinstance(value, (str, int))}


def _new_directory(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    """Refuse a directory with files, before anything is asked."""
    if value.exists() and (not value.is_dir() or any(value.iterdir())):
        other = "choose another directory, or edit it and run rdmaprov check"
        refuse(context, parameter, f"{value} exists and is not empty; {other}")
    return value


def _check_answer(context: click.Context, parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - click's interface
    """Return an answer that makes a valid site; click asks again for another one at once."""
    if value is None or context.resilient_parsing:
        return value
    try:
        with tempfile.TemporaryDirectory(prefix="rdmaprov-") as place:
            answers = {**_answered(context), parameter.name: value}
            facts = _facts({name: answers[name] for name in answers.keys() - _OPTIONS.keys()})
            found = _write(Path(place), facts)[1]
    except UsageError as error:
        message = error.message.removeprefix(f"{parameter.opts[0]}: ")
        raise click.BadParameter(message, context, parameter) from error
    if found:
        text = f"{found[0].message}; {found[0].remedy}"
        raise click.BadParameter(text, context, parameter)
    return value


def _asked(flag: str, prompt: str | None, meaning: str, **more: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Return an option that is asked for, and whose answer must make a valid site."""
    return click.option(
        flag, cls=_Asked, callback=_check_answer, prompt=prompt, help=meaning, **more
    )


@click.command("init", short_help="Write a new site.")
@click.argument(
    "directory", type=click.Path(path_type=Path), is_eager=True, callback=_new_directory
)
@click.option(
    "--from",
    "source",
    type=click.Choice(list(REFERENCES)),
    is_eager=True,
    help="Copy this reference site: prod (RoCE, two racks), ib (InfiniBand), dgx (DGX H100), lab"
    " (virtual nodes).",
)
@click.option(
    "--kind",
    type=click.Choice(["roce", "infiniband"], case_sensitive=False),
    cls=_Asked,
    is_eager=True,
    prompt="Fabric",
    help="Kind of fabric.",
)
@_asked(
    "--nodes",
    "Nodes, such as gpu[01:16]",
    "Host names and ranges, such as gpu[01:16], separated by commas.",
)
@_asked(
    "--rails",
    "Rails, such as ens1,ens2",
    "Network devices or PCI addresses of a node's rails, separated by commas, rail 0 first, or a "
    "range such as ens[1:8]np0; "
    "on InfiniBand also RDMA devices, such as mlx5_0.",
)
@_asked("--gbps", "Line rate of a rail", "Line rate of one rail: 400, 400G or NDR.", type=line_rate)
@_asked("--gpus", "GPUs per node", "GPUs per node.", type=click.IntRange(0, 64))
@_asked(
    "--subnet",
    "Network for the rails' addresses, such as 198.18.0.0/15, or none",
    "IPv4 network of the rails: rail i gets its i-th /24. none: no addresses.",
    default="none",
    show_default=True,
)
@_asked(
    "--partition-keys",
    "Partition keys of the rails, such as 0x8001, or none",
    "Partition keys of an InfiniBand site's rails, separated by commas, the one for NCCL"
    " first; none accepts any.",
    default="none",
    show_default=True,
)
@_asked("--user", None, "User to log in as over ssh.  [default: root]")
@click.option("--mtu", type=int, help="MTU of the rails in bytes.  [default on RoCE: 9000]")
@click.option("--dscp", type=int, help="DSCP of RoCE data.  [default: 26]")
@click.option("--priority", type=int, help="Priority of RoCE data, with PFC.  [default: 3]")
@click.option("--cnp-dscp", type=int, help="DSCP of congestion notifications.  [default: 48]")
@click.option("--cnp-priority", type=int, help="Priority of these.  [default: 6]")
@click.pass_context
def init(
    context: click.Context,
    /,
    directory: Path,
    source: str | None,
    **given: Any,  # noqa: ANN401 - click's
) -> None:
    """Write a new, commented site into DIRECTORY; ask for each fact that no option gives.

    The new site passes `rdmaprov check`. Existing files are never overwritten. With --from, copy a
    reference site instead and ask nothing.
    """
    from rdmaprov.inventory.starter import ROCE

    require_answers(context)
    if source is not None:
        written, then = _copy(directory, source, given), REFERENCES[source]
    else:
        written, then = _new(directory, given), "rdmaprov check {0}"
        facts = _facts(given)
        count = len(facts.rails)
        click.echo(f"understood: {_understood(facts)}")
        if facts.gpus and max(facts.gpus, count) % min(facts.gpus, count):
            click.echo(f"warning: {count} rails do not share {facts.gpus} GPUs evenly", err=True)
        assumed = ROCE.keys() - _facts(given).settings.keys() if given["kind"] == "roce" else ()
        if assumed:
            values = ", ".join(f"{name} {ROCE[name]}" for name in ROCE if name in assumed)
            click.echo(f"assumed: {values}; compare with the switches, as check cannot")
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"next: {then.format(shlex.quote(str(directory)))}")


def _understood(facts: "Facts") -> str:
    """Return what the answers are taken for."""
    from rdmaprov.inventory.starter import host_names

    *_, last = names = host_names(facts)
    nodes, rails = quantity(len(names), "node"), quantity(len(facts.rails), "rail")
    if len(facts.rails) > 1:
        rails += f" ({facts.rails[0]} to {facts.rails[-1]})"
    each = f"{rails} of {facts.gbps:g} Gb/s and {quantity(facts.gpus, 'GPU')}"
    return f"{nodes} ({names[0]} to {last}), each with {each}"


def _copy(directory: Path, source: str, known: Mapping[str, object]) -> list[Path]:
    from rdmaprov.inventory import starter
    from rdmaprov.resources import data_dir

    given = [name for name, value in known.items() if value is not None]
    if given:
        raise UsageError(
            f"--from and --{given[0]} exclude each other", "Copy the site, then edit its files."
        )
    return _written(directory, starter.copied(data_dir("inventory") / source))


def _written(directory: Path, files: Mapping[str, bytes]) -> list[Path]:
    from rdmaprov.runs.files import write_bytes_whole

    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes_whole(directory / name, [text], mode=0o666)
    return [directory / name for name in files]


def _new(directory: Path, known: Mapping[str, object]) -> list[Path]:
    from rdmaprov.inventory import starter
    from rdmaprov.scheduler.slurm import health_check_program

    existed, facts = directory.exists(), _facts(known)
    for name in [*_OPTIONS][1:]:
        if facts.kind != "roce" and known.get(name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is an option for RoCE", f"Leave {option} out.")
    is_checked = bool(health_check_program(starter.host_names(facts)))
    written, found = _write(directory, replace(facts, is_checked=is_checked))
    if found:
        for path in written:
            path.unlink()
        if not existed:
            shutil.rmtree(directory)
        flags = {variable: f"--{name.replace('_', '-')}" for name, variable in _OPTIONS.items()}
        at = flags.get(found[0].variable, found[0].variable)
        raise UsageError(f"{at}: {found[0].message}", f"Please {found[0].remedy}")
    return written


def _facts(given: Mapping[str, Any]) -> "Facts":
    """Return the facts that answers are; neutral ones in place of those that are missing."""
    from rdmaprov.inventory.starter import Facts, expanded, listed

    known = {**_NEUTRAL, **{key: value for key, value in given.items() if value is not None}}
    nodes, rails = (listed(known[key]) for key in ("nodes", "rails"))
    rails = tuple(rail for part in rails for rail in expanded(part))
    if "rails" in given and given["rails"] is not None:
        require_rails(known["gbps"], len(rails), "--gbps")
    subnet, keys = (known.get(key, "none").strip() for key in ("subnet", "partition_keys"))
    return Facts(
        known["kind"],
        nodes,
        rails,
        known["gbps"],
        known["gpus"],
        "" if subnet.lower() == "none" else subnet,
        known.get("user", "root"),
        () if keys.lower() == "none" else tuple(keys.replace(",", " ").split()),
        {variable: known[name] for name, variable in _OPTIONS.items() if name in known},
    )


def _write(directory: Path, facts: "Facts") -> "tuple[list[Path], list[Problem]]":
    """Write a site; return its files, and what is wrong with it."""
    from rdmaprov import contract
    from rdmaprov.inventory import load_site, schema, starter

    rates = schema.load_shipped().variables["fabric_link_gbps"].choices
    if facts.gbps not in rates:
        message = f"no rail has {facts.gbps:g} Gb/s; use one of {', '.join(map(str, rates))}"
        raise UsageError(message, "See: rdmaprov init --help")
    written = _written(directory, starter.texts(facts))
    return written, contract.problems(load_site(directory))


def refuse(context: click.Context, parameter: click.Parameter, why: str) -> None:
    """Note what is wrong with a parameter; `require_answers` tells it."""
    context.meta.setdefault(_REFUSED, {}).setdefault(parameter.name, why)


def require_answers(context: click.Context) -> None:
    """Raise UsageError for all that is wrong, with the command line that has the right answers."""
    refused: dict[str, str] = context.meta.get(_REFUSED, {})
    if not refused:
        return
    labels = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    texts = [f"{labels[name]}: {why}" for name, why in refused.items()]
    again = " ".join([context.command_path, *_corrected(context, refused)])
    raise UsageError("; ".join(texts), f"Run: {again}")


def _corrected(context: click.Context, refused: dict[str, str]) -> Iterator[str]:
    """Yield the words of a command line, with names in place of what is wrong."""
    for parameter in context.command.params:
        name = str(parameter.name)
        value = context.params.get(name)
        if name in refused:
            word = name.upper()
        elif context.get_parameter_source(name) in _GIVEN and value is not None:
            word = shlex.quote(str(value))
        else:
            continue
        yield word if isinstance(parameter, click.Argument) else f"{parameter.opts[0]} {word}"
