"""The kernel's log since the boot: what it tells of GPUs, NICs and the machine needs no hand."""

from contextlib import suppress

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, boot, devices, gpu, rails
from rdmaprov.facts.text import END, read_files, whole
from rdmaprov.inventory import Fleet, Node
from rdmaprov.kernel_log.reader import MATTERS, parse_log
from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.last_word import last_complete
from rdmaprov.validate.verdict import Setting, not_applicable, settle

pytestmark = pytest.mark.state

_WHERE = "journalctl -k -b"
_CUT = "rdmaprov-cut"
_HALF = 4_000_000  # bytes; a fleet's node has some 10,000 of lines that matter
_COMMAND = (
    f"{{ {_WHERE} -o short-monotonic --no-hostname --no-pager -q 2> /dev/null | grep -a . || "
    f"dmesg; }} | grep -aE '{MATTERS}' | {{ head -c {_HALF}; if read -r _; then echo; echo {_CUT};"
    f" tail -c {_HALF}; fi; }}; echo; echo {END}"
)


def test_gpus_need_no_hand(host: Host, node: Node, fleet: Fleet) -> None:
    """No error of a GPU or NVSwitch since the boot asks for a reset, a reboot or a look."""
    _require(host, node, fleet, "gpu.xid")


def test_nics_and_machine_need_no_hand(host: Host, node: Node, fleet: Fleet) -> None:
    """No fault of a NIC, PCIe, memory or the kernel since the boot asks for a reboot or a look."""
    _require(host, node, fleet, "node.fault")


def _require(host: Host, node: Node, fleet: Fleet, kind: str) -> None:
    done = host.run(_COMMAND)
    text = whole(done.stdout, _WHERE)
    if not text.strip() and done.stderr.strip():
        not_applicable(f"not verified: {done.stderr.strip().splitlines()[-1]}")
    log = parse_log(text)
    lines: dict[bool, list[str]] = {True: [], False: []}
    events = [each for each in log.judged() if each[0].meaning.finding == kind]
    names, repaired = _parts(host, node) if events else ({}, set())
    began_s, run = _last(host, node, fleet) if events else (0.0, "")
    for each, proven in events:
        if not (each.meaning.is_linked and each.device in repaired):
            part, name = names.get(each.device, each.device), "error that the kernel reports"
            age = "new since" if each.last_s > began_s else "known to"
            said = f"{each.phrase}, {age} run {run}" if run else each.phrase
            line = Setting(node, part, name, "", _WHERE, look=each.remedy).text(said, "none")
            lines[proven].append(line)
    settle(lines[True], lines[False])
    if log.lacks or _CUT in text:
        not_applicable(f"not verified: {log.lacks or 'the middle of the log was not read'}")


def _last(host: Host, node: Node, fleet: Fleet) -> tuple[float, str]:
    """Return the uptime as this boot's last complete validate began, and its run; else no run.

    What that reported and nobody repaired stays red: no run proves that a hand was lent.
    """
    of, began_s, run = last_complete(fleet.site, runs_directory()).get(node.name, ("", 0.0, ""))
    now = (read_files(host, boot.BOOT_ID).get(boot.BOOT_ID) or "").strip()
    return (began_s, run) if of and of == now else (0.0, "")


def _parts(host: Host, node: Node) -> tuple[dict[str, str], set[str]]:
    """Return what rails and GPUs are called, and the GPUs whose driver asks for nothing now."""
    names, repaired = {}, set()
    with suppress(CouldNotTell):
        for rail in node.rails:
            names[rails.port_of(devices.read(host), rail).pci] = f"rail {rail.index}"
    with suppress(CouldNotTell):
        for number, each in enumerate(gpu.read(host).gpus):
            names[each.address] = f"GPU {number}"
            if each.values.get("gpu recovery action") == "None":
                repaired.add(each.address)
    return names, repaired
