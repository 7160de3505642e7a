"""Where the vendor's RDMA drivers come from, and who vouches for them. Runs on the node."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from ..machine import Machine, NodeError
from ..packages import Manager
from ..packages.manager import Repository
from ..plan import Refused

_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_BLOCK = _BEGIN + r"\s*\n(.*?)-----END PGP PUBLIC KEY BLOCK-----"
_PUBLIC_KEY = 6
_VENDOR = "https://linux.mellanox.com/public/repo"
_KEYS = {
    "doca": f"{_VENDOR}/doca/GPG-KEY-Mellanox.pub",
    "mlnx_ofed": "https://www.mellanox.com/downloads/ofed/RPM-GPG-KEY-Mellanox",
}
# The primary keys of what these addresses serve, and the one that signs DOCA since January 2026.
# The first three: the copy of the vendor's file in
# https://github.com/Azure/AgentBaker/blob/main/parts/linux/cloud-init/artifacts/ubuntu/gb/doca.pub
# The last: https://github.com/Azure/AgentBaker/pull/9256, which compares it with the repository.
VENDORS_KEYS = (
    "B35DA2F24879E6493C9F1C8101048FA7A9E4B643",  # Mellanox Technologies, 2013
    "0DAED433E148394D18F3BA51C5ED83E26224C050",  # Mellanox Technologies, signing key v2
    "CAE649B3B3929F8470D4D33BA024F6F0E6D6A281",  # Mellanox Technologies, signing key v3
    "70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50",  # NVIDIA DOCA Host
)
STORE = "/var/lib/rdmaprov/ofed"
CANDIDATE_KEY = "/var/lib/rdmaprov/ofed-candidate.asc"
HEADER = "# Written by rdmaprov (ofed); changes here are lost.\n"
_URL = re.compile(r"(https?|file)://[^\s\[\]]+|/[^\s\[\]]+")


def fingerprints(text: str) -> list[str]:
    """Return the fingerprints of the primary keys in an armored file, in upper case.

    Raises:
        ValueError: it is no armored public key, or none of version 4, which apt and rpm take.
    """
    found = []
    for block in re.findall(_BLOCK, text.replace("\r", ""), re.S):
        found += [
            _fingerprint(body) for tag, body in _packets(_dearmor(block)) if tag == _PUBLIC_KEY
        ]
    if not found:
        raise ValueError("there is no armored OpenPGP public key in it")
    return found


def _dearmor(block: str) -> bytes:
    """Return an armored block's bytes.

    Header lines end with an empty one, and "=" begins the checksum.
    """
    headers, empty, body = block.partition("\n\n")
    if not empty or not all(": " in line for line in headers.split("\n") if line):
        body = block
    lines = [line.strip() for line in body.split("\n")]
    try:
        return base64.b64decode("".join(line for line in lines if not line.startswith("=")))
    except binascii.Error as error:
        raise ValueError("its armor is damaged") from error


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each packet's tag and body, by RFC 4880, section 4.2."""
    at = 0
    try:
        while at < len(data):
            head = data[at]
            if not head & 0x80:
                raise ValueError("it is damaged")
            if head & 0x40:
                tag, (length, at) = head & 0x3F, _new_length(data, at + 1)
            else:
                if head & 3 == 3:
                    raise ValueError("it has a packet without a length, which no key has")
                tag, octets = head >> 2 & 0x0F, 1 << (head & 3)
                length, at = int.from_bytes(data[at + 1 : at + 1 + octets], "big"), at + 1 + octets
            if at + length > len(data):
                raise ValueError("it is cut")
            yield tag, data[at : at + length]
            at += length
    except IndexError as error:
        raise ValueError("it is cut") from error


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 192:
        return first, at + 1
    if first < 224:
        return (first - 192 << 8) + data[at + 1] + 192, at + 2
    if first < 255:
        # Of data alone, section 4.2.2.4; read as a length, it would hide what follows.
        raise ValueError("it has a packet of partial length, which no key has")
    return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5


def _fingerprint(body: bytes) -> str:
    """Return a version 4 key's fingerprint, by RFC 4880, section 12.2."""
    if body[:1] != b"\x04":
        raise ValueError("its key is not of version 4")
    framed = b"\x99" + len(body).to_bytes(2, "big") + body
    return hashlib.sha1(framed).hexdigest().upper()  # noqa: S324 (the standard says so)


@dataclass(frozen=True)
class Origin:
    """What the site says of the packages' origin."""

    repository: Repository
    key_url: str  # where the key is; empty for an archive, which its checksum vouches for
    fingerprint: str
    archive: str  # URL of an archive; empty for a repository
    sha256: str


