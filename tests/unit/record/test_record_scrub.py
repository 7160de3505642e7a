"""What is no longer in a record: secrets, and names and addresses on request."""

import json
import random
import time

import pytest
from tests.unit.record.test_record import made

from rdmaprov.record.anonymous import Pseudonyms
from rdmaprov.record.scrub import Scrub
from rdmaprov.runs.masks import Mask

C = "canary"


@pytest.mark.parametrize(
    "text",
    [
        f"password: {C}",
        f"      password: {C} {C}\n",
        f'    password: "{C} \\" {C}"\n',
        f"psk={C}",
        f"wifi-security.psk: {C}",
        f"wep-key0={C}",
        f"802-1x.private-key-password={C} with blanks",
        f"/etc/wpa.conf\0  psk={C} and {C}\n",
        f'{{"api_key": "{C}", "mtu": 9000}}',
        f"{{'token': '{C}'}}",
        f"tool --password {C} --mtu 9000",
        f"tool\0--token\0{C}\0",
        f"tool --auth-key={C}",
        f"quiet systemd.set_credential=x rd.secret={C} ro",
        f"https://user:{C}@host/path",
        f"deb [trusted=yes] http://{C}@host/ ./",
        f"Authorization: Bearer {C}canary",
        f"machine host login me password {C}",
        f"PrivateKey = {C}",
        f"chpasswd:\n  list: |\n    root:{C}\n    me:{C}\nruncmd: []\n",
        f"  hashed_passwd: $6$salt${C}{C}",
        f"root:$y$j9T${C}{C}:19000:",
        f"-----BEGIN RSA PRIVATE KEY-----\n{C}\n-----END RSA PRIVATE KEY-----\nafter",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{C}\n",
        f"ssh-ed25519 AAAA{C} {C}@host",
        f"AWS=AKIA{C.upper()}{'X' * 10}",
        f"ghp_{C}{'x' * 20}",
        f"eyJhbGci.eyJ{C}.{C}",
        f"AWS_SECRET_ACCESS_KEY={C}",
        f"export NGC_API_KEY='{C}'",
        f"said {C}-of-the-site",
        # One name for each word of inventory.secrets, as programs write them.
        f"StoragePass={C}",
        f"JobCompPass={C} x",
        f"//nas/x /mnt cifs user=me,pass={C},uid=0",
        f"MYSQL_PWD={C}",
        f"pw: {C}",
        f"AccountKey={C}==;x",
        f"mka-cak={C}",
        f"pin={C}",
        f"https://x.blob/y?sv=1&sig={C}&z=1",
        f"https://x/y?auth={C}",
        f"http_proxy=me:{C}@proxy:3128",
        f"root=iscsi:me:{C}@10.0.0.1::3260::iqn",
        f"iface wlan0\n  wpa-psk {C}\n",
        f"machine host\n  login me\n  password {C}\n",
        f"  password:\n    {C}\nmtu: 9000\n",
        f"tokens:\n  - {C}\n  - {C}\n",
        f"glrt-{C}{'x' * 20}",
        f"pypi-{C}{'x' * 20}",
        f"ExecStart=/usr/bin/sshpass -p {C} ssh host",
        f"curl -s -u me:{C} https://host/",
        f"ipmitool -I lanplus -U me -P {C} sel list",
        f"rocommunity {C} 10.0.0.0/8",
        f"DHHC-1:00:{C}/x+=:",
        f"password_pbkdf2 root grub.pbkdf2.sha512.10000.{C}.{C}",
        f"WEBHOOK=https://hooks.slack.com/services/T0/B0/{C}",
        f"dckr_pat_{C}{'x' * 20}",
        f"sk-proj-{C}{'x' * 20}",
        f"AIza{C:x<35}",
        f"AGE-SECRET-KEY-1{C.upper():X<58}",
        f"wireguard:\n  key: {C:A<43}=\n  private: {C:B<43}=\n  shared: {C:C<43}=\n",
    ],
)
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


@pytest.mark.parametrize(
    "text",
    [
        "auth required pam_unix.so\npassword requisite pam_pwquality.so\n",
        '[{"ifname": "ens1", "mtu": 9000, "flags": ["UP"]}]',
        "NCCL_IB_TC=106\nNCCL_SOCKET_IFNAME==eth0\n",
        "memlock  unlimited\n* soft memlock unlimited\n",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n",
        "network:\n  version: 2\n  ethernets:\n    ens1:\n      mtu: 9000\n",
        "root=UUID=3f1c9a52-0001-4e00-9a00-0123456789ab ro pci=realloc=off iommu=pt",
        "options mlx5_core prof_sel=2",
        "https://linux.mellanox.com/public/repo/doca/3.1.0/",
        "bypass=1 passthrough=on compass: 3 iommu.passthrough=1 xpass: 2",
        "password [success=1 default=ignore] pam_unix.so\n",
        "key: value\nKey=ens1\nmap[spinning]: 1\n",
    ],
)
def test_what_is_no_secret_stays(text):
    assert Scrub(Mask([])).text(text) == text


HOSTS = "127.0.0.1 localhost\n10.20.30.7 gpu07.cluster.lan gpu07\n10.20.30.9 store01\n"
TEXTS = {
    "/etc/hosts": HOSTS,
    "/ip": "inet 10.1.2.7/24 brd 10.1.2.255 scope global\ninet6 2001:db8:5:6::7/64\n"
    "inet6 fe80::ba3f:d2ff:fe55:6677/64\nlink/ether b8:3f:d2:55:66:77 brd ff:ff:ff:ff:ff:ff",
    "/route": "default via 10.1.2.254 dev ens1\n10.0.0.0/8 via 10.1.2.254\n10.1.2.0/24 dev ens1",
    "/gid": "fe80:0000:0000:0000:ba3f:d2ff:fe55:6677",
    "/mapped": "0000:0000:0000:0000:0000:ffff:0a01:0207",
    "/guid": "b83f:d203:0055:6677",
    "/ibstat": "Node GUID: 0xb83fd20300556677\nversion 10.1.0.7-1\nfirmware 28.39.1002",
    "/name": "enxb83fd2556677",
    "/serial": "Serial Number: MT2233X00999\nserial: MT2233X00999",
    "/nm": "[connection]\nuuid=11111111-2222-5333-8444-555555555555\n",
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "",
    "/fs": "UUID=aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee\n11111111-2222-5333-8444-555555555555",
    "/pci": "0000:18:00.0 12:34:56 GPU-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
    "/ipoib": "80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:55:66:77 brd "
    "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff",
}


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
        *("55:66:77", "fe55:6677", "0055:6677", "556677", "MT2233", "aaaaaaaa"),
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


@pytest.mark.parametrize(
    "part",
    [
        "password",
        "a-b.c_",
        "-----BEGIN ",
        "ab:cd:",
        "1.2.3.",
        " \t",
        "0a",
        "proxy=a:",
        "root=iscsi:",
        "pin:\n ",
        "Pass",
        "_pw",
    ],
)
def test_text_of_a_hostile_node_takes_no_hours(part):
    text = part * 20_000
    begun = time.process_time()
    clean = Scrub(Mask([])).data(made(files={"/x": text}))
    Pseudonyms(clean, random.Random(7)).data(clean)
    assert time.process_time() - begun < 10


def test_key_of_macsec_is_gone():
    text = f"[MACsecTransmitAssociation]\nKey={'0a' * 16}\nKeyId=01\n"
    assert Scrub(Mask([])).text(text).endswith("Key=REMOVED\nKeyId=01\n")
