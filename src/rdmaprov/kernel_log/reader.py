"""A text of the kernel's log as events: what happened, to which device, when, what it asks for.

It reads what `dmesg` prints (with `-T`, `-d`, `-e`, `-H`, `-x`, `-r`, `-J`, `--time-format iso`),
what `journalctl -k` does in its short forms and as JSON, netconsole and /dev/kmsg, and lines of
/var/log/messages, with and without a host's name, as grep, pdsh, containers, terminals and mails
pass them on. A line of syslog counts if its tag is `kernel:`, so that no program can say what only
the kernel may say; of what root writes to /dev/kmsg, the note of a repair.
"""

from __future__ import annotations

import html
import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass, replace

from rdmaprov.kernel_log import catalogue
from rdmaprov.kernel_log.catalogue import CLEAR, IGNORE, RECOVERY, RESET, SEVERITY, UNKNOWN, Meaning
from rdmaprov.problem import printable

MOST_CHARACTERS = 8 << 20
MOST_EVENTS = 1000  # of different kinds or devices
_MOST_LINE, _MOST_RECORD = 1000, 32_000
_STAMP = (
    r"\[ *(?P<boot{0}>\d{{1,10}}\.\d{{1,9}})(?: <[ \d.]{{1,24}}>)?\]"
    r"|\[(?P<day{0}>\w{{3}} \w{{3}} [ \d]?\d \d\d:\d\d:\d\d (?:[A-Z]{{3,5}} )?\d{{4}})"
    r"(?: <[ \d.]{{1,24}}>)?\]"
    r"|\[(?P<near{0}>\w{{3}} ?\d\d? \d\d:\d\d)\]"
    r"|\[(?:<[ \d.]{{1,24}}>| *[+-]\d{{1,9}}[.,]\d{{1,9}})\]"
    r"|\[?(?:\w{{3}} )?(?P<iso{0}>\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]{{0,10}}"
    r"(?:Z|[+-]\d\d:?\d\d| [A-Z]{{3,5}}(?= ))?)\]?:?"
    r"|(?P<bsd{0}>(?:[A-Z]\w\w )?\w{{2,5}}\.? [ \d]?\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?(?: \d{{4}})?"
    r"|\d{{10}}\.\d{{1,9}})"
)
_HEAD = re.compile(
    # also in a mail, a list or JSON; of grep, pdsh, Talos, or behind a prompt of a serial console;
    # of a console that drops messages, netconsole, RFC 5424, the log of a container, and SONiC
    r"[ \t>|*`'\"+#;%•\ufeff]{0,20}+(?:- )?(?:msg\": ?\")?"
    r"(?:\d{1,9} +(?=[A-Z][a-z]{2} [ \d]\d \d\d:))?"
    r"(?:\[?[^\s\[<]{1,80}(?: login| [^\s\[\]]{1,64}\])?(?<=[\w~\]])[:#$\t-] {0,4}+"
    r"(?:\d{1,9}[:-])?"
    r"(?=\[ *\d|<\d|\[?\d{4}-\d\d-|\[?[A-Z][a-z]\w (?:\w{3} )?[ \d]\d \d\d:|kern *:))?"
    r"(?:\** ?\d{1,9} printk messages dropped \** ?)?"
    r"(?:(?:[\w.+-]{1,64},)?(?P<kmsg>\d{1,3}),\d{1,20},(?P<us>\d{1,16})(?:,[^;,]{0,80})*;)?"
    r"(?:<(?P<level>\d{1,3})> ?)?(?:1 (?=\d{4}-))?"
    r"(?:(?!kernel)(?P<facility>[a-z]{1,8}) {0,6}: {0,6}[a-z]{1,8} {0,6}: ?)?"
    rf"(?:(?:{_STAMP.format(1)}) ?)?(?:std(?:out|err) [FP] )?"
    r"(?P<tag> ?(?:[\w.:-]{1,253} )?(?:[A-Z]{3,7} |[a-z]{3,8}\.[a-z]{3,7} )?"
    r"kernel(?: - - -|:) ?| {0,4}kern {0,6}: {0,6}[a-z]{1,8} {0,6}: ?"
    r"|[\w.-]{1,253} (?=\[ {0,6}\d{1,9}\.\d))?"
    rf"(?:<\d>)?(?:(?:{_STAMP.format(2)}) ?)?(?:\[ *[TC]\d{{1,10}}\] ?)?"
)
# Any other head with a time in brackets: dates in other languages, two clocks; no word beside.
_LOOSE = re.compile(
    r"[ \t>|*`'\"+#;%•-]{0,8}+"
    r"(?:(?:[\[(<][^\[\]()<>\d]{0,24}+\d[^\[\]()<>]{0,40}+[\])>]:?"
    r"|(?:[^\W\d_]{1,5}+\.?,? ){0,2}+\d[\d:.,/+TZ-]{0,40}+)(?:[ \t]++)){1,6}+"
    r"(?:(?:[\w.-]{1,253} )?kernel: (?:\[ *[\d.]{3,20}\] ?)?)?"
)
_TIME = re.compile(r"\[[^]]*\d[:.]\d|kernel: ")
_COLOUR = re.compile(r"\x1b\[[\d;?]{0,20}[A-Za-z]")
_KERNELS = ("_TRANSPORT", "SYSLOG_IDENTIFIER", "ident", "appname", "facility", "fac")  # in JSON
_TEXTS = ("MESSAGE", "message", "msg", "log")
_CLOCKS = ("day1", "near1", "iso1", "bsd1", "day2", "iso2", "bsd2")
# What each line has that matters, for grep -E; the others cost next to nothing.
MATTERS = (
    "NVRM:? |SXid |mlx[45]_|bnxt_|nvidia-(nvswitch|uvm)|AER: |PCIe Bus Error|DPC: "
    "|[Mm]achine [Cc]heck|Hardware Error|EEH: |EDAC |Memory failure|[Mm]emory error|MCE(: | 0x)"
    "|NMI: (PCI|IOCK)|SError Int|[Tt]emperature|HARDWARE PROTECTION|emory: Kill|lockup|LOCKUP|stall"
    "|for more than|Oops: |BUG: ([Uu]nable|[Kk]ernel|Bad page|[a-zA-Z ]*stack)|Unable to handle"
    "|Unhandled (fault|prefetch)|Bad mode in Error|External Abort: "
    "|PANIC: |Internal error: |kernel BUG|Kernel panic|protection fault| \\[#[0-9]"
    "|recursive fault|nsufficient stack|Card not pre|Power fault|train link|Link Train"
    "|[Ll]ink (is |status (definitely )?)?([Dd]own|DOWN)|LINK_DOWN|without any active"
    "|Linux version |change power state|header type 7f|; giving up|Request device "
    "|AMD-Vi: (Event|Com)|VT-d detected Inv|arm-smmu-v3 |rdmaprov: |Nvlink Core is being"
    "|: probe (of|with driver) |: No (link|dev)|accessed poison"
    "|(nvidia|ib_|rdma_)[a-z_]*: (disagr|version m|Unknown s)|Version mismatch"
)
_MATTERS = re.compile(MATTERS)
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]{5,16})(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): "
    r"(?P<code>\d{1,5})\b"
    r"(?:, pid='?(?P<pid>\d{1,10})\b)?(?:'?, name=(?P<program>[^,]{1,64}))?"
)
_SXID = re.compile(
    r"nvidia-nvswitch\d{1,3}: SXid \(PCI:(?P<device>[0-9a-fA-F:.]{7,16})\): (?P<code>\d{1,6}), "
    r"(?!Severity \d|Data \{|.*\bdata\[)"
)
_RECOVERY = re.compile(r".*(?: to 0x[0-9a-f]{1,8} \(|: 154, (?=\w+ [\w ]+$))([\w ]{1,40})")
_SEVERITY = re.compile(r"\b(?:(Fatal)|Non-?fatal)\b")
_GPU = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]{7,16})")
_SENTENCES = ("gpu-lost", "gpu-unsupported")  # whose lines end what _GPU begins
_LINK_LOST = "sxid-20034"  # LTSSM Fault Up: the switch's end of a link whose GPU may be gone
_GONE = ("xid-79", "gpu-lost")
_PROBED = "gpu-probes"  # the end of a load in which some probe failed
_PROBE = ("gpu-probe", _PROBED)
# Of a driver's function, with no GPU or with its number; the last one of a fault names the GPU.
_STEPS = ("gpu-init", "gpu-gsp", "gpu-memory", "gpu-nvlink", "gpu-reset", *_PROBE)
_MUTE, _STUCK = "aer-mute", "aer-stuck"  # a recovery fails if the driver has none
_PROBES = ("gpu-lost", "gpu-bar", "gpu-unsupported")  # why a probe fails
_BEGINS, _BANNER = "driver-begins", "driver-loaded"
_AFTER = " s after boot"


