"""What a certificate beside the results says of its nodes: hardware and versions."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from rdmaprov.boundary import RIGHT
from rdmaprov.certificate.read import read_certificate
from rdmaprov.certificate.shape import STATEMENT
from rdmaprov.errors import UsageError
from rdmaprov.history.digest import Fact
from rdmaprov.node.standing import GPU_WORDS, MACHINE_WORDS, NIC_WORDS, VERSION_WORDS

ISSUED, UNTIL = "certificate", "certificate valid until"


def certificate_facts(path: Path, names: Collection[str]) -> list[Fact]:
    """Return what a certificate says of nodes; nothing if there is none, or it is damaged.

    A damaged one is for `rdmaprov certificate verify`; the results beside it stand for themselves.
    """
    if not path.is_file():
        return []
    try:
        _, statement = read_certificate(path)
    except UsageError:
        return []
    if STATEMENT(statement) is not RIGHT:
        return []
    predicate = statement["predicate"]
    facts = [Fact("", ISSUED, predicate["id"][:12]), Fact("", UNTIL, predicate["valid_until"])]
    for name, own in predicate["nodes"].items():
        if name in names:
            facts += [fact for fact in _of_node(name, own) if fact.value]
    return facts


def _of_node(name: str, own: Mapping[str, Any]) -> Iterator[Fact]:
    identity = own["identity"]
    yield Fact(name, "variables in the site", own["site_sha256"][:12])
    for key, word in MACHINE_WORDS.items():
        yield Fact(name, word, identity["machine"][key])
    for key, word in VERSION_WORDS.items():
        yield Fact(name, word, identity["versions"][key])
    for number, rail in enumerate(identity["rails"]):
        for key, word in NIC_WORDS.items():
            yield Fact(name, f"rail {number}: {word}", rail[key])
    for gpu in identity["gpus"]:
        for key, word in GPU_WORDS.items():
            yield Fact(name, f"GPU {gpu['pci']}: {word}", gpu[key])
