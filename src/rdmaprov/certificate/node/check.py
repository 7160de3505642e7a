"""Say whether the certificate of this node is valid: one line, and the exit code 0, 1 or 4.

An acceptance left this program, and /var/lib/rdmaprov/certificate.json, which it reads. It needs
Python 3.6 and root, changes nothing, and asks nobody: neither a network nor Slurm. Tests pass the
directory in which they have /sys, /proc and the files.
"""

import sys

from rdmaprov.node.standing import UNKNOWN, check_node

try:
    CODE, LINE = check_node(*sys.argv[1:2])
    print(LINE, flush=True)
except Exception:  # a reader that went, say: not this node's fault
    CODE = UNKNOWN
sys.exit(CODE)
