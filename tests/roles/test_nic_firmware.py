"""Firmware settings: set for the next boot, by the site and by profiles; what the firmware is."""

from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.nic_firmware import means, parse
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import mlx5
from tests.roles.fake import FakeMachine, given
from tests.tables import cases

FIXTURES = Path(__file__).parents[1] / "fixtures" / "mstconfig"


def query_text(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


PCI = "0000:18:00.0"
QUERY = f"mstconfig -d {PCI} -e query"


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    machine.nic("ens1", pci=PCI, rdma="rocep24s0")
    machine.put(f"/sys/devices/pci0000:00/{PCI}/vendor", "0x15b3\n")
    machine.put("/sys/class/infiniband/rocep24s0/fw_ver", "28.43.2026\n")
    current = {"ATS_ENABLED": "True(1)", "LINK_TYPE_P1": "ETH(2)", "NUM_OF_VFS": "16"}
    next_boot = dict(current)
    shown = {"ATS_ENABLED=0": "False(0)", "NUM_OF_VFS=8": "8"}

    def query(argv: list[str]) -> str:
        lines = ["Configurations:     Default     Current     Next Boot"]
        lines += [
            f"         {name}   0   {current[name]}   {next_boot[name]}"
            for name in argv[5:] or current
        ]
        return "\n".join(lines)

    def change(argv: list[str]) -> str:
        for each in argv[5:]:
            next_boot[each.partition("=")[0]] = shown[each]
        return query_text("connectx5-set")

    machine.programs = {QUERY: query, f"mstconfig -d {PCI} -y set": change}
    return machine


def arguments(**changed: object) -> dict[str, object]:
    return given("mlx5", **{"kind": "roce", "rails": [{"pci": PCI}], **changed})


def test_settings_are_set_together_and_a_reboot_is_due(node: FakeMachine):
    given = arguments(
        firmware_settings={"ATS_ENABLED": False, "LINK_TYPE_P1": "ETH", "NUM_OF_VFS": 8}
    )
    result = converge(node, mlx5, given, check=False)
    assert [(each["setting"], each["seen"], each["wanted"]) for each in result["changes"]] == [
        ("ATS_ENABLED", "True(1)", "0"),
        ("NUM_OF_VFS", "16", "8"),
    ]
    assert f"mstconfig -d {PCI} -y set ATS_ENABLED=0 NUM_OF_VFS=8" in node.ran
    (reason,) = result["reboot"]
    assert reason.startswith(
        f"{PCI}: ATS_ENABLED, NUM_OF_VFS takes effect when the firmware restarts"
    )
    again = converge(node, mlx5, given, check=False)
    assert (again["changed"], again["reboot"]) == (False, [reason])


@pytest.mark.parametrize("said", ["not-supported", "unknown"])
def test_setting_that_the_device_lacks_is_refused_before_any_is_set(node: FakeMachine, said: str):
    output = query_text(said) if said == "not-supported" else "-E- Unknown Parameter: MPFS_X"
    node.programs[QUERY] = CommandFailed([QUERY], 3, output)
    with pytest.raises(Refused, match=r"0000:18:00.0: its firmware has no setting MPFS_"):
        converge(node, mlx5, arguments(firmware_settings={"MPFS_X": 1}), check=False)
    assert not [line for line in node.ran if " set " in line]


@pytest.mark.parametrize(
    ("programs", "cause", "message"),
    [
        ({QUERY: CommandFailed([QUERY], 3, query_text("no-device"))}, NodeError, "Failed to open"),
        ({f"mstconfig -d {PCI} -y set": ""}, NodeError, r"not in effect: 0000:18:00\.0: ATS"),
        ({}, NotYet, "neither mstconfig"),
    ],
    ids=["device that cannot be opened", "did not take", "tool may come with an earlier role"],
)
def test_setting_that_the_tool_does_not_set_is_said(node: FakeMachine, programs, cause, message):
    node.programs = {**node.programs, **programs} if programs else {}
    with pytest.raises(cause, match=message):
        converge(node, mlx5, arguments(firmware_settings={"ATS_ENABLED": 0}), check=False)


@pytest.mark.parametrize(
    ("output", "setting", "cause", "message"),
    [
        ("connectx4-next-boot", "SRIOV_EN", NodeError, "does not show its current value"),
        ("connectx4-extended", "ESWITCH_HAIRPIN_DESCRIPTORS", Refused, r"is a list, Array\[0..7\]"),
        ("wide", "ROCE_CONTROL", Refused, "read-only"),
        ("wide", "LINK_TYPE_P1", NodeError, "its value is unknown"),
    ],
)
def test_setting_that_cannot_be_told_or_changed(node, output, setting, cause, message):
    node.programs[QUERY] = query_text(output)
    with pytest.raises(cause, match=message):
        converge(node, mlx5, arguments(firmware_settings={setting: 1}), check=False)


def test_other_firmware_is_reported_and_not_burned(node: FakeMachine):
    with pytest.raises(Refused, match=r"rocep24s0: firmware 28.43.2026, expected 28.39.1002"):
        converge(node, mlx5, arguments(firmware_version="28.39.1002"), check=False)
    given = arguments(firmware_version="28.43.2026")
    assert not converge(node, mlx5, given, check=False)["changed"]


def test_node_without_such_a_nic_is_refused(node: FakeMachine):
    node.put(f"/sys/devices/pci0000:00/{PCI}/vendor", "0x1af4\n")
    with pytest.raises(Refused, match="no rail is a ConnectX"):
        converge(node, mlx5, arguments(firmware_version="28.43.2026"), check=True)


def test_mlxconfig_is_used_where_mstconfig_is_not_installed(node: FakeMachine):
    node.programs = {
        line.replace("mstconfig", "mlxconfig"): each for line, each in node.programs.items()
    }
    converge(node, mlx5, arguments(firmware_settings={"ATS_ENABLED": 0}), check=False)
    assert f"mlxconfig -d {PCI} -y set ATS_ENABLED=0" in node.ran


def test_bond_has_the_functions_of_its_ports_set(node: FakeMachine):
    """A bond is on no PCI function itself; one setting may be per function, as LINK_TYPE is."""
    second = "0000:18:00.1"
    node.nic("ens2", pci=second, index=4)
    node.put(f"/sys/devices/pci0000:00/{second}/vendor", "0x15b3\n")
    node.nic("bond0", rdma="rocep24s0", index=5)
    for name in ("ens1", "ens2"):
        node.link(f"/sys/class/net/bond0/lower_{name}", f"/sys/class/net/{name}")
    shown = {"0": "False(0)"}

    def query(argv: list[str]) -> str:
        value = shown.get("0") if argv[2] in done else "True(1)"
        return (
            f"Configurations:   Default   Current   Next Boot\n     ATS_ENABLED   0   0   {value}"
        )

    done: list[str] = []

    def change(argv: list[str]) -> str:
        done.append(argv[2])
        return ""

    for pci in (PCI, second):
        node.programs[f"mstconfig -d {pci} -e query"] = query
        node.programs[f"mstconfig -d {pci} -y set"] = change
    given = arguments(
        rails=[{"netdev": "bond0"}],
        firmware_settings={"ATS_ENABLED": False},
        firmware_version="28.43.2026",
    )
    converge(node, mlx5, given, check=False)
    assert done == [PCI, second]


def test_profile_sets_what_the_card_has_and_the_site_does_not_say(node: FakeMachine):
    given = arguments(
        firmware_profiles=["gpudirect", "no-vfs", "host-dcbx"], firmware_settings={"NUM_OF_VFS": 8}
    )
    result = converge(node, mlx5, given, check=False)
    assert [(each["setting"], each["wanted"]) for each in result["changes"]] == [
        ("ATS_ENABLED", "0"),
        ("NUM_OF_VFS", "8"),
    ]
    assert f"mstconfig -d {PCI} -y set ATS_ENABLED=0 NUM_OF_VFS=8" in node.ran
    (note,) = result["notes"]
    assert note.startswith(f"{PCI}: its firmware has no SRIOV_EN, LLDP_NB_DCBX_P1")
    assert not converge(node, mlx5, given, check=False)["changed"]


def test_card_with_a_profile_is_asked_once(node: FakeMachine):
    """A query takes seconds, and the list of all settings has those that are named, too."""
    given = arguments(firmware_profiles=["gpudirect"], firmware_settings={"NUM_OF_VFS": 8})
    converge(node, mlx5, given, check=True)
    assert [line for line in node.ran if line.startswith(QUERY)] == [QUERY]


def test_profile_of_which_the_card_has_nothing_changes_nothing(node: FakeMachine):
    result = converge(node, mlx5, arguments(firmware_profiles=["roce"]), check=False)
    assert (result["changed"], result["reboot"]) == (False, [])
    assert node.ran == [QUERY]


def test_profile_is_unknown_where_the_card_shows_nothing(node: FakeMachine):
    node.programs[QUERY] = "Device type:    ConnectX7\n"
    with pytest.raises(NodeError, match="its settings are unknown"):
        converge(node, mlx5, arguments(firmware_profiles=["gpudirect"]), check=True)


def card(machine: FakeMachine, pci: str, state: str = "1: DOWN", **seen: str) -> FakeMachine:
    """Return a node with one card whose firmware has these settings."""
    machine.nic("ens1", pci=pci, rdma="rocep24s0")
    machine.put(f"/sys/devices/pci0000:00/{pci}/vendor", "0x15b3\n")
    machine.put("/sys/class/infiniband/rocep24s0/ports/1/state", f"{state}\n")

    def query(argv: list[str]) -> str:
        names = argv[5:] or list(seen)
        lines = [f"         {name}   0   {seen[name]}   {seen[name]}" for name in names]
        return "\n".join(["Configurations:     Default     Current     Next Boot", *lines])

    machine.programs = {f"mstconfig -d {pci} -e query": query}
    return machine


ETHERNET = {"LINK_TYPE_P1": "ETH(2)", "LINK_TYPE_P2": "ETH(2)", "NUM_OF_PF": "2"}
NIC_MODE = {"INTERNAL_CPU_MODEL": "EMBEDDED_CPU(1)", "INTERNAL_CPU_OFFLOAD_ENGINE": "DISABLED(1)"}
SEPARATED = {**NIC_MODE, "INTERNAL_CPU_MODEL": "SEPARATED_HOST(0)"}
ARMS = {**NIC_MODE, "INTERNAL_CPU_OFFLOAD_ENGINE": "ENABLED(0)"}
ENGINE = "INTERNAL_CPU_OFFLOAD_ENGINE"


@pytest.mark.parametrize(
    ("function", "seen", "settings", "says"),
    [
        (0, ETHERNET, {"LINK_TYPE_P1": "IB"}, r"LINK_TYPE_P1=IB is not ETH\(2\)"),
        (0, ETHERNET, {"LINK_TYPE_P1": 1}, r"LINK_TYPE_P1=1 is not ETH\(2\)"),
        (0, ETHERNET, {"LINK_TYPE_P1": "0x1"}, r"LINK_TYPE_P1=0x1 is not ETH\(2\)"),
        (1, ETHERNET, {"LINK_TYPE_P2": "VPI"}, r"LINK_TYPE_P2=VPI is not ETH\(2\)"),
        (0, ETHERNET, {"LINK_TYPE_P1": True}, "so True is ambiguous"),
        (1, ETHERNET, {"NUM_OF_PF": 1}, r"removes its function \(\.1\); write 2 or more"),
        (1, ETHERNET, {"NUM_OF_PF": "0x1"}, r"removes its function \(\.1\)"),
        (1, ETHERNET, {"NUM_OF_PF": True}, r"removes its function \(\.1\)"),
        (0, NIC_MODE, {ENGINE: "ENABLED"}, "is DPU mode"),
        (0, NIC_MODE, {ENGINE: 0}, "is DPU mode"),
        (0, NIC_MODE, {ENGINE: False}, r"is DISABLED\(1\), so False is ambiguous"),
        (0, NIC_MODE, {ENGINE: "false"}, "so false is ambiguous"),
        (0, SEPARATED, {ENGINE: 0, "INTERNAL_CPU_MODEL": 1}, "is DPU mode"),
    ],
)
def test_setting_that_takes_a_rail_away_is_refused(machine, function, seen, settings, says):
    pci = f"0000:18:00.{function}"
    node = card(machine, pci, **seen)
    given = arguments(rails=[{"pci": pci}], firmware_settings=settings)
    with pytest.raises(Refused, match=says):
        converge(node, mlx5, given, check=True)
    assert not [line for line in node.ran if " set " in line]


@pytest.mark.parametrize(
    ("function", "seen", "settings"),
    [
        (1, ETHERNET, {"LINK_TYPE_P1": "IB"}),
        (0, ETHERNET, {"NUM_OF_PF": 1}),
        (0, SEPARATED, {ENGINE: "ENABLED"}),
        (0, ARMS, {ENGINE: "ENABLED"}),
        (0, ARMS, {ENGINE: "DISABLED"}),
    ],
    ids=["the other port", "no rail beyond it", "separated host", "as it is", "to the host"],
)
def test_setting_that_leaves_the_rail_is_taken(machine, function, seen, settings):
    pci = f"0000:18:00.{function}"
    given = arguments(rails=[{"pci": pci}], firmware_settings=settings)
    converge(card(machine, pci, **seen), mlx5, given, check=True)


def test_port_with_a_link_is_not_given_another_type(machine: FakeMachine):
    """The site says InfiniBand of a node whose ports are up on an Ethernet fabric."""
    given = arguments(kind="infiniband", firmware_settings={"LINK_TYPE_P1": "IB"})
    with pytest.raises(Refused, match=r"its link is up.*Is fabric_kind: infiniband right"):
        converge(card(machine, PCI, "4: ACTIVE", **ETHERNET), mlx5, given, check=True)
    machine.put("/sys/class/infiniband/rocep24s0/ports/1/state", "1: DOWN\n")
    assert converge(machine, mlx5, given, check=True)["changed"]


def test_locked_kernel_is_said_where_the_tool_reaches_no_card(machine: FakeMachine):
    node = card(machine, PCI, **ETHERNET)
    node.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    given = arguments(firmware_settings={"NUM_OF_PF": 1})
    assert converge(node, mlx5, given, check=True)["warnings"] == []  # by a driver that is signed
    error = CommandFailed(["mstconfig"], 1, "-E- Failed to open the device")
    node.programs[f"mstconfig -d {PCI} -e query"] = error
    (said,) = converge(node, mlx5, given, check=False)["warnings"]
    assert f"firmware settings of {PCI} are neither read nor set: the kernel is locked" in said
    node.remove("/sys/kernel/security/lockdown")
    with pytest.raises(NodeError, match="Failed to open"):
        converge(node, mlx5, given, check=True)


@pytest.mark.parametrize(
    ("name", "setting", "current", "next_boot"), cases(__file__, "settings_are_read_by_the_header")
)
def test_settings_are_read_by_the_header(name: str, setting: str, current: str, next_boot: str):
    found = parse(query_text(name))[setting]
    assert (found.current, found.next_boot) == (current, next_boot)


@pytest.mark.parametrize(
    ("name", "count"),
    [("connectx5-extended", 5), ("connectx4-next-boot", 9), ("wide", 5), ("no-device", 0)],
)
def test_no_other_line_is_a_setting(name: str, count: int):
    assert len(parse(query_text(name))) == count


def test_read_only_settings_are_marked():
    found = parse(query_text("wide"))
    assert [name for name in found if found[name].read_only] == [
        "HOST_CHAINING_DESCRIPTORS",
        "ROCE_CONTROL",
    ]


@pytest.mark.parametrize(
    ("shown", "wanted", "same"), cases(__file__, "values_are_compared_by_meaning")
)
def test_values_are_compared_by_meaning(shown: str, wanted: object, same: bool):
    assert means(shown, wanted) is same
