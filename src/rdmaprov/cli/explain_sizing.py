"""`rdmaprov explain sizing`: what a training step asks of a fabric."""

from typing import Any

import click

from rdmaprov.cli.options import line_rate
from rdmaprov.exit_codes import ExitCode


@click.command(
    "sizing",
    short_help="Derive what a training step needs of a fabric.",
    epilog="Exit codes: 0 derived, 2 wrong usage.",
)
@click.option("--parameters", metavar="NUMBER", help="Weights of the model, such as 7e9 or 70B.")
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp16", "fp32", "fp8"]),
    default="bf16",
    show_default=True,
    help="Type of gradients, gathered weights and activations.",
)
@click.option("--gpus", type=int, help="GPUs of the job.")
@click.option("--step-s", type=float, metavar="SECONDS", help="Compute time of a step.")
@click.option("--gpu", metavar="NAME", help="GPU as nvidia-smi names it, instead of --step-s.")
@click.option("--batch-tokens", type=float, metavar="N", help="Tokens of a step, of all replicas.")
@click.option(
    "--mfu", type=float, help="Share of the GPUs' peak that a step reaches.  [default: 0.4]"
)
@click.option(
    "--strategy",
    type=click.Choice(["ddp", "fsdp"]),
    default="ddp",
    show_default=True,
    help="Reduce gradients (ddp), or shard and gather weights too (fsdp).",
)
@click.option("--tp", type=int, default=1, show_default=True, help="Tensor parallelism, in GPUs.")
@click.option("--pp", type=int, default=1, show_default=True, help="Pipeline stages.")
@click.option("--layers", type=int, default=0, help="Transformer layers of the model.")
@click.option("--hidden", type=int, default=0, help="Width of the activations between layers.")
@click.option(
    "--gpus-per-node", type=int, help="GPUs that share NVLink.  [default: as many as --rails, or 1]"
)
@click.option("--rails", type=int, help="RDMA ports per node.  [default: one for each GPU]")
@click.option(
    "--link-gbps", type=line_rate, help="Line rate of one rail: 400, 400G or NDR.  [default: 400]"
)
def sizing(**given: Any) -> int:  # noqa: ANN401 - click's values, by option
    """Derive what a training step needs from the fabric; print each number with its formula.

    A step is --parameters, --gpus, and --step-s or --gpu with --batch-tokens.
    """
    from rdmaprov.cli import explain_sizing_run

    for line in explain_sizing_run.answer(given):
        click.echo(line)
    return ExitCode.OK
