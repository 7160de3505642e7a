"""What makers wrote on NICs, cables and modules, or why it could not be read. Python 3.6.

Fillers are for others to judge. devlink has the VPD's texts, and of qede a part number instead.
"""

import os
import shutil
import subprocess
import time

from rdmaprov.node.devices import INFINIBAND, NET, PCI, below, pci_path, read
from rdmaprov.node.identity import clean

LIMIT_S = 10  # for a port that is up, mlxlink answers within 2 s
VPD_KEYS = {b"PN": "part", b"SN": "serial"}
# As `ethtool -m` calls them (SFF-8079, SFF-8636, CMIS), and `mlxlink -m`.
ETHTOOL = ["Vendor name", "Vendor PN", "Vendor SN", "Vendor rev", "Date code", "Connector"]
MLXLINK = ["Vendor Name", "Vendor Part Number", "Vendor Serial Number", "Rev"]
MLXLINK += ["Manufacturing Date", "Cable Type"]
WRITTEN = ["vendor", "part", "serial", "revision", "date", "type"]
MODULE_FIELDS = dict(zip(ETHTOOL + MLXLINK, WRITTEN + WRITTEN))  # noqa: B905 - Python 3.6
MODULE_KEYS = ("port", "read", "why", *WRITTEN)


def parse_vpd(data):
    """Return part and serial number of Vital Product Data [PCI 3.0, appendix I]; empty: none."""
    found, at = dict.fromkeys(VPD_KEYS.values(), ""), 0
    # A large item has a length of two bytes; what is not large ends them.
    while at + 3 <= len(data) and data[at] & 0x80:
        field, end = at + 3, at + 3 + data[at + 1] + 256 * data[at + 2]
        while data[at] == 0x90 and field + 3 <= min(end, len(data)):  # what nobody can write
            key, after = VPD_KEYS.get(data[field : field + 2]), field + 3 + data[field + 2]
            if key and not found[key] and after <= min(end, len(data)):
                value = data[field + 3 : after].decode("ascii", "replace")
                found[key] = clean(value.strip("\0 "))
            field = after
        at = end
    return found


def read_card(pci, root="/"):
    """Return part and serial number of the card that a PCI function is on."""
    try:
        with open(os.path.join(root, PCI, pci, "vpd"), "rb", buffering=0) as file:
            return dict(parse_vpd(file.read(4096)), why="")  # a card has some 300 bytes
    except OSError as error:  # a virtual function has none; one that is not valid is ENODEV
        return dict(parse_vpd(b""), why="its VPD: {}".format(error.strerror))


def ask_modules(rails, root="/"):
    """Start reading the modules of rails, all side by side; return what `read_modules` takes."""
    asked = []
    for number, rail in enumerate(rails):
        netdev = rail["netdev"]
        for port in (below(root, netdev) or [netdev]) if netdev else [""] if rail["rdma"] else []:
            way = pci_path(root, NET, port, "device") if port else []
            way = way or pci_path(root, INFINIBAND, rail["rdma"], "device")
            words = ["ethtool", "-m", port]
            if not port or read(root, NET, port, "type") == "32":  # IPoIB has no `ethtool -m`
                other = shutil.which("mstlink") and not shutil.which("mlxlink")
                words = ["mstlink" if other else "mlxlink", "-d", way[-1] if way else "", "-m"]
            asked.append((number, port or rail["rdma"], words, start(words) if way else ""))
    return asked, time.monotonic() + LIMIT_S


def start(words):
    """Start a command; return why it did not start if so."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        return subprocess.Popen(words, env=dict(os.environ, LC_ALL="C"), **pipes)
    except OSError as error:
        return "{}: {}".format(words[0], error.strerror)


def read_modules(asked, until):
    """Return the modules by the number of their rail; a tool that hangs is left alone."""
    found = {}
    for rail, port, words, running in asked:
        each = dict.fromkeys(MODULE_KEYS, "")
        each.update(port=clean(port), read=clean(" ".join(words)))
        found.setdefault(rail, []).append(each)
        if isinstance(running, str):
            each["why"] = running or "it is no PCI function"
            continue
        try:
            out = running.communicate(timeout=max(0.1, until - time.monotonic()))[0]
            each.update(parse_module(out.decode("utf-8", "replace")))
        except subprocess.TimeoutExpired:
            running.kill()  # and not waited for: it may hang in the kernel
            each["why"] = "no answer in {:g} s".format(LIMIT_S)
    return found


def parse_module(text):
    """Return what ethtool or mlxlink printed of a module; `why` if that has no field of it."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in MODULE_FIELDS:
            found.setdefault(MODULE_FIELDS[name.strip()], clean(value))
    why = clean((text.strip().splitlines() or ["no output"])[-1])
    # An ethtool that is older than the module prints its bytes.
    return found or {"why": "the tool prints bytes alone" if "Offset" in text else why}