@dataclass(frozen=True)
class LogEvent:
    """Equal events of a log; what the lines do not say is empty, and 0 for the pid."""

    meaning: Meaning
    device: str  # a PCI address, a network device, an mlx5_N, a memory controller
    via: str  # the PCI port that tells of the device; else the device
    first: str
    last: str
    pid: int = 0
    program: str = ""
    count: int = 1
    gbps: float = 0.0  # what the device's PCIe link carries, Gb/s; 0 if the line says nothing of it

    @property
    def phrase(self) -> str:
        """Return it in a few words, such as `0000:3b:00.0: Xid 79: the GPU has fallen off`."""
        name = re.sub(r"^(s?)xid-", lambda found: f"{found[1].upper()}Xid ", self.meaning.kind)
        begin = f"{self.first.removesuffix(_AFTER)} to " if self.first != self.last else ""
        who = f"{self.program} (pid {self.pid})" if self.program else ""
        lines = f"{self.count} lines" if self.count > 1 else ""
        parts = (f"{name}: {self.meaning.means}", who, lines, begin + self.last)
        return f"{self.device}{': ' if self.device else ''}{', '.join(filter(None, parts))}"

    @property
    def last_s(self) -> float:
        """Return the seconds from the boot to its last line; infinite where another clock tells."""
        found = self.last.removesuffix(_AFTER)
        return float(found) if found != self.last else math.inf

    @property
    def remedy(self) -> str:
        """Return what to do about it."""
        is_gpu = self.device and not self.meaning.kind.startswith("sxid-")
        option = f" -i {self.device}" if is_gpu else ""
        note = catalogue.NOTE.format(self.device) if self.device else ""
        own = catalogue.table()["remedies"].get(self.meaning.kind)
        remedy = own or catalogue.REMEDIES[self.meaning.action]
        return remedy.format(self.device or "the part", option, note)


