"""GPU health on texts of real machines: each healthy text is silent, each fault in it is red."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.tables import cases
from tests.validate.runner import FakeHosts, judge

from rdmaprov.boundary import OddAnswer
from rdmaprov.facts import gpu, gpu_health, health_command

FIXTURES = Path(__file__).parents[1] / "fixtures"
CHECKS = list(dict.fromkeys(row["check"] for row in gpu_health.table()))
EXPECTED = yaml.safe_load((FIXTURES / "nvidia-smi/expected.yml").read_text())
HEALTHY = {name: set(lacks) for name, lacks in EXPECTED["healthy"].items()}
FAULTY = {name: set(wrong.items()) for name, wrong in EXPECTED["faulty"].items()}
# By rule, what is wrong at any limit; and what else stands there where a GPU is at work.
RULES = ["inactive", "at work", "no", "none", "zero", "least", "above", "below", "loaded"]
WORDS = ["Active", "Active", "Yes", "Drain and Reset", "3", "0", "-300 C", "300 C", "0"]
WRONG = dict(zip(RULES, WORDS, strict=True))
AT_WORK = {"at work": [("limit", "Not Active")], "loaded": [("load", "97 %")]}
DEPRECATED = "Requested functionality has been deprecated"


def capture(name):
    return gpu.parse((FIXTURES / f"nvidia-smi/{name}.txt").read_text()).gpus


def seen(gpus):
    found = [each for one in gpus for check in CHECKS for each in gpu_health.findings(one, check)]
    wrong = {(each.name, each.seen) for each in found if each.wanted}
    unknown = {each.name for each in found if each.wanted is None}
    return wrong, unknown, {each.name for each in found if each.seen is None}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_gpu_is_silent(name):
    assert seen(capture(name)) == (set(), set(), HEALTHY[name])


def test_nvlinks_of_real_gpus_are_read():
    text = (FIXTURES / "nvidia-smi/h800-525-nvlink.txt").read_text()
    assert gpu.parse_nvlinks(text) == [("NVIDIA H800", (26.562,) * 8)] * 2
    inactive = text.replace("Link 7: 26.562 GB/s", "Link 7: <inactive>", 1)
    assert gpu.parse_nvlinks(inactive)[0] == ("NVIDIA H800", (26.562,) * 7)
    assert gpu.parse_nvlinks("GPU 0: Tesla T4 (UUID: GPU-0)\n\tNot Supported\n") == [
        ("Tesla T4", ())
    ]


# A healthy B300, driver 595: what stands in one of AWS's guides for its operators.
B300 = (
    "Malformed packet Errors: 0", "Buffer overrun Errors: 0", "Rx Errors: 0", "Rx remote Errors: 0",
    "Rx General Errors: 0", "Local link integrity Errors: 0", "Tx discards: 0",
    "Link recovery successful events: 0", "Link recovery failed events: 0",
    "Total link recovery events: 0", "Effective Errors: 0", "Effective BER: 15e-255",
    "Symbol Errors: 0", "Symbol BER: 15e-255", "FEC Errors - 0: 36140749276", "FEC Errors - 1: 0",
    "Raw BER Lane 0: 2061", "Raw BER Total: 1037", "Raw Errors Lane 0: 82",
)  # fmt: skip


def errors_of(text):
    return [{o.name: o.errors for o in own if o.errors} for own in gpu.parse_nvlink_errors(text)]


def test_errors_of_real_nvlinks_are_read():
    text = (FIXTURES / "nvidia-smi/a100-535-nvlink-errors.txt").read_text()
    assert errors_of(text) == [{}, {}]
    assert [len(own) for own in gpu.parse_nvlink_errors(text)] == [36, 36]
    text = (FIXTURES / "nvidia-smi/v100-580-nvlink-errors.txt").read_text()
    assert errors_of(text) == [
        {"NVLink 3 Replay Errors": 2353},
        {"NVLink 0 Replay Errors": 148, "NVLink 0 CRC Errors": 65535},
    ]


def test_each_error_of_blackwell_is_read_and_nothing_that_a_good_link_counts():
    text = "GPU 0: NVIDIA B300 SXM6 AC\n" + "".join(f"\t Link 17: {row}\n" for row in B300)
    (own,) = gpu.parse_nvlink_errors(text)
    assert (len(own), errors_of(text)) == (10, [{}])
    for row in B300:
        changed = text.replace(row, f"{row.partition(':')[0]}: 7")
        read = row.startswith(("Tx", "Total", "FEC", "Raw")) or "BER" in row
        assert errors_of(changed) == [{} if read else {f"NVLink 17 {row.partition(':')[0]}": 7}]
    assert gpu.parse_nvlink_errors("GPU 0: NVIDIA L40S\n\tNot Supported\n") == [[]]
    assert gpu.parse_nvlink_errors("GPU 0: A\n\t Link 0: CRC Errors: N/A\n") == [[]]


@pytest.mark.parametrize(("uptime_s", "text", "state", "words"), cases(__file__, "nvlinks"))
def test_nvlinks_are_judged_by_errors_an_hour(judged, changed, uptime_s, text, state, words):
    path = FIXTURES / "nvidia-smi" / text
    changed.put(
        "/.answers/nvidia-smi/nvlink_-e", path.read_text() if text.endswith(".txt") else text
    )
    changed.put("/proc/uptime", f"{uptime_s}.00 1.00")
    (one,) = judged("test_gpu.py::test_nvlink_errors")
    assert one.state == state, one.said
    assert words in one.said


@pytest.mark.parametrize("name", FAULTY)
def test_fault_of_a_real_gpu_is_seen_and_nothing_else(name):
    assert seen(capture(name))[:2] == (FAULTY[name], set())


def altered(one, *texts):
    return replace(one, values={**one.values, **dict(texts)})


def at_work(one):
    done = set()
    for row in gpu_health.table():
        texts = {
            one.values.get(row[each], "N/A") for each in ("path", "limit", "load") if row[each]
        }
        if not texts & {"N/A", DEPRECATED} and row["field"] not in done:
            done.add(row["field"])
            yield (
                row,
                altered(one, *((row[each], text) for each, text in AT_WORK.get(row["rule"], ()))),
            )


@pytest.mark.parametrize("name", [each for each in HEALTHY if each != "gtx680-470"])
def test_each_field_that_a_gpu_shows_is_judged(name):
    """It has a fault; another word is unknown; no value is not judged, and no line is named."""
    rows = list(at_work(capture(name)[0]))
    assert len(rows) >= 8  # fewer where ECC is off
    for row, one in rows:
        path, field = row["path"], row["field"]
        wrong, unknown, absent = seen([altered(one, (path, WRONG[row["rule"]]))])
        assert field in {each for each, _ in wrong}
        assert len(wrong) <= 3  # Volta has one count for three fields
        assert (unknown, absent) == (set(), HEALTHY[name])
        wrong, unknown, _ = seen([altered(one, (path, "ERR!"))])
        assert (field in unknown, wrong) == (True, set()) or row["rule"] == "none"
        assert seen([altered(one, (path, "N/A"))]) == (set(), set(), HEALTHY[name])
        others = {each["path"] for each in gpu_health.table() if each["field"] == field}
        rest = {path: text for path, text in one.values.items() if path not in others}
        wrong, unknown, absent = seen([replace(one, values=rest)])
        assert (field in absent, wrong, unknown) == (True, set(), set())


def test_drivers_before_535_throttle_instead_of_having_events():
    one = capture("h100-535-power-brake")[0]
    old = {k.replace("clocks event", "clocks throttle"): v for k, v in one.values.items()}
    assert seen([replace(one, values=old)])[0] == FAULTY["h100-535-power-brake"]


def test_slowdown_of_an_idle_gpu_is_unknown():
    """It may be a change of its P-state (nvml.h)."""
    one = altered(capture("h100-580-idle")[0], ("clocks event reasons/hw slowdown", "Active"))
    assert seen([one])[:2] == (set(), {"HW slowdown"})


def test_memory_that_was_repaired_and_a_limit_of_the_module_are_no_faults():
    one, power = capture("gh200-550-idle")[0], "gpu power readings"
    assert one.text("ecc errors/aggregate/dram uncorrectable") == "1"
    limits = [one.text(f"{power}/{each} power limit") for each in ("current", "default")]
    assert limits == ["700.00 W", "900.00 W"]


def verdicts(name):
    found = health_command.parse((FIXTURES / f"dcgmi/{name}.json").read_text())
    return [(each["name"], each["state"]) for each in found]


def test_answers_of_dcgmi():
    assert verdicts("health-healthy") == [("Overall Health", "ok")]
    assert [state for _, state in verdicts("diag-r1-pass")] == ["ok"] * 9
    assert verdicts("gb10-level1") == [("software", "fail")]
    assert [state for _, state in verdicts("gb10-level2-partial-skip")] == ["fail", "skip", "skip"]
    text = (FIXTURES / "dcgmi/gb10-level1.json").read_text()
    assert "Persistence mode for GPU 0 is disabled" in health_command.parse(text)[0]["text"]
    assert health_command.parse(text.replace("Fail", "Warn"))[0]["state"] == "unknown"
    health = (FIXTURES / "dcgmi/health-healthy.json").read_text()
    for word, state in (("Failure", "fail"), ("Warning", "unknown"), ("Internal error", "unknown")):
        assert health_command.parse(health.replace("Healthy", word))[0]["state"] == state


ODD = [
    *("", "[]", "{}", "null", "3", '{"body": 3}', '[["a"]]', '[{"name": "a", "state": "ok"}]'),
    '[{"name": "a", "state": "green", "text": ""}]',
    '[{"name": "\\u001b[2J", "state": "ok", "text": ""}]',
    '{"DCGM Diagnostic": {"test_categories": 1}}',
]


@pytest.mark.parametrize("text", ODD)
def test_other_answers_are_none(text):
    with pytest.raises(OddAnswer):
        health_command.parse(text)
    with pytest.raises(OddAnswer):  # as a test of another project has it, made wrong on purpose
        verdicts("diag-incorrect")


def told(suite, fleet, changed, values, others=None):
    """Return how the check ended on a node of these values, and what it asked of the node."""
    nodes = [replace(each, values={**each.values, **(others or {})}) for each in fleet.nodes]
    nodes[0] = replace(nodes[0], values={**nodes[0].values, **values})
    host, asked = changed.host(), []
    run = host.backend.run

    def noted(text, **options):
        asked.append((text, options))
        return run(text, **options)

    host.backend.run = noted
    fleet, test = replace(fleet, nodes=tuple(nodes)), "test_gpu.py::test_health_command"
    (found,) = judge(suite, fleet, FakeHosts({"gpu1": host}), nodes[0], frozenset({test}))
    return found.state, found.said, asked


def test_words_of_the_command_reach_no_shell_and_its_time_is_bounded(suite, fleet, nodes, tmp_path):
    def program(text):
        changed.put("/.bin/site-health", f"#!/bin/sh\n{text}\n")
        changed.executable("/.bin/site-health")

    changed = nodes["gpu1"].like(tmp_path / "gpu1")
    words = {"gpu_health_command": ["site-health", "; touch /tmp/owned", "$(id)"]}
    program('printf \'[{"name": "%s %s", "state": "ok", "text": ""}]\' "$1" "$2"')
    state, said, ((command, options),) = told(suite, fleet, changed, words)
    assert (state, said) == ("passed", "")
    assert "timeout -k 5 120 site-health '; touch /tmp/owned' '$(id)'" in command
    assert options == {"fresh": True, "time_limit_s": 135}  # the other nodes have no such command
    _, _, ((_, options),) = told(suite, fleet, changed, words, words)
    assert options == {"everywhere": True, "time_limit_s": 135}
    program("exit 124")
    state, said, _ = told(suite, fleet, changed, {**words, "gpu_health_timeout_s": 7})
    assert (state, said) == ("error", "unknown: site-health: no answer within 7 s")
    skipped = (FIXTURES / "dcgmi/diag-r1-pass.json").read_text().replace("Pass", "Skip")
    program(f"echo '{skipped}'")
    state, said, _ = told(suite, fleet, changed, words)
    assert (state, said) == ("error", "unknown: site-health: all was skipped")
    assert told(suite, fleet, changed, {"gpu_health_command": ["absent"]})[0] == "error"
