"""NVIDIA GPUs, their health, and the services beside their driver, which no role owns."""

from collections import Counter
from collections.abc import Mapping

import pytest
from testinfra.host import Host

from rdmaprov.boundary import shown
from rdmaprov.facts import CouldNotTell, boot, devices, gpu, kernel_modules, pci, slurm, units
from rdmaprov.facts.gpu_health import findings
from rdmaprov.facts.health_command import ask
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Fleet, Node
from rdmaprov.validate.verdict import AFTER_REBOOT, RUNNING, Setting, not_applicable, reboot

pytestmark = pytest.mark.state

_FABRIC_GUIDE = "journalctl -b -u nvidia-fabricmanager"
_IMEX_GUIDE = "journalctl -b -u nvidia-imex; nvidia-imex-ctl -N"
_DOMAIN_GUIDE = "nvidia-smi -q; then NMX-C of the NVLink switches"
_OFF = "--no-persistence-mode"
_PERSISTENCE, _DOMAIN = "peermem_gpu_persistence", "fabric_nvlink_domain"
_CHANNEL = "NVreg_CreateImexChannel0"
_COMMAND, _LIMIT = "gpu_health_command", "fabric_gpu_power_limit_w"
_NVLINK, _LINKS = "nvidia-smi nvlink -e", "gpu.links"
_ENDS = (
    "nvidia-smi nvlink -p, -s; seat both ends of the link; what stays with the slot is the board's"
)
_XID, _REPLACE = "dmesg | grep -i xid", "dcgmi diag -r 3; the GPU may have to be replaced"


def test_driver_shows_all_gpus(host: Host, node: Node) -> None:
    """The driver runs each NVIDIA GPU that is on the PCI bus."""
    there = _addresses(host)
    seen = sorted(each.address for each in gpu.read(host).gpus)
    if set(there) - set(seen):
        name = "GPUs of the driver are"
        Setting(node, "nvidia", name, "", gpu.QUERY, look=_XID).reject(seen, sorted(there))


def test_persistence_mode_running(host: Host, node: Node) -> None:
    """Each GPU is in persistence mode, so it stays initialized between jobs."""
    for each in _persistent(host, node):
        setting = Setting(node, each.address, "persistence mode", _PERSISTENCE, gpu.QUERY)
        setting.require(each.is_on("persistence mode"), True)


def test_persistence_mode_after_reboot(host: Host, node: Node) -> None:
    """What turns persistence mode on at boot does so."""
    _persistent(host, node)
    unit = units.show(host, gpu.PERSISTENCE)[gpu.PERSISTENCE]
    if unit["LoadState"] == "not-found":
        not_applicable(
            f"no {gpu.PERSISTENCE}, so what turns persistence mode on at boot is not known"
        )
    setting = _unit(node, gpu.PERSISTENCE, AFTER_REBOOT, variable=_PERSISTENCE)
    # Ubuntu's is static: a rule of udev's starts it. Its command turns persistence mode off.
    if unit.get("UnitFileState") not in ("enabled", "static"):
        setting.reject(unit.get("UnitFileState") or unit["LoadState"], "enabled")
    if _OFF in unit.get("ExecStart", "").split():
        setting.reject(f"started with {_OFF}", f"started without {_OFF}")


def test_ecc_running(host: Host, node: Node) -> None:
    """Each GPU that has ECC has it on or off as the site states."""
    _require_ecc(host, node, "ecc mode/current", "nvidia-smi -e 1, then reboot")


def test_ecc_after_reboot(host: Host, node: Node) -> None:
    """No change of ECC waits for a reboot that the site does not state."""
    _require_ecc(host, node, "ecc mode/pending", "nvidia-smi -e 1", AFTER_REBOOT)


def test_memory_repair_is_not_pending(host: Host, node: Node) -> None:
    """No GPU waits for a reset to retire a page or remap a row of its memory."""
    _judge(host, node, "pending", f"nvidia-smi -r -i GPU, when no job runs; or {reboot(node)}")


def test_memory_repair_has_not_failed(host: Host, node: Node) -> None:
    """No GPU has memory that could not be remapped, nor is about to: spare rows, SRAM threshold."""
    _judge(host, node, "failed", _REPLACE)


def test_memory_has_no_errors(host: Host, node: Node) -> None:
    """No GPU had an error that ECC did not correct since its driver was loaded."""
    _judge(host, node, "memory", f"{_XID}; then nvidia-smi -r -i GPU, when no job runs")


