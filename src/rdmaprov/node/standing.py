"""Whether a node still is what its certificate says: expired, replaced or changed. Python 3.6.

A part that was replaced or is missing, or a refusal, is known to be wrong. What runs out, or comes
to all nodes with an update (the date, kernel, drivers, firmware), only has to be proven again.

The file that an acceptance leaves has `signed`, the text that the node countersigned, and its
`signature`, which is empty where the node could not; or `refused`, why a later one refused it.
"""

import calendar
import json
import os
import stat
import time

from rdmaprov.node.identity import clean, read_identity

VALID, INVALID, UNKNOWN = 0, 1, 4  # as the exit codes of rdmaprov
FILE = "var/lib/rdmaprov/certificate.json"
PROGRAM = "usr/local/lib/rdmaprov/certificate"
HEALTH = "usr/local/lib/rdmaprov/health-check"
MOST_BYTES = 1 << 20
# As of the preflight: no two clocks of a fleet are further apart.
SKEW_S = 2
# From this share of its time on, a certificate says that it is due; our choice.
DUE = 0.8
# What an update brings to a whole fleet; of a part, as its versions are.
UPDATED = frozenset(["bios", "firmware", "vbios"])
MACHINE_WORDS = {
    "vendor": "machine's vendor",
    "product": "machine's model",
    "serial": "machine's serial number",
    "uuid": "machine's UUID",
    "board_serial": "mainboard's serial number",
    "bios": "BIOS version",
}
NIC_WORDS = {"guid": "GUID of its NIC", "board": "board of its NIC", "firmware": "NIC firmware"}
GPU_WORDS = {"uuid": "UUID", "model": "model", "vbios": "video BIOS", "firmware": "firmware"}
VERSION_WORDS = {
    "kernel": "kernel",
    "system": "operating system",
    "nvidia": "NVIDIA driver",
    "amdgpu": "amdgpu driver",
    "mlx5": "mlx5 driver",
}


def seconds_of(text):
    """Return a time such as 2026-11-23T08:00:00Z in seconds since 1970."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def differences(was, now):
    """Return what was replaced between two identities, what was updated, and what is unknown.

    Each is a text that names the part, what it was and what it is.
    """
    found, updated, unknown = lists = [], [], []
    _compare("", MACHINE_WORDS, was["machine"], now["machine"], *lists)
    for index, (old, new) in enumerate(zip(was["rails"], now["rails"])):  # noqa: B905 - Python 3.6
        if not new["rdma"] and not new["netdev"]:
            name = old["pci"] or old["netdev"] or old["rdma"]
            found.append("rail {}: the NIC {} is not there".format(index, name))
            continue
        _compare("rail {}: ".format(index), NIC_WORDS, old, new, *lists)
    if len(was["rails"]) != len(now["rails"]):
        found.append("it had {} rails, now {}".format(len(was["rails"]), len(now["rails"])))
    _compare_gpus(was["gpus"], now["gpus"], *lists)
    _compare("", VERSION_WORDS, was["versions"], now["versions"], updated, updated, unknown)
    return lists


def _compare(where, words, old, new, found, updated, unknown):
    """Add to the lists what two parts do not have in common."""
    for key, word in words.items():
        one, other = old[key], new[key]
        if one == other:
            continue
        if one and (not other or "??" in other):
            unknown.append("{}{} was {}, and cannot be read now".format(where, word, one))
        elif "??" not in one:
            which = updated if key in UPDATED else found
            which.append("{}{} was {}, is {}".format(where, word, one or "not there", other))


def _compare_gpus(was, now, found, updated, unknown):
    there = {each["pci"]: each for each in now}
    for old in was:
        where = "GPU {}".format(old["pci"])
        new = there.pop(old["pci"], None)
        if new is None:
            moved = [each["pci"] for each in now if each["uuid"] and each["uuid"] == old["uuid"]]
            text = "it is now at {}".format(moved[0]) if moved else "it is not there"
            found.append("{}: {}".format(where, text))
        else:
            _compare(where + ": ", GPU_WORDS, old, new, found, updated, unknown)
    known = {each["uuid"] for each in was}
    for address, new in there.items():
        if new["uuid"] not in known:
            found.append("GPU {}: it is new".format(address))


def read_left(root="/"):
    """Return the file that an acceptance left here, and why there is none that can be trusted."""
    path = os.path.join(root, FILE)
    try:
        with open(path, "rb") as file:
            own = os.fstat(file.fileno())
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return None, "{}: {}".format(path, error.strerror)
    if own.st_uid not in (0, os.geteuid()) or own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return None, "{}: users other than root can change it".format(path)
    if len(data) > MOST_BYTES:
        return None, "{}: it is too large".format(path)
    try:
        document = json.loads(data.decode())
        if document.get("refused"):
            return {"refused": clean(document["refused"])}, ""
        signed = json.loads(document["signed"])
        seconds_of(signed["valid_until"])
        seconds_of(signed["issued"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, "{}: it is damaged: {}".format(path, clean(str(error)))
    return signed, ""


def check_node(root="/"):
    """Return the exit code, and one line: until when this node is valid, or why it is not.

    Nothing that goes wrong here is a node's fault: it is unknown then.
    """
    try:
        signed, why = read_left(root)
        if signed is None:
            return UNKNOWN, "unknown: " + why
        if "refused" in signed:
            return INVALID, "not valid: the last acceptance refused this node: " + signed["refused"]
        identity = read_identity(signed["own"]["described"], root)
        return judge(signed, identity, time.time())
    except (KeyError, TypeError, AttributeError) as error:
        return UNKNOWN, "unknown: the certificate is damaged: {}".format(clean(str(error)))
    except Exception as error:
        said = "{}: {}".format(type(error).__name__, error)
        return UNKNOWN, "unknown: the check failed: {}".format(clean(said))


def judge(signed, identity, now):
    """Return the exit code, and the line, of what was signed and what is there now.

    Raises:
        KeyError, TypeError, AttributeError: what was signed is not of that shape.
    """
    until, issued = signed["valid_until"], signed["issued"]
    found, updated, unknown = differences(signed["own"]["identity"], identity)
    if now > seconds_of(until):
        updated.insert(0, "expired at {}".format(until))
    if now + SKEW_S < seconds_of(issued):
        unknown.insert(0, "issued at {}, which this clock has yet to reach".format(issued))
    if found:
        return INVALID, clean_line("not valid: " + "; ".join(found + updated))
    if updated:
        return UNKNOWN, clean_line("proof needed again: " + "; ".join(updated + unknown))
    if unknown:
        return UNKNOWN, clean_line("unknown: " + "; ".join(unknown))
    share = share_of_time(signed, now)
    due = "; accept again soon: {:.0%} of its time is over".format(share) if share >= DUE else ""
    return VALID, clean_line("valid until {}{}".format(until, due))


def share_of_time(signed, now):
    """Return which share of a certificate's time is over; 1 or more once it expired."""
    issued, until = seconds_of(signed["issued"]), seconds_of(signed["valid_until"])
    return (now - issued) / max(until - issued, 1)


def clean_line(text):
    """Return a text as one line of printable ASCII."""
    return "".join(each if " " <= each <= "~" else "?" for each in text)
