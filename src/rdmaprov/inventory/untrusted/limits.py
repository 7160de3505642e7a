"""How much of a stranger's site is read; docs/security.md has the table.

rdmaprov is made for up to 10,000 nodes. With eight rails written out for each of them, a site has
10,000 files, or one of 5 MB, and 480,000 values.
"""

from __future__ import annotations

from rdmaprov.inventory.site_files import MOST_BYTES

MOST_HOSTS = 10_000
MOST_GROUPS = 5_000  # racks of two nodes
MOST_GROUPS_ABOVE = 32  # groups that a group is in: region, building, room, row, rack
MOST_MEMBERSHIPS = 10 * MOST_HOSTS  # hosts named in groups
MOST_FILES = 25_000  # one for each host and each group, twice
MOST_DIRECTORIES_DEEP = 4  # group_vars/GROUP/a/b
MOST_FILE_BYTES = MOST_BYTES
MOST_SITE_BYTES = 4 * MOST_BYTES
MOST_VALUES = 500_000  # keys included, each alias counted in full
MOST_HOST_VALUES = 2_000_000  # of all hosts together, after groups are merged: 200 for each host
MOST_TEXT = 16_384  # characters of one value: a certificate chain
MOST_NAME = 128  # characters of a variable's name
MOST_ITEMS = 256  # of a variable that rdmaprov has; a node has 32 rails at most
MOST_PROBLEMS = 1_000  # that are printed
# What remains is cut off by the kernel.
MOST_CPU_S = 60
MOST_MEMORY_BYTES = 500 * 1000 * 1000
