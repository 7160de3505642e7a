"""TuneD and irqbalance set nothing else than the site, which they would do again and again."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import tuned
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import CONFIGURED, Setting, not_applicable

pytestmark = pytest.mark.state

_LOOK = "tuned-adm active; change the profile, or the site"
_PAGES = ("vm.nr_hugepages", "vm.nr_hugepages_mempolicy")
_IOMMU = ("iommu", "iommu.passthrough", "intel_iommu", "amd_iommu")
_RUNTIME_PAGES = ("hugepages_2m_count", "hugepages_2m_per_numa_node")
_BOOT_PAGES = ("hugepages_1g_count", "hugepages_1g_per_numa_node")
_PAGE_ARGUMENTS = ("default_hugepagesz", "hugepagesz", "hugepages")


def test_tuned_sets_no_other_sysctl(host: Host, node: Node) -> None:
    """The active profile of TuneD sets no kernel setting other than the site does."""
    profile = _profile(host)
    for each in profile.of("sysctl"):
        name = each.name.replace("/", ".")
        variable, wanted, restored = _sysctl(node, name)
        # TuneD itself sets what /etc/sysctl.d says after its profile, unless told not to.
        if not variable or (restored and profile.restores_sysctl):
            continue
        if each.words() != wanted.split():
            _setting(node, profile, name, variable, each).reject(
                each.value, wanted or "set by the site alone"
            )


def test_tuned_sets_no_other_governor(host: Host, node: Node) -> None:
    """The active profile of TuneD has the site's CPU frequency governor, or none."""
    wanted = node.get("pcie_cpu_governor")
    if wanted == "keep":
        not_applicable("pcie_cpu_governor: keep")
    profile = _profile(host)
    for each in profile.of("cpu"):
        # The first that the driver offers: performance|schedutil.
        if each.name == "governor" and "".join(each.words()).split("|")[0] != wanted:
            _setting(node, profile, "frequency governor", "pcie_cpu_governor", each).reject(
                each.value, wanted
            )


def test_tuned_adds_no_kernel_argument_of_ours(host: Host, node: Node) -> None:
    """The active profile of TuneD adds no kernel argument for hugepages or the IOMMU."""
    profile = _profile(host)
    owned = {name: "pcie_iommu" for name in _IOMMU if node.get("pcie_iommu") != "keep"}
    if variable := _stated(node, *_BOOT_PAGES):
        owned |= dict.fromkeys(_PAGE_ARGUMENTS, variable)
    for each in profile.of("bootloader"):
        for word in each.words() if each.name.startswith("cmdline") else ():
            name = word.lstrip("+-").partition("=")[0]
            if name in owned:
                _setting(node, profile, f"kernel argument {name}", owned[name], each).reject(
                    word, "set by the site alone"
                )


def test_irqbalance_has_no_policy_of_its_own(host: Host, node: Node) -> None:
    """No irqbalance runs with a policy script, which may move the rails' interrupts away."""
    if node.get("pcie_irq_affinity") != "local":
        not_applicable(f"pcie_irq_affinity: {node.get('pcie_irq_affinity')}")
    policies = tuned.irqbalance_policies(host)
    if policies:
        where = "/proc/PID/cmdline of irqbalance"
        look = "systemctl cat irqbalance; remove the option, or write pcie_irq_affinity: keep"
        setting = Setting(node, "irqbalance", "option", "pcie_irq_affinity", where, look=look)
        setting.reject(policies, "no policy script")


def _profile(host: Host) -> tuned.Profile:
    """Return TuneD's active profile; skip where there is none."""
    profile = tuned.read(host)
    if profile is None:
        not_applicable("TuneD does not run, or has no active profile")
    return profile


def _sysctl(node: Node, name: str) -> tuple[str, str, bool]:
    """Return the variable that states a kernel setting, its value, whether /etc/sysctl.d has it."""
    for key, value in node.get("limits_sysctl").items():
        if str(key).replace("/", ".") == name:
            return "limits_sysctl", str(value), True
    if name == "kernel.numa_balancing" and node.get("pcie_numa_balancing") != "keep":
        return "pcie_numa_balancing", str(int(node.get("pcie_numa_balancing") == "on")), False
    if name in _PAGES:
        return _stated(node, *_RUNTIME_PAGES, *_BOOT_PAGES), "", False
    return "", "", False


def _stated(node: Node, *variables: str) -> str:
    """Return the first of these variables for which the site asks for hugepages, else nothing."""
    return next((each for each in variables if node.get(each)), "")


def _setting(
    node: Node, profile: tuned.Profile, name: str, variable: str, option: tuned.ProfileOption
) -> Setting:
    return Setting(
        node,
        f"TuneD's profile {' '.join(profile.names)}",
        name,
        variable,
        where=option.file,
        truth=CONFIGURED,
        look=_LOOK,
    )
