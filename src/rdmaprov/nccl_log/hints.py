"""Lines of an NCCL log that say why NCCL did, or did not, use something."""

from __future__ import annotations

import re

from rdmaprov.nccl_log.events import Hint

_HINTS = {
    "ib_disabled": rb"NCCL_IB(?:EXT)?_DISABLE set by environment to [1-9]",
    "net": rb"NCCL_NET set by environment to \S+",
    "ib_hca": rb"NCCL_IB_HCA set (?:by environment )?to \S+",
    "no_device": rb"NET/IB : No device found",
    "no_library": rb"Failed to open libibverbs",
    "plugin_failed": rb"(?:Failed to initialize NET|External network) plugin \S+",
    "no_module": rb"NET/\S+ ?: GPU Direct RDMA Disabled for HCA \d+ '[^']+'",
    # src/graph/paths.cc, to 2.29; with a prefix to 2.7.
    "distance": rb"(?:NET/IB : )?GPU Direct RDMA Disabled for GPU \S+ / HCA \S+ \(distance [^)]+\)",
    "gdr_level": rb"NCCL_NET_GDR_LEVEL set by environment to \S+",
    "gdr_read": rb"NCCL_NET_GDR_READ set by environment to \S+",
    # Reduction by the switches: NCCL src/init.cc, src/transport.cc; nccl-rdma-sharp-plugins
    # src/sharp_plugin.c.
    "collnet": rb"NCCL_COLLNET_ENABLE set by environment to \d+",
    "collnet_nodes": rb"Communicator has \d+ nodes which is less than CollNet node threshold \d+",
    "collnet_failed": rb"Cannot initialize CollNet, using [^\n]{1,40}",
    "collnet_devices": rb"Rank \d+: 0 CollNet devices",
    "sharp_init": rb"(?:NET/IB ?: ?)?SHARP coll init error: [^\n]{1,80}",
    "sharp_group": rb"SHARP group create(?: failed)?: [^\n]{1,80}",
    "sharp_size": rb"SHARP: Group size:\d+ is less than threshold:\d+",
    "sharp_types": rb"SHARP(?:: unsupported data type| \S+ Datatypes not supported)",
}
# A tuner plugin by versions: 2.19 and 2.20; 2.21 to 2.27; 2.28 and later (src/plugin/tuner.cc,
# src/plugin/plugin_open.cc); then the example plugin of its file (plugins/tuner/example/plugin.c).
_HINTS |= {
    "tuner": rb"Using tuner plugin: '[^']+'|TUNER/Plugin: Using (?!internal)(?:tuner plugin )?\S+"
    rb"|Successfully loaded external tuner plugin \S+",
    "no_tuner": rb"Tuner: (?:no plugin found|plugin load|failed to find) .{1,200}"
    rb"|TUNER/Plugin: (?!Failed to find ncclTunerPlugin_v[3-9]|Plugin name set|NCCL_TUNER_PLUGIN "
    rb"set|Closing tuner|Using (?!internal)).{1,200}|External tuner plugin \S+ is unsupported",
    "tuner_file": rb"TUNER/ExamplePlugin: (?:Loaded \d+ tuning configurations from \S+"
    rb"|Config file \S+ not found|No valid configurations found in \S+)",
}
_HINT = re.compile(b"|".join(b"(?P<%s>%s)" % (k.encode(), v) for k, v in _HINTS.items()))


def parse_hint(message: bytes) -> Hint | None:
    """Return what a message says of the choice of a transport, None if it is no such message."""
    found = _HINT.match(message)
    if found is None or found.lastgroup is None:
        return None
    return Hint(found.lastgroup, found[0].decode(errors="replace"))
