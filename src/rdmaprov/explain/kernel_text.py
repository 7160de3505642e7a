"""What a text of the kernel's log shows: what needs a hand, and what needs none."""

from rdmaprov.explain.model import GivenText, Shown
from rdmaprov.finding.finding import Finding
from rdmaprov.kernel_log.catalogue import IGNORE
from rdmaprov.kernel_log.reader import parse_log
from rdmaprov.words import quantity

_SLOT = (
    "compare LnkCap and LnkSta of both ends (lspci -vv), the seat and the BIOS; of a slot that is"
    " wired so, the site says it: waive rails.slot"
)

_MOST = 20  # lines of what needs no hand


def read(given: GivenText) -> Shown:
    """Return what a log shows; it proves that nothing is wrong only from the boot on."""
    log = parse_log(given.text)
    notes = [each.phrase for each in log.asking(IGNORE) if not each.gbps]
    says = [*notes[:_MOST], *([f"{len(notes) - _MOST:,} more"] if len(notes) > _MOST else [])]
    if log.history:
        says.append(f"{quantity(len(log.history), 'event')} before a boot, a reset or a recovery")
    findings = [
        Finding(each.meaning.finding, each.phrase, each.remedy, part=each.device, proven=proven)
        for each, proven in log.judged()
    ]
    findings += [
        Finding("link.pcie", each.phrase, _SLOT, part=each.device, proven=False)
        for each in log.events
        if each.gbps
    ]
    proves = "" if log.lacks or findings else "nothing since the boot needs a hand"
    lacks = (f"the rest: {log.lacks}",) if log.lacks else ()
    return Shown("kernel-log", (given.name,), tuple(says), tuple(findings), proves, lacks, (log,))
