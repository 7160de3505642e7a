"""The files of the role pcie."""

from __future__ import annotations

DESCRIPTION = "/etc/rdmaprov/pcie.json"
RULE = "/etc/udev/rules.d/99-rdmaprov-pcie.rules"
PROGRAM = "/usr/local/lib/rdmaprov/pcie"