def test_needs_no_recovery(host: Host, node: Node) -> None:
    """The driver asks for no reset, drain or reboot of a GPU."""
    _judge(host, node, "recovery", f"{_XID}; then drain the node, and nvidia-smi -r -i GPU")


def test_nothing_throttles_a_gpu(host: Host, node: Node) -> None:
    """No heat and no power brake slows a GPU; its power cap, idleness and set clocks may."""
    _judge(host, node, "throttled", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE; ipmitool sel elist")


def test_power_limit(host: Host, node: Node) -> None:
    """Each GPU may take the power that the site states, or at least what it may by default."""
    _judge(host, node, "power", "nvidia-smi -q -d POWER; who sets it: nvidia-smi -pl", _LIMIT)


def test_pcie(host: Host, node: Node) -> None:
    """The PCIe link of a GPU has all lanes, gave up no packet, and at work has its full speed."""
    _judge(host, node, "pcie", "lspci -vv; dmesg | grep -i aer; then reseat the GPU or its riser")


def test_nvlinks(host: Host, node: Node) -> None:
    """Each GPU has as many NVLinks up, and as fast, as the best of its model in the node."""
    gpus = _gpus(host)
    found = gpu.nvlinks(host) if len(gpus) > 1 else []
    linked = {model for model, rates in found if rates}
    count = Counter(model for model, _ in found)
    if not any(count[model] > 1 for model in linked):
        not_applicable("the node has no two GPUs of one model with NVLinks to compare")
    if len(gpus) != len(found):
        raise CouldNotTell(f"nvidia-smi nvlink -s shows {len(found)} GPUs, -q {len(gpus)}")
    for each, (model, rates) in zip(gpus, found, strict=True):
        best = max((own for name, own in found if name == model), key=lambda r: (len(r), sum(r)))
        if (len(rates), sum(rates)) < (len(best), sum(best)):
            where, look = "nvidia-smi nvlink -s", "nvidia-smi nvlink -e; dmesg | grep -i xid"
            setting = Setting(node, each.address, "NVLink", "", where, look=look, kind=_LINKS)
            setting.reject(*(f"{len(r)} up, {sum(r):g} GB/s together" for r in (rates, best)))


def test_nvlink_errors(host: Host, node: Node) -> None:
    """No NVLink of a GPU counts more errors an hour since the boot than a good link may."""
    gpus = _gpus(host)
    if not any(rates for _, rates in gpu.nvlinks(host)):
        not_applicable("no GPU of the node has an NVLink that is up")
    found = gpu.nvlink_errors(host)
    if len(gpus) != len(found):
        raise CouldNotTell(f"nvidia-smi nvlink -e shows {len(found)} GPUs, -q {len(gpus)}")
    hours, full = max(1.0, boot.uptime_s(host) / 3600), ""  # the driver was loaded since
    for each, counters in zip(gpus, found, strict=True):
        for worst in sorted(counters, key=lambda own: own.errors / own.most, reverse=True)[:1]:
            if worst.errors > worst.most * hours:
                name = f"{worst.name} are"
                setting = Setting(node, each.address, name, "", _NVLINK, look=_ENDS, kind=_LINKS)
                setting.reject(
                    f"{worst.errors:,} in {hours:.0f} h", f"at most {worst.most:,} an hour"
                )
        full += "".join(
            f"{each.address} {o.name}; " for o in counters if o.errors == gpu.FULL_COUNTER
        )
    if full:
        raise CouldNotTell(
            f"full, so their rates are not known: {full}reset them: nvidia-smi nvlink -re"
        )
    if not all(found):
        not_applicable(f"not verified: driver {gpu.read(host).version} shows no errors of NVLinks")


def test_driver_libraries(host: Host, node: Node) -> None:
    """The driver's libraries are whole, and of the version of its kernel module."""
    wanted = _gpus(host) and gpu.read(host).version
    fix = f"install libcuda and libnvidia-ml of driver {wanted} anew"
    for path, (version, size) in gpu.libraries(host).items():
        setting = Setting(node, path, "library", "", f"readlink -f {path}", fix=fix)
        setting.require(version if size else "an empty file", wanted)


def test_health_command(host: Host, node: Node, fleet: Fleet) -> None:
    """The site's own health command finds nothing wrong, where the site has one."""
    words = node.get(_COMMAND)
    if not words:
        not_applicable(f"{_COMMAND}: [], so the site has none")
    # All nodes at once, if each has it; else no node is asked that has it not.
    way = "everywhere" if all(each.get(_COMMAND) == words for each in fleet.nodes) else "fresh"
    found = ask(host, words, node.get("gpu_health_timeout_s"), **{way: True})
    said = dict.fromkeys(("ok", "skip", "unknown", "fail"), "")
    for each in found:
        said[each["state"]] += f"{each['name']}: {each['text']}; "
    if failed := said["fail"]:
        line = " ".join(words)
        setting = Setting(node, "", words[0], _COMMAND, line, look=line)
        setting.reject(f"fail: {failed.rstrip('; ')}", "ok")
    if said["unknown"] or not said["ok"]:
        raise CouldNotTell(f"{words[0]}: {said['unknown'].rstrip('; ') or 'all was skipped'}")


def test_fabric_manager_runs(host: Host, node: Node) -> None:
    """The fabric manager runs where the node has NVSwitches; without it CUDA does not start."""
    unit, is_contained = _fabric_manager(host, node)
    if not is_contained:
        setting = _unit(node, gpu.FABRIC_MANAGER, look=_FABRIC_GUIDE)
        setting.require(unit.get("ActiveState") or "absent", "active")


def test_fabric_manager_after_reboot(host: Host, node: Node) -> None:
    """The fabric manager starts at boot where the node has NVSwitches."""
    unit, is_contained = _fabric_manager(host, node)
    if is_contained:
        not_applicable("the fabric manager runs in a container, which this node's boot starts")
    fix = f"systemctl enable {gpu.FABRIC_MANAGER}"
    setting = _unit(node, gpu.FABRIC_MANAGER, AFTER_REBOOT, fix=fix)
    setting.require(unit.get("UnitFileState") or "absent", "enabled")


def test_fabric_manager_is_of_the_drivers_version(host: Host, node: Node) -> None:
    """The fabric manager has exactly the driver's version, else its next start fails."""
    _bridges(host, node)
    fix = "install the nvidia-fabricmanager package of the driver's version, and hold both"
    name, where = "nv-fabricmanager", "nv-fabricmanager --version"
    seen, wanted = gpu.fabric_manager_version(host), gpu.read(host).version
    Setting(node, name, "version", "", where, fix=fix).require(seen, wanted)


def test_nvlink_subnet_manager_runs(host: Host, node: Node) -> None:
    """NVLSM and its way to the NVSwitches, ib_umad, are there where NICs lead to NVSwitches."""
    bridge = _needs_nvlsm(host, node)
    umad = f"/sys/module/{gpu.UMAD}/initstate"
    seen = "not loaded" if read_files(host, umad).value(umad) is None else "loaded"
    where, fix = f"{umad}; {bridge}", f"modprobe {gpu.UMAD}"
    Setting(node, gpu.UMAD, "module", "", where, fix=fix).require(seen, "loaded")
    seen = "running" if gpu.runs(host, "nvlsm") else "absent"
    fix = f"install nvlsm, then systemctl restart {gpu.FABRIC_MANAGER}, which starts it"
    where = f"/proc/*/comm; {bridge}"
    Setting(node, "nvlsm", "process", "", where, fix=fix).require(seen, "running")


def test_nvlink_subnet_manager_after_reboot(host: Host, node: Node) -> None:
    """The next boot loads ib_umad, without which the fabric manager's unit does not start NVLSM."""
    _needs_nvlsm(host, node)
    if _fabric_manager(host, node)[1]:
        not_applicable("the fabric manager runs in a container, which loads what it needs")
    denied = kernel_modules.read(host).blocking_line(gpu.UMAD)
    seen = denied or ("loaded" if gpu.loads_umad(host) else "not loaded")
    where = "/etc/modprobe.d" if denied else "/etc/modules-load.d, /etc/rdma/modules, …"
    fix = f"echo {gpu.UMAD} > /etc/modules-load.d/nvidia-fabricmanager.conf"
    fix = "remove that line" if denied else fix
    Setting(node, gpu.UMAD, "module", "", where, AFTER_REBOOT, fix).require(seen, "loaded")


def test_gpus_have_joined_their_nvlink_fabric(host: Host, node: Node) -> None:
    """Each GPU of an NVLink fabric has registered with it, is healthy in it, and has a cluster."""
    domain = node.get("fabric_nvlink_domain")
    joining = [each for each in _gpus(host) if each.has_fabric or domain]
    if not joining:
        not_applicable("no GPU is part of an NVLink fabric (nvidia-smi -q, Fabric)")
    variable, look = ("", _FABRIC_GUIDE) if not domain else (_DOMAIN, _DOMAIN_GUIDE)
    for each in joining:
        setting = Setting(node, each.address, "NVLink fabric", variable, gpu.QUERY, look=look)
        state, status = each.text("fabric/state"), each.text("fabric/status")
        if state in gpu.REGISTERING and boot.uptime_s(host) < gpu.REGISTERS_S:
            why = f"{each.address}: its NVLink fabric is {state}, and the node has just been booted"
            raise CouldNotTell(
                why, f"run this again {gpu.REGISTERS_S // 60} minutes after the boot"
            )
        setting.require(f"{state}, {status}", gpu.JOINED)
        for seen, wanted in each.fabric_faults():
            setting.reject(seen, wanted)
        if domain and not each.cluster:
            setting.reject("in no cluster (ClusterUUID)", f"in the cluster of {domain}")


def test_imex_runs(host: Host, node: Node) -> None:
    """IMEX runs and is ready where the node shares NVLink and a list says with which nodes."""
    unit, nodes = _imex(host, node)
    setting = _unit(node, gpu.IMEX, variable=_DOMAIN, look=_IMEX_GUIDE, also=f"; {nodes}")
    setting.require(unit.get("ActiveState") or "absent", "active")
    state, others = gpu.imex_state(host)
    if state.startswith("WAITING") or (state == "READY" and others):
        # Others keep it waiting: they are judged where they are.
        what = ", ".join(others) or "nobody is missing"
        raise CouldNotTell(f"IMEX is {state}, and of its domain {what} (nvidia-imex-ctl -q, -N)")
    setting.require(f"active and {state}", "active and READY")


def test_imex_channel_running(host: Host, node: Node) -> None:
    """Jobs have IMEX's channel 0, without which CUDA may not share memory between nodes."""
    _needs_channel(host, node)
    there = host.run(f"ls {gpu.CHANNELS}/ 2> /dev/null").stdout.split()
    fix = "nvidia-modprobe -i 0:1, or load nvidia with NVreg_CreateImexChannel0=1"
    setting = Setting(node, gpu.CHANNELS, "channel0", _DOMAIN, gpu.CHANNELS, fix=fix)
    setting.require("present" if "channel0" in there else "absent", "present")


def test_imex_channel_after_reboot(host: Host, node: Node) -> None:
    """The next boot makes IMEX's channel 0: by the driver's option, or a file of tmpfiles.d."""
    _needs_channel(host, node)
    option = kernel_modules.read(host).option("nvidia", _CHANNEL)
    files = read_files(host, "/etc/tmpfiles.d/*.conf").texts
    if not any(f"{gpu.CHANNELS}/channel0" in text for text in files.values()):
        where = "/etc/modprobe.d, /etc/tmpfiles.d"
        fix = f"write options nvidia {_CHANNEL}=1 into /etc/modprobe.d, and rebuild the initramfs"
        setting = Setting(node, "nvidia", _CHANNEL, _DOMAIN, where, AFTER_REBOOT, fix)
        setting.require(option[0] if option else "absent", "1")


def _unit(
    node: Node, name: str, truth: str = RUNNING, variable: str = "", also: str = "", **more: str
) -> Setting:
    """Return what a unit is judged by."""
    return Setting(node, name, "unit", variable, f"systemctl show {name}{also}", truth, **more)


def _imex(host: Host, node: Node) -> tuple[Mapping[str, str], str]:
    """Return IMEX's unit, and how many nodes it connects; skip where a job starts it."""
    if not node.get(_DOMAIN):
        not_applicable(f"the site does not set {_DOMAIN}")
    others = gpu.imex_nodes(host)
    if not others:
        not_applicable(f"{gpu.NODES} lists no node, so a job starts IMEX itself")
    unit = units.show(host, gpu.IMEX)[gpu.IMEX]
    if (unit.get("UnitFileState"), unit.get("ActiveState")) == ("disabled", "inactive"):
        not_applicable(f"{gpu.IMEX} is disabled, so a job starts IMEX itself")
    return unit, f"{gpu.NODES} lists {len(others)} nodes"


def _needs_channel(host: Host, node: Node) -> None:
    """Skip the test where jobs get channels of their own."""
    _imex(host, node)
    if slurm.makes_imex_channels(host):
        not_applicable("SwitchType=switch/nvidia_imex: Slurm makes a channel for each job")


def _addresses(host: Host) -> tuple[str, ...]:
    """Return the PCI addresses of the node's NVIDIA GPUs; skip where there are none."""
    found = pci.Functions.read(host).gpus((pci.NVIDIA,))
    if not found:
        not_applicable(f"the node has no NVIDIA GPU ({devices.PCI})")
    return found


def _gpus(host: Host) -> tuple[gpu.Gpu, ...]:
    """Return what the driver shows of the node's GPUs; skip where there are none."""
    _addresses(host)
    return gpu.read(host).gpus


def _judge(host: Host, node: Node, check: str, look: str, variable: str = "") -> None:
    """Judge the fields of a check; one that the driver does not print is not verified."""
    every = [(each.address, *found) for each in _gpus(host) for found in findings(each, check)]
    unknown, stated = "", node.get(variable) if variable else 0
    for address, kind, name, seen, wanted in every:
        if stated and seen:
            wanted = f"{stated:.2f} W" if seen != f"{stated:.2f} W" else ""
        if wanted:
            its = look.replace("-i GPU", f"-i {address}")
            setting = Setting(node, address, name, variable, gpu.QUERY, look=its, kind=kind)
            setting.reject(seen, wanted)
        if wanted is None:
            unknown += f"{address}: {gpu.QUERY} shows {shown(seen or '')!r} as {name}; "
    if unknown:
        raise CouldNotTell(unknown.rstrip("; "))
    absent = ", ".join({name: 0 for _, _, name, seen, _ in every if seen is None})
    if absent or not every:
        what = f"driver {gpu.read(host).version} does not show {absent or 'it of these GPUs'}"
        not_applicable(f"not verified: {what}")


def _persistent(host: Host, node: Node) -> tuple[gpu.Gpu, ...]:
    """Return the node's GPUs; skip where the site leaves their persistence mode alone."""
    if node.get(_PERSISTENCE) == "keep":
        not_applicable(f"{_PERSISTENCE}: keep")
    return _gpus(host)


def _fabric_manager(host: Host, node: Node) -> tuple[Mapping[str, str], bool]:
    """Return the fabric manager's unit, and whether it runs in the driver's container instead."""
    _bridges(host, node)
    unit = units.show(host, gpu.FABRIC_MANAGER)[gpu.FABRIC_MANAGER]
    return unit, unit["LoadState"] == "not-found" and gpu.runs(host, "nv-fabricmanager")


def _bridges(host: Host, node: Node) -> tuple[str, ...]:
    """Return the NICs that lead to the node's NVSwitches, none where these are on PCI.

    Skip the test on nodes without, and where others manage them (an NVL72's trays, a guest's host).
    """
    _addresses(host)
    functions = pci.Functions.read(host)
    if functions.nvswitches():
        return ()
    if not any(each.has_fabric for each in gpu.read(host).gpus):
        not_applicable("no NVSwitch on the PCI bus, and no GPU is part of an NVLink fabric")
    if node.get("fabric_nvlink_domain"):
        not_applicable("fabric_nvlink_domain: the NVSwitches are in trays of their own")
    found = functions.nvswitch_bridges(host)
    if not found:
        not_applicable("no NVSwitch on the PCI bus, and no NIC leads to one (SW_MNG in its VPD)")
    return found


def _needs_nvlsm(host: Host, node: Node) -> str:
    """Return what shows that NVSwitches are managed over NICs; skip where they are not."""
    found = _bridges(host, node)
    if not found:
        not_applicable("the node's NVSwitches are on its PCI bus, and need no NVLSM")
    return f"{devices.PCI}/{found[0]}/vpd has SW_MNG"


def _require_ecc(host: Host, node: Node, path: str, fix: str, truth: str = "running") -> None:
    wanted = node.get("fabric_gpu_ecc")
    if wanted == "keep":
        not_applicable("fabric_gpu_ecc: keep")
    found = {each.address: each.is_on(path) for each in _gpus(host)}
    if all(is_on is None for is_on in found.values()):
        not_applicable("no GPU of the node has ECC")
    fix = fix if wanted == "on" else fix.replace("-e 1", "-e 0")
    for address, is_on in found.items():
        if is_on is not None:
            setting = Setting(node, address, "ECC", "fabric_gpu_ecc", gpu.QUERY, truth, fix)
            setting.require(is_on, wanted == "on")