def site_origin(machine: Machine, manager: Manager, arguments: dict[str, Any]) -> Origin:
    """Return where the packages come from; raise Refused if that is not safe, or no place."""
    _check(arguments)
    sha256 = arguments["package_sha256"].lower()
    if arguments["package_url"]:
        local = Repository(f"file://{STORE}/{sha256}/repository", "")
        return Origin(local, "", "", arguments["package_url"], sha256)
    source = arguments["source"]
    url = arguments["repository_url"] or vendors_url(machine, source, arguments["version"])
    url = "file://" + url if url.startswith("/") else url
    key = arguments["repository_key_url"] or _KEYS[source]
    fingerprint = arguments["repository_key_fingerprint"].replace(" ", "").upper()
    return Origin(Repository(url, manager.key_file), key, fingerprint, "", "")


def vendors_url(machine: Machine, source: str, version: str) -> str:
    """Return the vendor's repository for the node's distribution and machine."""
    name, release, like = distribution(machine)
    if name not in ("debian", "ubuntu") and re.search("rhel|fedora", like or name):
        name = "rhel"
    if not release or name not in ("debian", "ubuntu", "rhel"):
        raise Refused(
            f"the vendor has no repository for {name or 'this distribution'} {release} "
            "(/etc/os-release); write ofed_repository_url"
        )
    if name == "rhel" and source == "doca" and not re.match(r"[12]\.|3\.[01](\.|$)", version):
        release = release.partition(".")[0]  # from 3.2 on, one repository serves rhel9
    machine_type = machine.run(["uname", "-m"]).strip()
    machine_type = {"aarch64": "arm64-sbsa"}.get(machine_type, machine_type)
    return f"{_VENDOR}/{source}/{version}/{name}{release}/{machine_type}/"


def distribution(machine: Machine) -> tuple[str, str, str]:
    """Return the node's distribution and its release, and what it is like; empty if unknown."""
    text = machine.read("/etc/os-release") or ""
    known: dict[str, str] = dict(
        re.findall(r"^(ID|VERSION_ID|ID_LIKE)=[\"']?([^\"'\n]*)[\"']?$", text, re.M)
    )
    return known.get("ID", ""), known.get("VERSION_ID", ""), known.get("ID_LIKE", "")


def key_problem(text: str | None, fingerprint: str) -> str:
    """Return what is wrong with a key's file, empty if nothing is.

    Args:
        text: of the file; None if there is none.
        fingerprint: of the only key in it; empty for keys of the vendor alone.
    """
    if text is None:
        return "absent"
    try:
        found = fingerprints(text)
    except ValueError as error:
        return str(error)
    right = found == [fingerprint] if fingerprint else set(found) <= set(VENDORS_KEYS)
    return "" if right else "key " + ", ".join(found)


def text(manager: Manager, origin: Origin) -> str:
    """Return the text of the repository's file; another key's URL makes it another one."""
    key = f"# Signed by {origin.key_url}\n" if origin.key_url else ""
    return f"{HEADER}{key}{manager.repository(origin.repository)}"


@contextlib.contextmanager
def candidate(machine: Machine, origin: Origin) -> Iterator[Repository]:
    """Provide the repository with the key that the site names, beside the one in force.

    Raises:
        NodeError: it is not the key with the fingerprint; nothing was written.
    """
    if not origin.key_url:
        yield origin.repository
        return
    key = text_of(origin.key_url)
    problem = key_problem(key, origin.fingerprint)
    if problem:
        wanted = origin.fingerprint or "a known key of the vendor; for another one, write its"
        name = "(ofed_repository_key_fingerprint)"
        name = name if origin.fingerprint else "ofed_repository_key_fingerprint"
        raise NodeError(
            f"{origin.key_url}: {problem}, expected {wanted} {name}; "
            "write the URL of the armored key that signs the repository"
        )
    machine.write(CANDIDATE_KEY, key)
    try:
        yield Repository(origin.repository.url, CANDIDATE_KEY)
    finally:
        machine.remove(CANDIDATE_KEY)


def keep(machine: Machine, manager: Manager, origin: Origin) -> None:
    """Have the candidate's key and file in force; the file last, as it names the key."""
    if origin.key_url:
        machine.write(origin.repository.key, machine.read(CANDIDATE_KEY) or "")
    machine.write(manager.repository_file, text(manager, origin))


def is_unpacked(machine: Machine, origin: Origin) -> bool:
    """Return whether the archive's repository is on the node: it is renamed there at the end."""
    return machine.exists(f"{STORE}/{origin.sha256}/repository")


