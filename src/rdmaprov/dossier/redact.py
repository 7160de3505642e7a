"""A dossier without what is nobody's business: users, jobs, other nodes, addresses, the site."""

import hashlib
import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Any

from rdmaprov.record.scrub import map_texts

# As the kernel, nvidia-smi, Slurm and ps write who it was.
_WHO = (
    (re.compile(r"(\bprocess(?:es)? )\d+(?:, [^\s();]+)?"), r"\1PROCESS"),
    (re.compile(r"(\bpid[ =']{1,2})'?\d+'?(?:, name=[^\s,;()]+)?"), r"\1PROCESS"),
    (re.compile(r"(?i)(\b(?:user|uid|account|owner)[ =:]{1,2})(?!of\b|is\b)[\w.@-]+"), r"\1USER"),
    (re.compile(r"(?i)(\bjob(?:id)?(?:[ =:#]{1,2}))(\d[\w.\[\]-]*)"), r"\1JOB"),
    (re.compile(r"(/home/|/users/|/u/)[^/\s,;:)]+"), r"\1USER"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "USER"),
)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?::\d{1,5})?(?![\d.])")
_IPV6 = re.compile(r"(?<![\w.:-])[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*[0-9A-Fa-f:](?:/\d{1,3})?(?![\w:-])")
_MAC = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:-])")
_DIGITS = re.compile(r"\d+\Z")


class Redaction:
    """Takes names and addresses out of texts; one node has one other name.

    Args:
        node: the node that keeps its name.
        nodes: of all runs.
        site: as the runs name it.
    """

    def __init__(self, node: str, nodes: Collection[str], site: str) -> None:
        # In an order that does not tell the names.
        others = sorted(
            set(nodes) - {node}, key=lambda name: hashlib.sha256(name.encode()).digest()
        )
        names = {name: f"peer-{number}" for number, name in enumerate(others, 1)}
        short = {name.partition(".")[0]: other for name, other in names.items()}
        short.pop(node.partition(".")[0], None)
        self._names = {**short, **names, **({site: "SITE"} if site else {})}
        longest = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._known = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest)})(?![\w-])")
        stems = {_DIGITS.sub("", name.partition(".")[0]) for name in nodes} - {""}
        ranges = "|".join(sorted(map(re.escape, stems), key=len, reverse=True))
        # Names that groups.fold_names has folded.
        self._folded = re.compile(rf"(?<![\w.-])(?:{ranges or '(?!)'})\[[\d,-]+\][\w.-]*")

    def text(self, text: str) -> str:
        """Return a text without them."""
        text = self._folded.sub("PEERS", text)
        text = self._known.sub(lambda found: self._names[found[0]], text)
        for pattern, instead in _WHO:
            text = pattern.sub(instead, text)
        return _IPV6.sub(_without_address, _IPV4.sub("ADDRESS", _MAC.sub("ADDRESS", text)))

    def data(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a document without them."""
        found: dict[str, Any] = map_texts(dict(document), self.text)
        return found


def _without_address(found: re.Match[str]) -> str:
    try:
        ipaddress.ip_interface(found[0])
    except ValueError:
        return found[0]
    return "ADDRESS"
