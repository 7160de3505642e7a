"""rdmaprov-node: apply this node's bundle, or say whether the node is proven. Python 3.6 to start.

One file, for the image of a node, beside the public keys of those who may sign bundles. It is no
part of a bundle: nothing of one is believed or run before its signature is verified.
"""

import argparse
import base64
import glob
import hashlib
import importlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time

OK, FAILED, USAGE, UNKNOWN, PENDING = 0, 1, 2, 4, 5  # as the exit codes of rdmaprov
PROVEN = "proven"
CODES = {PROVEN: OK, "configured": OK, "failed": FAILED, "unknown": UNKNOWN, "pending": PENDING}
NAMESPACE = "rdmaprov-bundle"
STATE_NAMESPACE = "rdmaprov-state"
VERSION = STATE_VERSION = 1  # of bundles, and of states
BUNDLE, SIGNERS = "/etc/rdmaprov/bundle", "/etc/rdmaprov/signers"
STATE = "/var/lib/rdmaprov/state.json"
SIGNED_STATE = "/var/lib/rdmaprov/state.signed"
HOST_KEYS = "/etc/ssh/ssh_host_*_key"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SERIAL = "/sys/class/dmi/id/product_serial"
BOOTED = "/run/systemd/system"  # sd_booted(3)
MOST_BYTES, MOST_STATE = 16 << 20, 64 << 10
MOST_WHY = 300  # characters: with all reasons, whatever they have, a state is not larger
LIMIT_S = 60
PYTHON = (3, 8)  # of what a bundle has


class NotTaken(Exception):
    """Why a bundle is not applied, and the exit code."""

    def __init__(self, why, code=FAILED):
        super().__init__(why)
        self.code = code


def read(path, most=MOST_BYTES):
    """Return what a file has that only root can change."""
    try:
        with open(path, "rb") as file:
            own = os.fstat(file.fileno())
            data = file.read(most + 1)
    except OSError as error:
        raise NotTaken("{}: {}".format(path, error.strerror), UNKNOWN)
    if own.st_uid not in (0, os.geteuid()) or own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotTaken("{}: users other than root can change it".format(path))
    if len(data) > most:
        raise NotTaken("{}: it is too large".format(path))
    return data


def read_envelope(path):
    """Return the text of a bundle, and its signature; nothing of them is verified."""
    data = read(path)
    try:
        document = json.loads(data.decode())
        return document["signed"].encode(), document["signature"].encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotTaken("{}: it is damaged, or no bundle".format(path))


