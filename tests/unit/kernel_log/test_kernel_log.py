"""The reader of the kernel's log, on published lines, in all forms, on a stranger's text."""

import re
from hashlib import sha256
from pathlib import Path

import pytest
from tests.tables import cases

from rdmaprov.kernel_log import catalogue
from rdmaprov.kernel_log.catalogue import HANDS
from rdmaprov.kernel_log.reader import MOST_CHARACTERS, MOST_EVENTS, parse_log

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1582259, name=nvc:[driver], GPU has fallen off the bus."
KINDS = {"lines": 40, "apart": 21, "blind": 8, "near": 7, "unseen": 50, "unseen-again": 23}
KINDS |= {"third": 50, "fourth": 50, "fourth-seen": 50, "fifth": 45, "sixth": 37}
BOOT = "[    0.000000] Linux version 6.8.0-60-generic\n"
SLOT = "mlx5_core 0000:43:00.0: {} Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link"


@pytest.mark.parametrize(
    ("number", "read"), [("63.008", [63.008]), ("6.3.0", []), ("9" * 400, []), (".", []), ("", [])]
)
def test_rate_of_a_slot_is_a_number_or_no_event(number, read):
    assert [each.gbps for each in parse_log(SLOT.format(number)).events] == read


def published(name):
    rows = (FIXTURES / f"kernel_log/{name}.txt").read_text().splitlines()
    return [row.split("\t", 3) for row in rows if row[0] not in "#="]


def said(text):
    log = parse_log(text)
    events = [*log.events, *log.history]
    return [(each.meaning.action, each.meaning.kind, each.device or "-") for each in events]


@pytest.mark.parametrize(("name", "kinds"), KINDS.items())
def test_published_lines_are_read(name, kinds):
    for action, kind, device, line in published(name):
        assert said(line) == ([] if action == "none" else [(action, kind, device)])
    assert len({row[1] for row in published(name)}) >= kinds


def test_messages_of_the_sources_are_read():
    rows = (FIXTURES / "kernel_log/source.tsv").read_text().splitlines()
    for _, expected, line, _ in (row.split("\t") for row in rows):
        assert [" ".join(each[:2]) for each in said(line)] == [expected] * (expected != "-")


def test_line_that_names_the_gpu_takes_the_steps_of_its_fault_with_it():
    step = "[11.2] NVRM: GPU0 kgspBootstrap_TU102: Failed to boot GSP."
    xid = "[11.3] NVRM: Xid (PCI:0000:3b:00): 119, Timeout after 6s of waiting for RPC"
    for lines in ([step, xid], [xid, step], [step, xid, step]):
        (event,) = parse_log("\n".join(lines)).events
        assert event.device == "0000:3b:00.0"
    assert [at for _, _, at in said(f"{step}\n[12.1] {SICK}\n")] == ["-", "0000:5e:00.0"]


def test_lines_have_sixty_sources_of_which_a_third_is_kept_apart():
    files = {name: (FIXTURES / f"kernel_log/{name}.txt").read_text() for name in ("lines", "blind")}
    of = {name: re.findall(r"(?m)^= (\S+)$", text) for name, text in files.items()}
    assert all(int(sha256(each.encode()).hexdigest(), 16) % 3 == 0 for each in of["blind"])
    assert len({each.split("/blob/")[0] for each in (*of["lines"], *of["blind"])}) >= 60


def test_unseen_lines_are_of_other_sources():
    text = {path.stem: path.read_text() for path in (FIXTURES / "kernel_log").glob("*.txt")}
    sources = {name: set(re.findall(r"(?m)^= (.+)$", each)) for name, each in text.items()}
    least = {"sixth": 130, "fifth": 170, "fourth": 200, "third": 130}
    least |= {"unseen-again": 50, "unseen": 100}
    for name, count in least.items():
        own = sources.pop(name)
        assert len(own) >= count
        assert not own & set.union(*sources.values())


