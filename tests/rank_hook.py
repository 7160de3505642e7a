"""A rank whose collectives are not torch's own any more, by Python's own start-up hook."""

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