def ask(words, data):
    """Return how ssh-keygen ended, and what it said."""
    words = ["ssh-keygen", "-Y", *words]
    pipe = subprocess.PIPE
    try:
        done = subprocess.run(words, input=data, stdout=pipe, stderr=pipe, timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotTaken("ssh-keygen: {}".format(error), UNKNOWN)
    return done.returncode, done.stdout.decode("utf-8", "replace").splitlines()


def verify(path, text, signature, signers):
    """Refuse a text that none of the allowed signers signed as a bundle."""
    read(signers)
    with tempfile.NamedTemporaryFile() as file:
        file.write(signature)
        file.flush()
        _, names = ask(["find-principals", "-s", file.name, "-f", signers], b"")
        for name in ",".join(names).split(","):
            words = ["-f", signers, "-I", name, "-n", NAMESPACE, "-s", file.name]
            if ask(["verify", *words], text)[0] == 0:
                return
    raise NotTaken("{}: its signature is of no key in {}, or of another text".format(path, signers))


def open_bundle(given):
    """Return a bundle that is verified and this node's."""
    text, signature = read_envelope(given.bundle)
    verify(given.bundle, text, signature, given.signers)
    bundle = json.loads(text.decode())
    if bundle.get("rdmaprov_bundle") != VERSION:
        raise NotTaken("{}: it is no bundle of version {}".format(given.bundle, VERSION))
    wanted, own = bundle["node"], given.node or socket.gethostname()
    is_mine = is_same_name(wanted, own)
    if bundle["machine_serial"] and not given.layer:
        wanted, own = bundle["machine_serial"], read(SERIAL).decode("utf-8", "replace").strip()
        is_mine = wanted == own
    if not is_mine:
        what = "{}: it is for {}, and this is {}"
        raise NotTaken(what.format(given.bundle, wanted, own))
    bundle["bundle"] = hashlib.sha256(text).hexdigest()
    bundle["code"] = hashlib.sha256(base64.b64decode(bundle["archive"])).hexdigest()
    return bundle


def is_same_name(one, other):
    """Return whether two host names are equal, one of them with its domain or both without."""
    parts = [each.lower().split(".") for each in (one, other)]
    return parts[0] == parts[1] or (1 in map(len, parts) and parts[0][0] == parts[1][0])


def require_new(path, bundle, before):
    """Refuse a bundle that is older than the one that was applied."""
    number, applied = bundle["number"], before.get("number", 0)
    if number < applied:
        what = "{}: it is older (number {}) than what was applied (number {})"
        raise NotTaken(what.format(path, number, applied))
    if number == applied and bundle["bundle"] != before["bundle"]:
        raise NotTaken("{}: another bundle with its number {} was applied".format(path, number))


def read_state(root=""):
    """Return what the last run left; nothing if there was none."""
    if not os.path.lexists(root + STATE):
        return {}
    try:
        return dict(json.loads(read(root + STATE).decode()))
    except (ValueError, TypeError, RecursionError):
        raise NotTaken("{}: it is damaged; remove it to begin anew".format(STATE), UNKNOWN)


def write_state(state):
    """Keep a state, and what a controller needs of it, signed; each whole or not at all."""
    os.makedirs(os.path.dirname(STATE), exist_ok=True)
    if "verdict" in state:
        signed = sign_state(state)
        state["unsigned"] = "" if signed["signature"] else "its state cannot be signed"
        write(SIGNED_STATE, json.dumps(signed))
    write(STATE, json.dumps(state, indent=1))


def write(path, text):
    """Write a file that only root can read, whole or not at all."""
    new = "{}.{}.new".format(path, os.getpid())
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.rename(new, path)


def sign_state(state):
    """Return what a controller needs of a state, and its signature by a host key of the node."""
    names = ("node", "number", "site", "bundle", "code", "boot_id", "verdict", "why")
    own = {name: state.get(name, "") for name in names}
    own.update(rdmaprov_state=STATE_VERSION, ended=state.get("ended", state.get("began", 0)))
    own.update(uptime_s=state.get("uptime_s", 0), why=own["why"][:MOST_WHY])
    own["roles"] = {
        role: {"state": each["state"], "kind": each["kind"], "why": each["why"][:MOST_WHY]}
        for role, each in state["roles"].items()
    }
    text = json.dumps(own, sort_keys=True)
    for key in sorted(glob.glob(HOST_KEYS), key=lambda path: "ed25519" not in path):
        try:
            code, lines = ask(["sign", "-q", "-f", key, "-n", STATE_NAMESPACE], text.encode())
        except NotTaken:
            continue
        if code == 0:
            return {"signed": text, "signature": "\n".join(lines)}
    return {"signed": text, "signature": ""}


def is_booted():
    """Return whether systemd started what is here, which is then no chroot."""
    try:
        is_whole = os.path.samestat(os.stat("/proc/1/root/."), os.stat("/."))
    except OSError:
        return False
    return is_whole and os.path.isdir(BOOTED)


def require(given):
    """Refuse what cannot be applied in this place, or by this user."""
    if os.geteuid():
        raise NotTaken("root is required", USAGE)
    if not os.path.exists("/proc/self/fd"):
        raise NotTaken("/proc is not mounted here", UNKNOWN)
    if given.layer and given.reboot:
        raise NotTaken("--reboot: an image does not run", USAGE)
    if not given.layer and not is_booted():
        what = "systemd did not start what is here: to build an image, add --layer configured"
        raise NotTaken(what, USAGE)
    if sys.version_info < PYTHON:
        what = (
            "Python {0[0]}.{0[1]} is too old: install 3.8 or newer, such as python3.11 of AppStream"
        )
        raise NotTaken(what.format(sys.version_info), UNKNOWN)


def apply(given):
    """Apply the bundle; return the exit code and a line."""
    require(given)
    before = {} if given.layer else read_state()
    try:
        bundle = open_bundle(given)
        require_new(given.bundle, bundle, before)
    except NotTaken as error:
        if not given.layer:
            write_state(dict(before, refused={"why": str(error), "at": time.time()}))
        raise
    archive = os.memfd_create("bundle")
    with open(archive, "wb", closefd=False) as file:
        file.write(base64.b64decode(bundle["archive"]))
    sys.path.insert(0, "/proc/self/fd/{}".format(archive))
    machine = importlib.import_module(bundle["package"] + ".machine")
    pull = importlib.import_module(bundle["package"] + (".image" if given.layer else ".pull"))
    options = {"reboots": given.reboot, "force": given.force_busy, "save": write_state}
    try:
        if given.layer:
            state = dict(bundle, **pull.configure(pull.Image(), bundle["arguments"]))
        else:
            state = pull.Pull(bundle, before, **options).run()
    except machine.NodeError as error:
        raise NotTaken(str(error), UNKNOWN)
    return CODES[state["verdict"]], describe(state)


def describe(state):
    """Return a state as a line."""
    named = "bundle {} of site {}".format(state["number"], state["site"][:12])
    said = [state["why"], state.get("unsigned"), named]
    return "{}: {}".format(state["verdict"], "; ".join(filter(None, said)))


def check(given):
    """Return the exit code and a line: whether this boot was proven for the bundle that is here."""
    return judge(read_state(), given.bundle)[::2]


def judge(state, bundle, root=""):
    """Return the exit code, the kind of reason and a line: what a state proves of this boot."""
    text, _ = read_envelope(root + bundle)
    with open(root + BOOT_ID) as file:
        boot = file.read().strip()
    if state.get("bundle") != hashlib.sha256(text).hexdigest():
        why, its = state.get("refused", {}).get("why", ""), bundle + ": "
        if why.startswith(its):
            return FAILED, "refused", "no proof: " + why
        return FAILED, "not_applied", "no proof: " + its + "it was not applied"
    if state["boot_id"] != boot:
        return FAILED, "boot", "no proof: {}: it was not applied in this boot".format(bundle)
    return OK if state["verdict"] == PROVEN else FAILED, state["kind"], describe(state)


def parse(words):
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="rdmaprov-node", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.required = True
    for verb in (apply, check):
        own = verbs.add_parser(verb.__name__, help=verb.__doc__.splitlines()[0])
        own.set_defaults(verb=verb)
        own.add_argument("bundle", nargs="?", default=BUNDLE, help="[default: %(default)s]")
        if verb is apply:
            own.add_argument("--signers", default=SIGNERS, help="[default: %(default)s]")
            own.add_argument("--node", help="this node's name in the site  [default: host name]")
            own.add_argument("--reboot", action="store_true", help="reboot if that is required")
            own.add_argument("--force-busy", action="store_true", help="interrupt its users")
            layer = "set only what a boot reads, in an image that is built in a chroot"
            own.add_argument("--layer", choices=["configured"], help=layer)
    return parser.parse_args(words)


def main():
    """Run a verb; return the exit code. Whatever goes wrong in this program is unknown, never 1."""
    given = parse(sys.argv[1:])
    try:
        code, line = given.verb(given)
    except NotTaken as error:
        code, line = error.code, "error: {}".format(error)
    except Exception as error:
        code, line = UNKNOWN, "error: {}: {}".format(type(error).__name__, error)
    line = "".join(each if " " <= each <= "~" else "?" for each in line)
    print(line, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
