"""GPUDirect RDMA: nvidia-peermem or dma-buf."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import kernel_modules, pci
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.text import output, read_files, run_program
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, not_applicable

pytestmark = pytest.mark.state

_MODULE = "nvidia_peermem"
_MODE = "peermem_mode"
_CLIENTS = "/sys/kernel/mm/memory_peers"
_STATE = f"/sys/module/{_MODULE}/initstate"
_RELEASE, _DRIVER = "/proc/sys/kernel/osrelease", "/proc/driver/nvidia/version"
_VERBS = "/sys/module/ib_uverbs/initstate"
# Of ib_uverbs, from Linux 5.12 on (RDMA/umem 368c0159d492) and in older kernels that got it later.
_SYMBOL, _SYMBOLS = "ib_umem_dmabuf_get", "/proc/kallsyms"
_LOADED_AT_BOOT = ("/etc/modules-load.d/*.conf", "/usr/lib/modules-load.d/*.conf", "/etc/modules")


def test_module_is_loaded(host: Host, node: Node) -> None:
    """nvidia-peermem is loaded where the NICs reach GPU memory by it."""
    _needs_peermem(host, node)
    Setting(node, _MODULE, "module", "peermem_mode", where=_STATE).require(
        read_files(host, _STATE).value(_STATE), "live"
    )


def test_module_is_a_client_of_rdma(host: Host, node: Node) -> None:
    """nvidia-peermem is registered with the RDMA drivers, which loading alone does not ensure."""
    _needs_peermem(host, node)
    files = read_files(host, f"{_CLIENTS}/*/version", f"/sys/module/{_MODULE}/version")
    clients = [match[1] for match, _ in files.matching(_CLIENTS + "/([^/]+)/version")]
    kernel_shows_none = not clients and files.value(f"/sys/module/{_MODULE}/version")
    if not {"nv_mem", "nv_mem_nc"} & set(clients) and not kernel_shows_none:
        setting = Setting(node, _MODULE, "client of the RDMA drivers", _MODE, _CLIENTS)
        setting.reject(clients, "nv_mem or nv_mem_nc")


def test_module_is_loaded_after_reboot(host: Host, node: Node) -> None:
    """The next boot loads nvidia-peermem."""
    _needs_peermem(host, node)
    files = read_files(host, *_LOADED_AT_BOOT)
    lines = "".join(files.texts.values()).replace("-", "_").splitlines()
    seen = "loaded" if _MODULE in [line.strip() for line in lines] else "not loaded"
    where = "/etc/modules-load.d"
    Setting(node, _MODULE, "module", _MODE, where, AFTER_REBOOT).require(seen, "loaded")


def test_module_is_not_denied_after_reboot(host: Host, node: Node) -> None:
    """No line of modprobe.d or the kernel's command line blocks nvidia-peermem at boot."""
    _needs_peermem(host, node)
    denied = kernel_modules.read(host).blocking_line(_MODULE)
    if denied:
        where, fix = "/etc/modprobe.d", "remove that line"
        setting = Setting(node, _MODULE, "module", _MODE, where, AFTER_REBOOT, fix)
        setting.reject(denied, "no such line")


def test_node_can_do_dmabuf(host: Host, node: Node) -> None:
    """Kernel and GPU driver support dma-buf; acceptance verifies the NICs' part."""
    if node.get("peermem_mode") != "dmabuf":
        not_applicable(f"peermem_mode: {node.get('peermem_mode')}")
    obstacle = _obstacle(host)
    if obstacle:
        setting = Setting(node, "dma-buf", "support", _MODE, f"{_SYMBOLS}, {_DRIVER}")
        setting.reject(obstacle, f"{_SYMBOL} and the open GPU driver")


def test_gpu_driver_is_of_the_sites_flavour(host: Host, node: Node) -> None:
    """The GPU's kernel module is the site's: open or proprietary."""
    wanted = node.get("peermem_gpu_module")
    if not wanted:
        not_applicable("the site does not set peermem_gpu_module")
    name, look = "peermem_gpu_module", "modinfo nvidia"
    setting = Setting(node, "nvidia", "flavour", name, _DRIVER, look=look)
    setting.require(_flavour(host), wanted)


def _needs_peermem(host: Host, node: Node) -> None:
    """Skip the test where nvidia-peermem is not how the NICs reach GPU memory."""
    mode = node.get("peermem_mode")
    if mode in ("off", "dmabuf"):
        not_applicable(f"peermem_mode: {mode}")
    if mode == "auto":
        if not pci.Functions.read(host).gpus((pci.NVIDIA,)):
            not_applicable("peermem_mode: auto, and the node has no NVIDIA GPU")
        if not _obstacle(host):
            not_applicable("peermem_mode: auto, and the node supports dma-buf")


def _obstacle(host: Host) -> str:
    """Return why the node cannot do dma-buf, empty if it can."""
    found = run_program(host, f"grep -m1 -o ' {_SYMBOL}' {_SYMBOLS}")
    if found.rc != 0:
        files = read_files(host, _RELEASE, _VERBS)
        if found.rc > 1 or files.value(_VERBS) is None:
            why = found.last if found.rc > 1 else "ib_uverbs is not loaded"
            raise CouldNotTell(f"{_SYMBOLS}: whether there is {_SYMBOL} is unknown: {why}")
        return f"kernel {files.must(_RELEASE)} without {_SYMBOL}"
    flavour = _flavour(host)
    return "" if flavour == "open" else f"the {flavour} GPU driver"


def _flavour(host: Host) -> str:
    running = read_files(host, _DRIVER).get(_DRIVER)
    if running is not None:
        return "open" if "Open Kernel Module" in running else "proprietary"
    return "open" if "GPL" in output(host, "modinfo -F license nvidia") else "proprietary"
