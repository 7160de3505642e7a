"""States that nodes signed by themselves → what each one proves; no node is asked.

`rdmaprov.node.bundle` writes and signs them; docs/pull-fleet.md says what counts.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rdmaprov.boundary import OddAnswer, fields, integer, mapping_to, message, number, parse_file
from rdmaprov.boundary import text as text_of
from rdmaprov.certificate.known_hosts import KnownHosts, NoHostKey
from rdmaprov.certificate.ssh_signature import NotSigned, key_of
from rdmaprov.drift import collection
from rdmaprov.drift.arguments import Arguments
from rdmaprov.inventory import Fleet
from rdmaprov.inventory.site_files import site_digest
from rdmaprov.node import bundle as program
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.fleet import FleetTargets
from rdmaprov.problem import printable
from rdmaprov.runs.directory import STAMP
from rdmaprov.runs.files import read_whole
from rdmaprov.runs.last_word import FAILED, PASSED, STALE, UNKNOWN, Word, last_words
from rdmaprov.words import duration, some

_CLOCKS_S = 300  # our choice: how far a node's clock may be ahead
_MOST_S = 221_845_392_000  # the year 9000
_VERDICTS = {
    program.PROVEN: (PASSED, ""),
    "failed": (FAILED, "proof.failed"),
    "pending": (FAILED, "proof.pending"),
    "unknown": (UNKNOWN, "proof.unknown"),
}
_ENVELOPE = fields({"signed": text_of(most=program.MOST_STATE), "signature": text_of(most=8192)})
_STATE = fields(
    {
        "rdmaprov_state": integer(program.STATE_VERSION, program.STATE_VERSION),
        "node": text_of(most=255),
        "number": integer(1, 1 << 53),
        **dict.fromkeys(("site", "bundle", "code"), text_of("[0-9a-f]{64}")),
        "boot_id": text_of("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        **dict.fromkeys(("ended", "uptime_s"), number(_MOST_S)),
        "verdict": text_of("|".join(_VERDICTS)),
        "why": message,
        "roles": mapping_to(fields(dict.fromkeys(("state", "kind", "why"), message)), most=256),
    }
)


@dataclass(frozen=True)
class Proof:
    """What a node's state proves.

    Args:
        state: PASSED: proven; FAILED: not as the site describes it, by its own word; UNKNOWN.
        kind: of the finding; empty if the node is proven.
        boot_id: with uptime (s) and age (s), only of what is known to be the node's own word.
    """

    node: str
    state: str = UNKNOWN
    kind: str = ""
    why: str = ""
    boot_id: str = ""
    uptime_s: float = 0.0
    age_s: float = 0.0

    @property
    def text(self) -> str:
        """Return it as one line: the verdict, its reason, the age and the boot."""
        word = {"proof.pending": "pending", "": "proven"}.get(self.kind, self.state)
        said = f"{word}: {self.why}" if self.why else word
        if self.boot_id:
            said += f" ({duration(max(self.age_s, 0))} old, boot {self.boot_id})"
        return printable(said)


def judge_states(fleet: Fleet, directory: Path, max_age_h: float) -> list[Proof]:
    """Return what the states in a directory prove of each node of a fleet, as things are now."""
    words = last_words(fleet.site, [node.name for node in fleet.nodes])
    return States(fleet, words, max_age_h * 3600, time.time()).judge(directory)


class _Odd(Exception):
    """Why a node is unknown: the kind of the finding, and the reason."""


class States:
    """Judges the states of a fleet's nodes, one file NODE.state for each.

    Args:
        words: the last word of the site's runs about each node.
        max_age_s: of an older state, the node is unknown.
        now: s since 1970, by this machine's clock.
    """

    def __init__(
        self, fleet: Fleet, words: Mapping[str, Word], max_age_s: float, now: float
    ) -> None:
        self._words, self._max_age_s, self._now = words, max_age_s, now
        self._names = [node.name for node in fleet.nodes]
        self._targets, self._known = FleetTargets(fleet), KnownHosts()
        self._roles = Arguments(fleet, ()).roles
        self._site = site_digest(fleet.site)
        self._code = hashlib.sha256(collection.archive()).hexdigest()

    def judge(self, directory: Path) -> list[Proof]:
        """Return what is proven of each node of the fleet, in its order."""
        owners: dict[str, list[int]] = {}
        found: list[Proof] = []
        for place, name in enumerate(self._names):
            proof, key = self.judge_node(name, directory / f"{name}.state")
            found.append(proof)
            owners.setdefault(key or name, []).append(place)
        # Who is root on one of them can sign for all.
        for own in (each for each in owners.values() if len(each) > 1):
            why = f"one host key signed the states of {some([found[n].node for n in own], 2)}"
            for place in own:
                found[place] = Proof(found[place].node, UNKNOWN, "proof.signer", why)
        return found

    def judge_node(self, name: str, path: Path) -> tuple[Proof, str]:
        """Return what is proven of a node, and the host key that signed it, empty if none did."""
        proof, key = Proof(name), ""
        try:
            said, key = self._authenticate(name, path)
            age_s = self._now - said["ended"]
            proof = Proof(name, UNKNOWN, "", "", said["boot_id"], said["uptime_s"], age_s)
            self._require_current(name, said, age_s)
        except _Odd as error:
            kind, why = error.args
            return replace(proof, kind=kind, why=why), key
        state, kind = _VERDICTS[said["verdict"]]
        return replace(proof, state=state, kind=kind, why=said["why"]), key

    def _authenticate(self, name: str, path: Path) -> tuple[dict[str, Any], str]:
        """Return what a node says, and with which host key it signed that.

        Raises:
            _Odd: there is no file, or the node did not say what it has.
        """
        most = program.MOST_STATE
        try:
            envelope = parse_file(read_whole(path, most), most, _ENVELOPE, unique=True)
            signed = envelope["signed"].encode()
            said: dict[str, Any] = parse_file(signed, most, _STATE, unique=True)
            if said["node"] != name:
                raise _Odd("proof.node", f"the file is the state of {said['node']}")
            key = key_of(signed, envelope["signature"], program.STATE_NAMESPACE)
            if not self._known.has(self._targets.of(name), key):
                raise _Odd("proof.signer", "known_hosts does not have the key that signed it")
        except FileNotFoundError:
            raise _Odd("proof.missing", f"no NODE.state in {path.parent}") from None
        except OSError as error:
            raise _Odd("proof.damaged", f"damaged: {error.strerror}") from error
        except OddAnswer as error:
            why = str(error).replace("its answer", "it")
            raise _Odd("proof.damaged", f"damaged: {why}") from error
        except NotSigned as error:
            raise _Odd("proof.unsigned", str(error)) from error
        except (NoHostKey, NodeUnreachable) as error:
            raise _Odd("proof.signer", f"its host key: {error}") from error
        return said, key

    def _require_current(self, name: str, said: Mapping[str, Any], age_s: float) -> None:
        """Raise if a node's state is not of the site as it is, of this boot, and of late.

        Raises:
            _Odd: why.
        """
        bundle, hours = f"its bundle {said['number']}", self._max_age_s / 3600
        if said["site"] != self._site:
            why = f"{bundle} is of another site ({said['site'][:12]}), or of this one as it was"
            raise _Odd("proof.site", why)
        if said["code"] != self._code:
            raise _Odd("proof.bundle", f"{bundle} has roles of another version than these")
        if age_s > self._max_age_s:
            raise _Odd("proof.stale", f"it is too old; the limit is {hours:g} h (--max-age)")
        if age_s < -_CLOCKS_S:
            raise _Odd("proof.stale", f"its clock is {duration(-age_s)} ahead of this one")
        if since := _since(self._words.get(name), said):
            raise _Odd("proof.stale", since)
        lacks = sorted(self._roles - said["roles"].keys())
        if said["verdict"] == program.PROVEN and lacks:
            raise _Odd("proof.bundle", f"{bundle} lacks roles: {some(lacks, 3)}")


def _since(word: Word | None, said: Mapping[str, Any]) -> str:
    """Return what a run knows that is newer than what a node says; empty if none does."""
    is_newer = False
    if word is not None and word.boot_id == said["boot_id"]:
        is_newer = word.state == STALE and word.uptime_s > said["uptime_s"]
    elif word is not None and (word.boot_id or word.state in (FAILED, STALE)):
        is_newer = word.run[:15] > time.strftime(STAMP, time.localtime(said["ended"]))
    return f"{word.run} saw another boot, or changed it, since" if word and is_newer else ""