@dataclass(frozen=True)
class KernelLog:
    """What a log tells: of the newest boot and not repaired since, before it, what was not read."""

    events: tuple[LogEvent, ...]
    history: tuple[LogEvent, ...]
    lacks: str

    def asking(self, *actions: str) -> list[LogEvent]:
        """Return the live events that ask for one of some actions."""
        return [event for event in self.events if event.meaning.action in actions]

    def judged(self) -> list[tuple[LogEvent, bool]]:
        """Return live events that need a hand, then unknown ones; whether each is proven."""
        wrong = [(event, True) for event in self.asking(*catalogue.HANDS)]
        return wrong + [(event, False) for event in self.asking(UNKNOWN)]


def parse_log(text: str) -> KernelLog:
    """Return what a text of the kernel's log tells; it may be a stranger's, and of any size."""
    cut = max(0, len(text) - MOST_CHARACTERS)
    if cut:
        text = f"{text[: MOST_CHARACTERS // 2]}\n{text[-MOST_CHARACTERS // 2 :]}"
    reading = _Reading()
    for line in text.split("\n"):  # a message may have form feeds and the like
        if _MATTERS.search(line):
            reading.add_line(_unwrapped(line[:_MOST_RECORD])[:_MOST_LINE])
    lacks = "" if reading.begins else "the log does not begin with the boot"
    if reading.dropped:
        lacks = f"{reading.dropped:,} events beyond {MOST_EVENTS:,} are left out"
    if cut:
        lacks = f"{cut:,} characters in the middle of the log were not read"
    return KernelLog(tuple(reading.live.values()), tuple(reading.past), lacks)


