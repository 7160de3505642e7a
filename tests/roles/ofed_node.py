"""What runs the role ofed on a made-up node."""

from pathlib import Path
from typing import Any

from plugins.module_utils.converge import converge
from plugins.module_utils.roles import ofed
from tests.roles.apt_node import DOCA, MLNX, AptNode
from tests.roles.fake import given

FIXTURES = Path(__file__).parents[1] / "fixtures" / "openpgp"
FINGERPRINT = "1775AF9104C401000799F1DA1747D561560BDC66"
STALE = "/var/lib/rdmaprov/ofed-initramfs"  # the mark that an initramfs is to be made anew
KEY = str(FIXTURES / "ed25519.asc")


def arguments(source: str = "doca", **changed: object) -> dict[str, Any]:
    versions = {"doca": "3.1.0", "mlnx_ofed": "24.10-1.1.4.0", "inbox": "", "keep": ""}
    own = {
        "source": source,
        "version": versions[source],
        "repository_url": {"doca": DOCA, "mlnx_ofed": MLNX, "inbox": "", "keep": ""}[source],
        "repository_key_url": KEY,
        "repository_key_fingerprint": FINGERPRINT,
    }
    return given("ofed", **{**own, **changed})


def run(node: AptNode, source: str = "doca", **changed: object) -> dict[str, Any]:
    return converge(node, ofed, arguments(source, **changed), check=False)


def devices(result: dict[str, Any]) -> list[str]:
    return [change["device"] for change in result["changes"]]