@pytest.mark.parametrize("head", cases(__file__, "form_of_a_line"))
def test_form_of_a_line(head):
    (event,) = parse_log(f"x\n{head}{LOST}\r\ny\n").events
    assert (event.meaning.action, event.meaning.kind) == ("reboot", "xid-79")
    assert (event.device, event.pid, event.program) == ("0000:3b:00.0", 1582259, "nvc:[driver]")
    assert bool(event.first) == bool(head)


@pytest.mark.parametrize("part", ["GPU-I:05", "GPU-I:01 GPU-CI:02"])  # kernel_rc.c of the driver
def test_xid_of_a_part_of_a_gpu(part):
    (event,) = parse_log(LOST.replace("3b:00", f"3b:00 {part}")).events
    assert (event.meaning.kind, event.device, event.pid) == ("xid-79", "0000:3b:00.0", 1582259)


@pytest.mark.parametrize(("first", "line"), cases(__file__, "wrapped_line"))
def test_line_is_read_as_others_pass_it_on(first, line):
    (event,) = parse_log(f"x\n{line.replace('@', LOST)}\ny\n").events
    assert (event.meaning.kind, event.device, event.first) == ("xid-79", "0000:3b:00.0", first)


@pytest.mark.parametrize("line", cases(__file__, "program_says"))
def test_what_a_program_says_is_no_event(line):
    assert said(line.replace("@", LOST)) == []


def test_equal_events_are_one():
    lines = [f"[{at}.5] {LOST}" for at in (10, 20, 30)] + [f"[40.5] {LOST.replace('3b', '3c')}"]
    first, other = parse_log("\n".join(lines)).events
    assert (first.count, first.first, first.last) == (3, "10 s after boot", "30 s after boot")
    assert first.phrase == (
        "0000:3b:00.0: Xid 79: the GPU has fallen off the bus, nvc:[driver] (pid 1582259), 3 lines,"
        " 10 to 30 s after boot"
    )
    assert (other.count, other.device) == (1, "0000:3c:00.0")


GSP = "NVRM: Xid (PCI:0000:3b:00): 119, pid=7, name=a, Timeout after 6s of waiting for RPC"
SICK = "mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): device's health compromised - reached miss"
CHANGED = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required)"
)


@pytest.mark.parametrize(("fault", "end", "is_over"), cases(__file__, "repaired"))
def test_what_was_repaired_is_history(fault, end, is_over):
    log = parse_log(f"[10.1] {fault}\n{end}\n")
    assert bool(log.history) is is_over
    assert bool(log.asking(*HANDS)) is not is_over


@pytest.mark.parametrize(("line", "action"), cases(__file__, "action_of_a_line"))
def test_action_of_a_line(line, action):
    assert [each[0] for each in said(line)] == [action]


@pytest.mark.parametrize(("event", "lines"), cases(__file__, "event_of_a_line").items())
def test_event_of_a_line(event, lines):
    found = {line: [" ".join(each) for each in said(line)] for line in lines}
    assert found == {line: [event] * bool(event) for line in lines}


@pytest.mark.parametrize(("note", "is_over"), cases(__file__, "note_of_a_repair"))
def test_root_says_that_a_device_was_repaired_by_hand(note, is_over):
    faults = (GSP, LOST, SICK.replace("5e", "3b"), "NVRM: Xid (PCI:0000:3b:00): 54, power")
    before = "".join(f"[ 10.{n}] {each}\n" for n, each in enumerate(faults))
    log = parse_log(f"{BOOT}{before}{note}\n")
    assert (len(log.history), len(log.asking(*HANDS))) == ((4, 0) if is_over else (0, 4))
    again = parse_log(f"{BOOT}{before}{note}\n[ 30.1] {GSP}\n")
    assert "119" in " ".join(each.phrase for each in again.asking(*HANDS))


def test_remedy_says_how_to_note_a_repair_in_words_that_the_reader_reads():
    (event,) = parse_log(f"[ 10.1] {GSP}").events
    note = event.remedy.partition("echo ")[2].partition(" > /dev/kmsg")[0]
    assert parse_log(f"[ 10.1] {GSP}\n[ 20.1] {note}\n").events == ()
    (nameless,) = parse_log("[ 10.1] NVRM: pci_enable_device failed, aborting").events
    assert "nvidia-smi -r, or" in nameless.remedy
    assert "/dev/kmsg" not in nameless.remedy
    (mismatch,) = parse_log("NVRM: API mismatch: the client 'nvidia-smi' (pid 7)").events
    assert (mismatch.pid, mismatch.program) == (7, "nvidia-smi")
    assert "in one version" in mismatch.remedy


