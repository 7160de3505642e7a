"""Whether NCCL loaded a tuner plugin, as its versions say it: INFO calls of src/plugin/tuner.cc."""

from __future__ import annotations

import json

import pytest
from tests.unit.acceptance.test_acceptance_nccl import packed
from tests.unit.helpers.accept_runs import healthy, job
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance.evidence.judge import judge_tuner
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.acceptance.ranks.nccl_logs import read_run
from rdmaprov.acceptance.ranks.plan import JobPlane
from rdmaprov.inventory import load_site
from rdmaprov.nccl_log.events import Hint
from rdmaprov.nccl_log.line import parse_message

LINE = "allreduce,262145,2965820,tree,ll128,16,2,16,-1,-1"
FILE = "/etc/nccl_tuner.conf"
LOADED = {
    "2.19": "Using tuner plugin: 'Example'",
    "2.21": "TUNER/Plugin: Using tuner plugin Example",
    "2.28": "TUNER/Plugin: Using Example (v5)",
    "2.30": "Successfully loaded external tuner plugin /opt/x/libnccl-tuner-example.so",
}
FAILED = {
    "2.19": "Tuner: no plugin found 'example', using default tuner instead.",
    "2.20": "Tuner: plugin load 'x' returned error (0 : cannot open), using default tuner instead.",
    "2.21": "TUNER/Plugin: Plugin load returned 2 : example: cannot open : when loading example",
    "2.23": "TUNER/Plugin: Could not find: example libnccl-tuner-example.so. Using internal tuner "
    "plugin.",
    "2.24": "TUNER/Plugin: Failed to find ncclTunerPlugin_v2 symbol, using internal tuner instead.",
    "2.25": "TUNER/Plugin: Using internal tuner plugin.",
    "2.28": "TUNER/Plugin: Could not find: example libnccl-tuner-example.so",
    "2.29": "TUNER/Plugin: /x.so: undefined symbol: cudaGetDevice",
    "2.30": "External tuner plugin /x.so is unsupported",
}
SILENT = (
    "NCCL_TUNER_PLUGIN set by environment to example",
    "TUNER/Plugin: NCCL_TUNER_PLUGIN set to example",
    "TUNER/Plugin: Plugin name set by env to libnccl-tuner-example.so",
    "TUNER/Plugin: Failed to find ncclTunerPlugin_v4 symbol.",
    "TUNER/Plugin: Closing tuner: 'Example'",
    "GIN/Plugin: Could not find: libnccl-gin.so",
)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        *((text, "tuner") for text in LOADED.values()),
        *((text, "no_tuner") for text in FAILED.values()),
        *((text, "") for text in SILENT),
    ],
)
def test_each_version_s_words_are_understood(said, kind):
    found = parse_message(said.encode())
    assert (found.kind if isinstance(found, Hint) else "") == kind


@pytest.fixture
def judged(tmp_path):
    """Return what is found on nodes whose ranks' logs have some lines."""

    def judge(*said, plugin="example", config=f"# a\n{LINE}\n", hostname="{}.example"):
        files = dict(GOOD)
        # JSON is YAML, and has line breaks in one line.
        extra = (
            f"nccl_tuner_plugin: {json.dumps(plugin)}\nnccl_tuner_config: {json.dumps(config)}\n"
        )
        files["group_vars/nodes.yml"] = files.get("group_vars/nodes.yml", "---\n") + extra
        nodes = load_site(write(tmp_path / "site", files)).nodes
        facts = {node.name: {"hostname": hostname.format(node.name)} for node in nodes}
        ran = healthy(job(2, planes=(JobPlane("all rails"),), backend="nccl", sizes=(8,)))
        site_names = [node.name for node in nodes]
        ran.nodes = dict(zip(site_names, ran.nodes.values(), strict=True))
        for place, (name, node) in enumerate(ran.nodes.items()):
            own = said[min(place, len(said) - 1)]
            lines = [f"{name}:10:20 [0] NCCL INFO {text}\n" for text in ("x", *own)]
            node.logs = packed(**{name: "".join(lines)})
        site = GateSite(nodes, facts, "nccl", Rendezvous("192.0.2.1", {}))
        return list(judge_tuner(site, read_run(ran))), site_names

    return judge


GOOD_FILE = f"TUNER/ExamplePlugin: Loaded 1 tuning configurations from {FILE}"


def test_a_plugin_that_was_loaded_with_its_lines_is_no_finding(judged):
    assert judged([LOADED["2.30"], GOOD_FILE])[0] == []
    assert judged([LOADED["2.21"]])[0] == [], "another plugin says nothing of its file"


def test_a_plugin_that_was_not_loaded_is_found_on_its_node(judged):
    [found], names = judged([LOADED["2.28"], GOOD_FILE], [FAILED["2.28"]])
    assert (found.node, found.proven) == (names[1], True)
    assert "did not load the tuner plugin example" in found.what
    assert "Could not find: example libnccl-tuner-example.so" in found.what


def test_a_log_that_does_not_say_it_is_unknown(judged):
    found, _ = judged([])
    assert [each.proven for each in found] == [False, False]


@pytest.mark.parametrize(
    "said",
    [
        f"TUNER/ExamplePlugin: Config file {FILE} not found, using defaults",
        f"TUNER/ExamplePlugin: No valid configurations found in {FILE}",
        f"TUNER/ExamplePlugin: Loaded 3 tuning configurations from {FILE}",
    ],
)
def test_a_file_that_the_plugin_did_not_read_is_found(judged, said):
    found, names = judged([LOADED["2.30"], said])
    assert [each.node for each in found] == names
    assert all("did not read its file of 1 lines" in each.what for each in found)
    assert all("rdmaprov apply SITE --limit" in each.remedy for each in found)


@pytest.mark.parametrize("plugin", ["", "none"])
def test_a_site_without_a_plugin_is_asked_nothing(judged, plugin):
    assert judged([FAILED["2.28"]], plugin=plugin, config="")[0] == []
