"""The file of NCCL's example tuner plugin, which reads it without a word about what is wrong.

Of a collective that it does not know it makes allreduce, of an algorithm ring, of a protocol
simple; it leaves out a line with another number of fields, and cuts one after 255 characters.
[NCCL plugins/tuner/example/plugin.c: loadConfig, parseCollType, parseAlgorithm, parseProtocol]
Runs on the node.
"""

from __future__ import annotations

import re

from ..plan import Plan, Refused
from . import conf

PATH = "/etc/nccl_tuner.conf"
_COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")
_NUMBER = r"[0-9]{1,18}"
_ANY_OR = r"(?:-1|[0-9]{1,9})"
# Channels are 64 at most. [NCCL src/include/device.h: MAXCHANNELS]
_CHANNELS = r"(?:-1|[1-9]|[1-5][0-9]|6[0-4])"
_LINE = re.compile(
    rf"(?:{'|'.join(_COLLECTIVES)}),({_NUMBER}),({_NUMBER}),(?:{'|'.join(_ALGORITHMS)}),"
    rf"(?:{'|'.join(_PROTOCOLS)}),{_CHANNELS},{_ANY_OR},{_ANY_OR}(?:,{_ANY_OR}){{0,2}}"
)
_LONGEST, _MOST_BYTES = 255, 64 << 10
_PLUGIN = re.compile(r"/?[A-Za-z0-9_.+-]+(?:/[A-Za-z0-9_.+-]+)*")
_LONGEST_PLUGIN = 254  # [NCCL src/plugin/plugin_open.cc: MAX_STR_LEN]


def fault(text: str) -> str:
    """Return the first line that the plugin would not read as it looks; empty if there is none."""
    if len(text.encode("utf-8", "surrogateescape")) > _MOST_BYTES:
        return f"it has more than {_MOST_BYTES >> 10} KiB: leave out what no communicator matches"
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _LONGEST:
            return f"line {number} has more than {_LONGEST} characters: the plugin cuts it"
        if not line.isprintable():
            return f"line {number} has a character that does not print: write plain text"
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            return (
                f"line {number}, '{line[:80]}': write collective, bytes from, to, algorithm, "
                "protocol, channels, nodes, ranks[, pipe ops[, registered]] by commas, such as "
                "allreduce,0,65536,tree,ll128,16,4,32"
            )
        if int(found[1]) > int(found[2]):
            return f"line {number}, '{line[:80]}': the least bytes are more than the most"
    return ""


def plugin_fault(name: str) -> str:
    """Return why a name is none of a plugin; empty if it is one."""
    if len(name) <= _LONGEST_PLUGIN and _PLUGIN.fullmatch(name):
        return ""
    return f"'{name[:80]}' is no library's name or path: write one, such as example"


# nccl.conf and this file in enroot's containers, by its mounts.d or environ.d. Source:
# NVIDIA/enroot doc/configuration.md, conf/mounts, src/common.sh (envsubst, envfmt).
_ROOT = "/etc/enroot"
_FILES = {
    "mounts": f"{_ROOT}/mounts.d/90-rdmaprov-nccl.fstab",
    "environ": f"{_ROOT}/environ.d/90-rdmaprov-nccl.env",
}
_HEADER = "# Written by rdmaprov (nccl); changes here are lost.\n"
_OPTIONS = "none x-create=file,bind,ro,nosuid,nodev,noexec,private"


def containers(plan: Plan, kind: str, values: dict[str, str]) -> None:
    """Have enroot's containers get what nccl.conf says, or no file of ours.

    Raises:
        Refused: there is no enroot, or it would change a value.
    """
    for other, path in _FILES.items():
        if other != kind:
            plan.absent(path)
    if kind == "off":
        return
    if not plan.machine.exists(_ROOT):
        raise Refused(f"nccl_enroot: there is no {_ROOT}: install enroot first, or write off")
    if kind == "mounts":
        paths = [conf.PATH, *([PATH] if values.get("NCCL_TUNER_CONFIG_FILE") else [])]
        lines = [f"{path} {path} {_OPTIONS}" for path in paths]
    else:
        lines = [f"{name}={value}" for name, value in values.items()]
        odd = next((line for line in lines if "${" in line or PATH in line), "")
        if odd:
            raise Refused(f"nccl_enroot: environ does not carry {odd}: write mounts")
    plan.file(_FILES[kind], _HEADER + "".join(f"{line}\n" for line in lines))