class _Reading:
    """Events while lines are read."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str, str], LogEvent] = {}
        self.past: list[LogEvent] = []
        self.begins = False
        self.dropped = 0
        self.gpu = ""  # of `NVRM: The NVIDIA GPU`, which the lines behind it complete
        self.is_mute = False  # whether the next recovery on PCIe fails for lack of one
        self.loads = False  # whether the driver is being loaded, and its banner comes
        # As kept of `live`, which a stranger's log may fill: whether a GPU that needs a hand is
        # named, and whether steps of a fault are there whose GPU is not.
        self.is_named = self.has_steps = False

    def add_line(self, line: str) -> None:
        head = _HEAD.match(line)
        if head is None:
            return
        message = line[head.end() :]
        is_note = (head["level"] or head["facility"]) and message.startswith("rdmaprov: ")
        if not is_note and not _is_kernels(head):
            message = ""
        tried = head.end() if message else -1
        if message.startswith("Linux version "):
            self.begins = True
            self._end(("",), "")
        elif message and (found := self._meaning(message)) is not None:
            self._add(*found, _when(head))
        elif (
            (other := _LOOSE.match(line))
            and other.end() != tried
            and _TIME.search(other[0])
            and (found := self._meaning(line[other.end() :])) is not None
        ):
            self._add(*found, printable(other[0].strip(" \t>|*`'\"")))

    def _meaning(self, message: str) -> tuple[Meaning, dict[str, str]] | None:
        if found := _XID.match(message):
            number = int(found["code"])
            unknown = Meaning(f"xid-{number}", UNKNOWN, "NVIDIA's catalogue gives it no action")
            meaning = catalogue.xids().get(number, unknown)
            return _settled(meaning, message), found.groupdict("")
        if found := _SXID.match(message):
            meaning = Meaning(f"sxid-{found['code']}", SEVERITY, "error of an NVSwitch")
            return _settled(meaning, message), found.groupdict("")
        if found := _GPU.match(message):
            self.gpu = found[1]
        for pattern, meaning in catalogue.rows():
            if found := pattern.match(message):
                groups = found.groupdict("")
                is_rest = meaning.kind in _SENTENCES and "[NV_ERR" not in message
                if is_rest and not any(groups.values()):
                    groups["device"] = self.gpu
                return meaning, groups
        return None

    def _add(self, meaning: Meaning, groups: dict[str, str], when: str) -> None:
        via = _device(groups.get("device", ""))
        device = _device(groups.get("device2", "")) or via
        if meaning.kind == _STUCK and self.is_mute:
            meaning = replace(meaning, action=IGNORE, means=f"{meaning.means}: its driver cannot")
        if meaning.kind.startswith("aer-"):
            self.is_mute = meaning.kind == _MUTE
        if meaning.action == CLEAR:
            if meaning.clears and not (meaning.kind == _BANNER and self.loads):
                self._end(meaning.clears, device)
            self.loads = meaning.kind == _BEGINS or (self.loads and meaning.kind != _BANNER)
            return
        if meaning.kind == "gpu-lost" and not device and self._has(_GONE):
            return  # of a GPU that is named already
        self.loads |= meaning.kind == _PROBED  # then those before it are of the same load
        if meaning.kind in _STEPS and not device:
            if self.is_named:
                return
            self.has_steps = True
        if meaning.kind == _LINK_LOST and self._has(_GONE):
            meaning = replace(meaning, action=IGNORE, means="a link went down with its GPU")
        if meaning.kind in _PROBE and self._has(_PROBES, device or None):
            return  # it is said why
        if detail := printable(groups.get("detail", "")):
            meaning = replace(meaning, means=f"{meaning.means}: {detail}")
        key = (meaning.kind, device, meaning.action)
        if _names_bad_gpu(*key):
            self.is_named = True
            if self.has_steps:  # which led to it
                self.has_steps = False
                self.live = {key: each for key, each in self.live.items() if not _is_step(each)}
        if (before := self.live.get(key)) is not None:
            self.live[key] = replace(before, count=before.count + 1, last=when)
        elif len(self.live) >= MOST_EVENTS:
            self.dropped += 1
        else:
            program = printable(groups.get("program", "").strip(" '`<>")[:64])
            pid = int(groups.get("pid", "")[:10] or 0)
            gbps = float(groups.get("gbps") or 0)
            self.live[key] = LogEvent(meaning, device, via, when, when, pid, program, gbps=gbps)

    def _has(self, kinds: tuple[str, ...], device: str | None = None) -> bool:
        """Return whether one of these kinds is live, on a device, or if that is None, on any."""
        return any(kind in kinds and device in (None, of) for kind, of, _ in self.live)

    def _end(self, kinds: tuple[str, ...], device: str) -> None:
        """Make history of live events of these kinds: on a device or on none, or if empty, all."""
        for key, event in [*self.live.items()]:
            is_its = not event.device or device in ("", event.device, event.via)
            if key[0].startswith(kinds) and is_its:
                del self.live[key]
                self.past = [*self.past, event][-MOST_EVENTS:]
        self.is_named = any(_names_bad_gpu(*key) for key in self.live)


def _unwrapped(line: str) -> str:
    """Return a line without what terminals, web pages and collectors of logs put around it."""
    line = _COLOUR.sub("", line).strip("\r\0")
    if line.lstrip()[:2] in ('{"', "{ "):
        with suppress(ValueError, RecursionError):
            return _of_record(json.loads(line))
    return html.unescape(line) if "&" in line else line


def _of_record(record: dict[str, object]) -> str:
    """Return the line of a record; without the kernel's mark, it must begin as dmesg's do."""
    text = next((text for key in _TEXTS if isinstance(text := record.get(key), str)), "")
    mark = next((record[key] for key in _KERNELS if key in record), "")
    if mark in ("kernel", "kern"):
        clock = str(record.get("__REALTIME_TIMESTAMP", ""))
        return f"{clock[:10]}.{clock[10:16]} kernel: {text}" if len(clock) == 16 else text
    return text if text.startswith(("[", "<")) else ""


def _settled(meaning: Meaning, message: str) -> Meaning:
    """Return a meaning with the action that its line says, where lines do."""
    if meaning.action == SEVERITY:
        found = _SEVERITY.search(message)
        action = UNKNOWN if found is None else RESET if found[1] else IGNORE
        return replace(meaning, action=action)
    if meaning.action == RECOVERY:
        found = _RECOVERY.match(message)
        words = found[1] if found else ""
        action = catalogue.table()["recovery"].get(words, UNKNOWN)
        means = f"{meaning.means} to '{words}'"
        ends = ("xid-", "gpu-init", "gpu-reset")
        return replace(meaning, action=action, means=means, clears=ends)
    return meaning


def _is_kernels(head: re.Match[str]) -> bool:
    """Return whether the kernel wrote a line: syslog and `dmesg --decode` have others', too."""
    if int(head["level"] or head["kmsg"] or 0) > 7 or head["facility"] not in (None, "kern"):
        return False
    # dmesg alone has a comma in its time, and no tag behind it.
    is_syslog = head["bsd1"] or (head["iso1"] and "," not in head["iso1"])
    return bool(head["tag"] or head["facility"] or head["boot2"]) or not is_syslog


def _is_step(event: LogEvent) -> bool:
    """Return whether a line tells of a step of a fault, and not of which GPU."""
    return event.meaning.kind in _STEPS and not event.device


def _names_bad_gpu(kind: str, device: str, action: str) -> bool:
    return bool(device) and kind.startswith(("gpu-", "xid-")) and action in catalogue.HANDS


def _when(head: re.Match[str]) -> str:
    clock = next(filter(None, (head[name] for name in _CLOCKS)), "")
    boot = head["boot1"] or head["boot2"] or int(head["us"] or 0) / 1e6
    return clock or (f"{float(boot):.0f}{_AFTER}" if boot else "")


def _device(text: str) -> str:
    """Return a device as sysfs has it."""
    parts = text.lower().split(":")
    if len(parts) == 2:
        parts = ["0000", *parts]
    if len(parts) != 3:
        return text
    domain = parts[0].lstrip("0").rjust(4, "0")
    return f"{domain}:{parts[1][-2:]}:{parts[2] if '.' in parts[2] else parts[2] + '.0'}"