def unpack(machine: Machine, origin: Origin) -> None:
    """Have the repository that an archive carries, whole or not at all.

    Raises:
        NodeError: the archive is another one, or carries none.
    """
    base = f"{STORE}/{origin.sha256}"
    shutil.rmtree(machine.path(base), ignore_errors=True)
    name = origin.archive.rpartition("/")[2]
    file(machine, origin.archive, origin.sha256, f"{base}/{name}")
    tree = f"{base}/tree"
    os.makedirs(machine.path(tree))
    path = machine.path(f"{base}/{name}")
    if name.endswith(".deb"):
        machine.run(["dpkg-deb", "-x", path, machine.path(tree)])
    else:
        if name.endswith(".rpm"):
            machine.run(["rpm2archive", path])  # makes a file beside it
            path += ".tgz"
        machine.run(["tar", "--no-same-owner", "-xf", path, "-C", machine.path(tree)])
    os.remove(machine.path(f"{base}/{name}"))
    found = _index(machine.path(tree))
    if not found:
        raise NodeError(f"{origin.archive}: there is no repository in it (Packages or repodata)")
    os.rename(found, machine.path(f"{base}/repository"))


def _index(root: str) -> str:
    for directory, directories, files in os.walk(root):
        if "repodata" in directories or {"Packages", "Packages.gz"} & set(files):
            return directory
    return ""


def _check(arguments: dict[str, Any]) -> None:
    for name in ("repository_url", "repository_key_url", "package_url"):
        if arguments[name] and not _URL.fullmatch(arguments[name]):
            raise Refused(
                f"ofed_{name}: '{arguments[name]}' is neither a URL nor a path; write "
                "https://... or file:///..."
            )
    for name, digits in (("package_sha256", 64), ("repository_key_fingerprint", 40)):
        value = arguments[name].replace(" ", "")
        if value and not re.fullmatch(rf"[0-9A-Fa-f]{{{digits}}}", value):
            raise Refused(f"ofed_{name}: '{value}' does not have {digits} hexadecimal digits")
    if arguments["package_url"] and arguments["repository_url"]:
        raise Refused("ofed_package_url: ofed_repository_url is set too; remove one of them")
    if arguments["package_url"] and not arguments["package_sha256"]:
        raise Refused("ofed_package_url: a file without ofed_package_sha256 is not verified")
    plain = arguments["repository_key_url"].startswith("http:")
    if plain and not arguments["repository_key_fingerprint"]:
        raise Refused(
            "ofed_repository_key_url: a key over http can be forged; write "
            "https://..., or ofed_repository_key_fingerprint"
        )


TIMEOUT_S = 60
SMALL_BYTES = 1 << 20
FILE_BYTES = 8 << 30  # the largest archive of MLNX_OFED has 1.3 GiB
FILE_TIMEOUT_S = 3600


def text_of(url: str) -> str:
    """Return a small file's text; raise NodeError if it cannot be read, or is not small."""
    try:
        with urllib.request.urlopen(_url(url), timeout=TIMEOUT_S) as source:  # noqa: S310
            data: bytes = source.read(SMALL_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NodeError(f"{url} cannot be read: {_reason(error)}") from error
    if len(data) > SMALL_BYTES:
        raise NodeError(f"{url} has more than {SMALL_BYTES} bytes; is the URL right?")
    return data.decode("utf-8", "surrogateescape")


def file(machine: Machine, url: str, sha256: str, name: str) -> None:
    """Have a file of the node's that is what its checksum says, whole or not at all.

    Raises:
        NodeError: it cannot be read or written, or it is another one.
    """
    path = machine.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".rdmaprov-", dir=os.path.dirname(path))
    try:
        with open(handle, "wb") as target:
            with urllib.request.urlopen(_url(url), timeout=TIMEOUT_S) as source:  # noqa: S310
                _copy(source, target)
            target.flush()
            os.fsync(target.fileno())
        seen = digest(temporary)
        if seen != sha256.lower():
            raise NodeError(
                f"{url} has SHA-256 {seen}, expected {sha256.lower()} "
                "(ofed_package_sha256); it was not installed"
            )
        os.replace(temporary, path)
    except (OSError, ValueError) as error:
        raise NodeError(f"{url} cannot be copied to {name}: {_reason(error)}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy a file, within limits: a server that trickles, or never ends, holds up a node."""
    end, size = time.monotonic() + FILE_TIMEOUT_S, 0
    for part in iter(lambda: source.read(1 << 20), b""):
        size += len(part)
        if size > FILE_BYTES:
            raise ValueError(f"it has more than {FILE_BYTES} bytes")
        if time.monotonic() > end:
            raise ValueError(f"it took more than {FILE_TIMEOUT_S} s")
        target.write(part)


def digest(path: str) -> str:
    """Return a file's SHA-256, in hexadecimal digits."""
    known = hashlib.sha256()
    with open(path, "rb") as source:
        for part in iter(lambda: source.read(1 << 20), b""):
            known.update(part)
    return known.hexdigest()


def _url(written: str) -> str:
    return "file://" + written if written.startswith("/") else written


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    code = getattr(error, "code", None)
    return f"{code} {reason}" if code else str(reason)
