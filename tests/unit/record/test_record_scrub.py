"""What is no longer in a record: secrets, and names and addresses on request."""

import json
import random
import time
from pathlib import Path

import pytest
import yaml
from tests.tables import cases
from tests.unit.record.test_record import made

from rdmaprov.record.anonymous import Pseudonyms
from rdmaprov.record.scrub import Scrub
from rdmaprov.runs.masks import Mask

C = "canary"
WRITTEN = yaml.safe_load((Path(__file__).parents[2] / "fixtures/record/texts.yml").read_text())


@pytest.mark.parametrize("text", WRITTEN["secret"])
def test_secrets_are_gone(text):
    scrub = Scrub(Mask([f"{C}-of-the-site"]))
    assert C not in scrub.text(text).lower()
    assert scrub.text(scrub.text(text)) == scrub.text(text)


def test_secrets_in_keys_and_command_lines_are_gone():
    scrub = Scrub(Mask([]))
    data = {
        f"ask token={C}": [{"argv": ["login", "--password", C, "name"]}, {"password": C}],
        "stdout": f"password={C}\nmtu 9000",
    }
    assert scrub.data(data) == {
        "ask token=REMOVED": [
            {"argv": ["login", "--password", "REMOVED", "name"]},
            {"password": "REMOVED"},
        ],
        "stdout": "password=REMOVED\nmtu 9000",
    }


@pytest.mark.parametrize("text", WRITTEN["no_secret"])
def test_what_is_no_secret_stays(text):
    assert Scrub(Mask([])).text(text) == text


HOSTS = "127.0.0.1 localhost\n10.20.30.7 gpu07.cluster.lan gpu07\n10.20.30.9 store01\n"
TEXTS = cases(__file__, "texts")


def other_texts() -> dict[str, str]:
    node = made(files=TEXTS, variables={"fabric_rails": [{"address": "10.1.2.7/24"}]})
    found = Pseudonyms(node, random.Random(7)).data(node)
    assert found["node"] == "node-1"
    rail = found["variables"]["fabric_rails"][0]["address"]
    assert f"inet {rail} " in found["files"]["/ip"]
    texts: dict[str, str] = found["files"]
    return texts


def test_names_addresses_and_serials_are_others():
    found = other_texts()
    for name in (
        *("gpu07", "cluster", "store01", "10.1.2.", "10.20.30.", "2001:db8:5:", "0a01:0207"),
        *("55:66:77", "fe55:6677", "0055:6677", "556677", "MT2233", "aaaaaaaa", "e4397"),
    ):
        assert name not in json.dumps(found), name


def test_what_belongs_together_stays_so():
    found = other_texts()
    network = found["/route"].split("\n")[2].split(" ")[0]
    start = network.removesuffix("0/24")
    assert network.endswith(".0/24")
    assert found["/ip"].startswith(f"inet {start}7/24 brd {start}255 ")
    assert found["/route"].startswith(f"default via {start}254 dev ens1\n10.0.0.0/8 via ")
    low = found["/ip"].partition("link/ether b8:3f:d2:")[2][:8].replace(":", "")
    assert found["/gid"] == f"fe80:0000:0000:0000:ba3f:d2ff:fe{low[:2]}:{low[2:]}"
    assert f"fe80::ba3f:d2ff:fe{low[:2]}:{low[2:]}/64" in found["/ip"]
    assert found["/guid"] == f"b83f:d203:00{low[:2]}:{low[2:]}"
    assert found["/ibstat"].startswith(f"Node GUID: 0xb83fd20300{low}\n")
    assert found["/name"] == f"enxb83fd2{low}"
    assert found["/ipoib"].partition(" ")[0].replace(":", "").endswith(f"b83fd20300{low}")
    first, second = found["/serial"].split("\n")
    assert first.split(": ")[1] == second.split(": ")[1]
    uid = found["/vpd"].split(": ")[1].partition("\n")[0] + "MLNXS0D0F1"
    assert found["/vpd"].endswith(f": {uid}")
    assert found["/fs"].split("\n")[0][len("UUID=") :] in found["/pci"]


def test_what_is_no_address_stays():
    found = other_texts()
    assert found["/ibstat"].endswith("\nversion 10.1.0.7-1\nfirmware 28.39.1002")
    assert found["/etc/hosts"].startswith("127.0.0.1 localhost")
    assert found["/pci"].startswith("0000:18:00.0 12:34:56 GPU-")
    assert "brd ff:ff:ff:ff:ff:ff" in found["/ip"]
    assert "00:ff:ff:ff:ff:12:40:1b" in found["/ipoib"]
    assert found["/nm"] == TEXTS["/nm"]
    assert "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c" in found
    assert found["/fs"].endswith("11111111-2222-5333-8444-555555555555")


@pytest.mark.parametrize("part", cases(__file__, "text_of_a_hostile_node_takes_no_hours"))
def test_text_of_a_hostile_node_takes_no_hours(part):
    text = part * 20_000
    begun = time.process_time()
    clean = Scrub(Mask([])).data(made(files={"/x": text}))
    Pseudonyms(clean, random.Random(7)).data(clean)
    assert time.process_time() - begun < 10


def test_key_of_macsec_is_gone():
    text = f"[MACsecTransmitAssociation]\nKey={'0a' * 16}\nKeyId=01\n"
    assert Scrub(Mask([])).text(text).endswith("Key=REMOVED\nKeyId=01\n")
