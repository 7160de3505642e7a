"""Start what reads the counters of rails, beside a program and its keeper."""

import json
import os
import subprocess
import sys

from rdmaprov.node.hunt import follow_parent


def start_sampler(request, directory):
    """Start the sampler, if one is asked for; it ends with its keeper.

    It has no mark: it outlives the program, so that it has the counters until the very end.
    """
    if "sample" not in request:
        return
    path, nothing = os.path.join(directory, "sampler.py"), subprocess.DEVNULL
    words = [sys.executable, "-I", path, directory, json.dumps(request["sample"])]
    try:
        subprocess.Popen(
            words, stdin=nothing, stdout=nothing, stderr=nothing, preexec_fn=follow_parent
        )
    except OSError:
        pass  # there are no samples then, which the result says
