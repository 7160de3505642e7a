"""How an acceptance reaches its nodes: ssh, a step of a Slurm job, or a site's own command.

Each gives one shell on each node, over which everything else runs: the preflight, the supervisor
that starts ranks, and the questions while they run.
"""

LAUNCHERS = ("ssh", "slurm", "command")
# Of them, those whose shells are steps of a scheduler's job: it has an image, and a drained or
# reserved node gets none.
IN_JOBS = ("slurm",)
