"""A rank whose collectives are not torch's own any more, by Python's own start-up hook."""

from pathlib import Path

# The body of `change` follows, indented. It may call torch's own by the names that are kept here.
RANK_HOOK = """\
import importlib.abc, os, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "agent.rank":
            sys.meta_path.remove(self)
            change()
if "RANK" in os.environ:
    sys.meta_path.insert(0, Finder())
def change():
    import time
    import torch.distributed as dist
    reduce, gather, calls = dist.all_reduce, dist.all_gather_into_tensor, []
"""
# A rank that waits for ever in Python itself, in its sweep.
HANG = """\
    def all_reduce(*words, **options):
        calls.append(1)
        if len(calls) == 40:
            time.sleep(36000)
        return reduce(*words, **options)
    dist.all_reduce = all_reduce
"""
# What follows makes the ranks of one node slow. Ten milliseconds of each hundred, as cpulimit does.
CPU_LIMIT = """\
    import signal
    rank = os.getpid()
    if os.fork() == 0:
        while os.getppid() == rank:
            os.kill(rank, signal.SIGSTOP)
            time.sleep(0.09)
            os.kill(rank, signal.SIGCONT)
            time.sleep(0.01)
        os._exit(0)
"""
# Eight times the work for each matrix, without a pause.
SLOW_CPU = """\
    import torch
    from torch.nn import functional
    multiply, layer = torch.matmul, functional.linear
    def repeated(work):
        def slow(*words, **options):
            for _ in range(7):
                work(*words, **options)
            return work(*words, **options)
        return slow
    torch.matmul, functional.linear = repeated(multiply), repeated(layer)
"""
SLOW_DATA = """\
    import torch
    make = torch.randint
    def randint(*words, **options):
        time.sleep(0.5)
        return make(*words, **options)
    torch.randint = randint
"""


def late_steps(seconds: float) -> str:
    """Return what waits in each step, and not while matrices are multiplied."""
    return f"""\
    from torch.nn import functional
    loss = functional.cross_entropy
    def cross_entropy(*words, **options):
        time.sleep({seconds})
        return loss(*words, **options)
    functional.cross_entropy = cross_entropy
"""


def hooked_python(directory: Path, python: str, source: str) -> Path:
    """Return an interpreter, made in a directory, that runs this source when it starts."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(source)
    hooked = directory / "python"
    hooked.write_text(f'#!/bin/sh\nPYTHONPATH={directory} exec {python} "$@"\n')
    hooked.chmod(0o755)
    return hooked