def loads():
    """Return each block of loads.txt: what is live behind it, and its text."""
    _, *blocks = re.split(r"(?m)^= \S+\n", (FIXTURES / "kernel_log/loads.txt").read_text())
    for block in blocks:
        lines = block.splitlines(keepends=True)
        live = [tuple(line.split()[1:]) for line in lines if line[:2] == ": "]
        yield live, "".join(line for line in lines if line[:2] != ": ")


def live_of(text):
    return [(e.meaning.action, e.meaning.kind, e.device or "-") for e in parse_log(text).events]


@pytest.mark.parametrize(("live", "text"), [*loads()])
def test_fault_of_a_load_outlives_its_banner_and_ends_with_the_next_load(live, text):
    assert live_of(text) == live
    ends = [
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 235",
        "mlx5_core 0000:01:00.0: firmware version: 28.43.2026",
    ]
    assert live_of(f"{text}\n{ends[0]}\n{ends[1]}\n") == []


@pytest.mark.parametrize(("lines", "action"), cases(__file__, "recovery_that_fails"))
def test_driver_without_a_recovery_is_not_stuck(lines, action):
    assert {each.meaning.action for each in parse_log("\n".join(lines)).events} >= {action}
    asking = parse_log("\n".join(lines)).asking(*HANDS)
    assert bool(asking) is (action != "ignore")


def test_reset_that_the_driver_asked_for_ends_with_the_reset():
    asked = "NVRM: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62)"
    assert live_of(f"{asked}\n{CHANGED} to 0x0 (None)") == []
    assert live_of(f"{LOST}\nNVRM: Assertion failed: [NV_ERR_GPU_IS_LOST]") == [
        ("reboot", "xid-79", "0000:3b:00.0")
    ]


def test_lines_that_end_a_sentence_have_its_device():
    text = "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system\n"
    assert said(f"{text}NVRM: fallen off the bus and is not responding to commands.\n") == [
        ("reboot", "gpu-lost", "0000:b3:00.0")
    ]


def test_healthy_boot_is_silent_and_faults_of_programs_need_no_hand():
    log = parse_log((FIXTURES / "kernel/h200-boot-whole.txt").read_text())
    assert (log.events, log.history, log.lacks) == ((), (), "")
    for path in ("kernel/h200-580-xids.txt", "nccl/h100/dmesg-xid-43.txt"):
        log = parse_log((FIXTURES / path).read_text())
        assert {each.meaning.action for each in log.events} == {"ignore"}


def test_large_text_is_cut_in_its_middle():
    filler = f"{'x' * 200}\n" * (MOST_CHARACTERS // 200)
    log = parse_log(f"{BOOT}{LOST}\n{filler}{GSP}\n{filler}{SICK}\n")
    assert [each.meaning.kind for each in log.events] == ["xid-79", "mlx5-health"]
    assert "characters in the middle" in log.lacks
    assert "does not begin" in parse_log(LOST).lacks


def test_events_are_bounded():
    text = "".join(f"NVRM: Xid (PCI:{n:04x}:3b:00): 79\n" for n in range(MOST_EVENTS + 7))
    log = parse_log(BOOT + text)
    assert len(log.events) == MOST_EVENTS
    assert log.lacks.startswith("7 events")


def test_words_of_a_node_cannot_move_the_cursor():
    (event,) = parse_log("Out of memory: Killed process 7 (\x1b[31mred\x07) total-vm:1kB").events
    assert event.phrase.isprintable()


def test_catalogue_has_what_it_names():
    assert {each.action for each in catalogue.xids().values()} == {
        *HANDS, "ignore", "severity", "recovery",
    }  # fmt: skip
    assert len(catalogue.xids()) == 100
