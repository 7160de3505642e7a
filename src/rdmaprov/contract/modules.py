"""Drivers that work together; module and firmware parameters that exist.

The kernel ignores an unknown parameter silently.
"""

import difflib
import re
from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.facts import firmware_profiles
from rdmaprov.inventory.model import Node

_SETTING_NAME = "mlx5_firmware_settings"
_ENGINE, _MODEL = "INTERNAL_CPU_OFFLOAD_ENGINE", "INTERNAL_CPU_MODEL"
# What each value is called, as mlxconfig lists them. [NVIDIA MFT, "Using mlxconfig"; BlueField BSP,
# "Modes of Operation"]
_LINK_TYPES = {"1": "IB", "2": "ETH", "3": "VPI"}
_ENGINES = {"0": "ENABLED", "1": "DISABLED"}
_MODELS = {"0": "SEPARATED_HOST", "1": "EMBEDDED_CPU"}
_NAME = "mlx5_module_parameters"
_PROFILES = "mlx5_firmware_profiles"
_IGNORED = "Linux kernel/module/main.c: unknown_module_param_cb"
# Parameters by module. [Linux drivers/net/ethernet/mellanox/mlx5/core/main.c;
# drivers/infiniband/core/device.c; NVIDIA open-gpu-kernel-modules kernel-open/nvidia-peermem]
_KNOWN: dict[str, frozenset[str]] = {
    "mlx5_core": frozenset({"debug_mask", "prof_sel"}),
    "mlx5_ib": frozenset(),
    "ib_core": frozenset({"netns_mode"}),
    "nvidia_peermem": frozenset({"peerdirect_support", "persistent_api_support"}),
}
_OFED_ONLY = {("mlx5_core", "probe_vf")}
_MLX4 = frozenset(
    {"log_num_mtt", "log_mtts_per_seg", "log_num_qp", "log_num_mgm_entry_size", "enable_4k_uar"}
)
_VALUES: dict[tuple[str, str], tuple[int, ...]] = {
    ("mlx5_core", "prof_sel"): (0, 1, 2, 3),
    ("mlx5_core", "debug_mask"): (0, 1, 2, 3),
    ("nvidia_peermem", "peerdirect_support"): (0, 1),
    ("nvidia_peermem", "persistent_api_support"): (0, 1),
}


def _named(value: object, names: dict[str, str]) -> str:
    """Return what a value is called, in capitals; empty for a boolean, which says neither."""
    text = str(value).strip().upper()
    if text in ("TRUE", "FALSE"):
        return ""
    text = re.sub(r"\(\d+\)$", "", text)  # as the tools show it
    return names.get(str(_number(text)), text)


def _number(value: object) -> int:
    """Return what mlxconfig takes a value for; -1 for none that counts something."""
    found = re.fullmatch(r"\s*(?:0x([0-9a-f]+)|(\d+))\s*", str(value).lower())
    return int(found[1] or found[2], 16 if found[1] else 10) if found else -1


def _ports(node: Node) -> set[int] | None:
    """Return the ports that rails are, of their cards, from 1 on; None if the site does not say."""
    functions = [re.search(r"\.([0-7])$", rail.pci) for rail in node.rails]
    known = [int(each[1]) + 1 for each in functions if each]
    return set(known) if len(known) == len(functions) else None


def _rails(node: Node) -> Iterator[Violation]:
    settings, ports = node.get(_SETTING_NAME) or {}, _ports(node)
    kind = {"roce": "ETH", "infiniband": "IB"}.get(node.get("fabric_kind") or "")
    for name, value in settings.items():
        names = {_ENGINE: _ENGINES, _MODEL: _MODELS}.get(name)
        port = re.fullmatch(r"LINK_TYPE_P(\d+)", str(name))
        if port:
            names = _LINK_TYPES
        if names and not _named(value, names):
            message = (
                f"{name}: {str(value).lower()} does not say which of {' and '.join(names)} is meant"
            )
            yield Violation(_SETTING_NAME, message, f"write {' or '.join(names.values())}", (name,))
        elif port and kind and _named(value, _LINK_TYPES) != kind:
            if ports is None or int(port[1]) in ports:
                message = f"{name} is {value}, but fabric_kind is {node.get('fabric_kind')}"
                remedy = f"write {kind}, or remove the line"
                if ports is None:
                    remedy += "; name the rails by pci if none of them is this port"
                yield Violation(_SETTING_NAME, message, remedy, (name,))
        elif name == "NUM_OF_PF" and ports and _number(value) < max(ports):
            message = f"NUM_OF_PF is {value}, so rails on function .{max(ports) - 1} would vanish"
            yield Violation(_SETTING_NAME, message, f"write {max(ports)} or more", (name,))
    engine, model = (
        _named(settings.get(each, "-"), names)
        for each, names in ((_ENGINE, _ENGINES), (_MODEL, _MODELS))
    )
    if engine == "ENABLED" and model != "SEPARATED_HOST":
        message = f"{_ENGINE} ENABLED is DPU mode: a BlueField's Arm processors would own the rails"
        yield Violation(_SETTING_NAME, message, "write DISABLED", (_ENGINE,))


FIRMWARE_RULES = (
    Rule("modules.rails",
         "No firmware setting takes a rail's port or its function away, or gives it to an Arm.",
         "NVIDIA MFT, Using mlxconfig; NVIDIA BlueField BSP, Modes of Operation", _rails),
)  # fmt: skip


def _parameters(node: Node) -> Iterator[tuple[str, str, str, object]]:
    """Yield module as written, module as the kernel names it, parameter and value."""
    for module, parameters in (node.get(_NAME) or {}).items():
        if isinstance(parameters, dict):
            for name, value in parameters.items():
                yield str(module), str(module).replace("-", "_"), str(name), value


def _shape(node: Node) -> Iterator[Violation]:
    for module, parameters in (node.get(_NAME) or {}).items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", str(module)):
            message = f"'{module}' is not a module name"
            yield Violation(_NAME, message, "write a module, such as mlx5_core", (module,))
        elif not isinstance(parameters, dict):
            message = f"the value of {module} is not a dictionary of parameters"
            remedy = f"write parameters with values, such as {module}: {{prof_sel: 2}}"
            yield Violation(_NAME, message, remedy, (module,))


def _unknown_parameters(node: Node) -> Iterator[Violation]:
    inbox = node.get("ofed_source") == "inbox"
    for written, module, name, _ in _parameters(node):
        where = (written, name)
        if name in _MLX4 and module.startswith("mlx5"):
            message = f"{name} is a parameter of mlx4_core (ConnectX-3), not of {module}"
            remedy = "remove it: mlx5 sizes its tables itself"
        elif (module, name) in _OFED_ONLY:
            if not inbox:
                continue
            message = f"only OFED's {module} has {name}, but ofed_source is inbox"
            remedy = "remove it, or write ofed_source: doca"
        elif module in _KNOWN and name not in _KNOWN[module]:
            near = difflib.get_close_matches(name, _KNOWN[module], n=1)
            message = f"{module} has no parameter {name}, so the kernel would ignore it"
            remedy = f"did you mean {near[0]}?" if near else "remove it"
        elif module == "nvidia" and not name.startswith("NVreg_"):
            message = f"nvidia has no parameter {name}"
            remedy = f"did you mean NVreg_{name}?"
        else:
            continue
        yield Violation(_NAME, message, remedy, where)


def _values(node: Node) -> Iterator[Violation]:
    for written, module, name, value in _parameters(node):
        allowed = _VALUES.get((module, name))
        text = str(int(value)) if isinstance(value, bool) else str(value)
        if allowed is not None and text not in map(str, allowed):
            message = f"{value} is not a value of {name}"
            remedy = f"write one of {', '.join(map(str, allowed))}"
        elif isinstance(value, (list, dict)) or value is None:
            message, remedy = f"{name} has no value", "write a number or text"
        elif re.search(r"[\n\r#]", str(value)):
            message = f"the value of {name} has a line break or a #, which modprobe.d cannot hold"
            remedy = "write one line without #"
        else:
            continue
        yield Violation(_NAME, message, remedy, (written, name))


def _firmware(node: Node) -> Iterator[Violation]:
    settings = node.get("mlx5_firmware_settings") or {}
    for name, value in settings.items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*(\[\d+\])?", str(name)):
            message, remedy = (
                f"'{name}' is not a firmware setting",
                "write a setting, such as ATS_ENABLED",
            )
        elif isinstance(value, (list, dict)) or value is None:
            message, remedy = f"{name} has no value", "write a number or text"
        else:
            continue
        yield Violation("mlx5_firmware_settings", message, remedy, (name,))
    version = node.get("mlx5_firmware_version")
    if version and not re.fullmatch(r"\d+\.\d+\.\d+", version):
        message = f"'{version}' is not a firmware version"
        yield Violation(
            "mlx5_firmware_version", message, "write all three parts, such as 28.43.2026"
        )


def _profiles(node: Node) -> Iterator[Violation]:
    """Yield what profiles contradict: one another, the fabric, and who owns DCBX."""
    chosen = [each for each in node.get(_PROFILES) or [] if each in firmware_profiles.PROFILES]
    own = node.get("mlx5_firmware_settings") or {}
    remedy = "keep one of them, or write the setting in mlx5_firmware_settings"
    for index, profile in enumerate(chosen):
        for other in chosen[:index]:
            values, others = (firmware_profiles.PROFILES[each] for each in (profile, other))
            both = [n for n in values if n in others and values[n] != others[n] and n not in own]
            if both:
                message = f"{other} and {profile} give {both[0]} different values"
                yield Violation(_PROFILES, message, remedy, (index,))
    if "roce" in chosen and node.get("fabric_kind") == "infiniband":
        message = "roce is for Ethernet, but fabric_kind is infiniband"
        yield Violation(_PROFILES, message, "remove roce", (chosen.index("roce"),))
    for owner, other in (("host", "firmware"), ("firmware", "host")):
        profile = f"{owner}-dcbx"
        if is_roce(node) and profile in chosen and node.get("roce_qos_dcbx") == other:
            message = f"{profile} contradicts roce_qos_dcbx: {other}"
            remedy = f"write {other}-dcbx, or roce_qos_dcbx: {owner}"
            yield Violation(_PROFILES, message, remedy, (chosen.index(profile),))


RULES = (
    Rule("modules.shape", "Each module has parameters with values.", "man modprobe.d.5", _shape),
    Rule("modules.known", "Each parameter exists in its module.", _IGNORED, _unknown_parameters),
    Rule("modules.value", "Each parameter has a value that its module accepts.",
         "Linux drivers/net/ethernet/mellanox/mlx5/core/main.c; nvidia-peermem.c", _values),
    Rule("modules.firmware", "Firmware settings and versions are well-formed.",
         "man mstconfig.1", _firmware),
    Rule("modules.profiles", "Firmware profiles fit each other, the fabric and roce_qos_dcbx.",
         "NVIDIA Network Operator, NIC configuration details", _profiles),
)  # fmt: skip


_OFED = "NVIDIA DOCA and MLNX_OFED installation guides"
_GDR = "NVIDIA GPU Operator documentation: GPUDirect RDMA"
_VERSIONS = {
    "doca": (re.compile(r"(latest|\d+\.\d+(\.\d+)?([.-][\w.]+)?)"), "3.1.0"),
    "mlnx_ofed": (re.compile(r"\d+\.\d+-\d+(\.\d+)+"), "24.10-1.1.4.0"),
}
_DMABUF_KERNEL = (5, 12)
_PIN = r"[A-Za-z0-9._-]+(\[[\w,-]+\])?\s*==\s*[\w.+!-]+(\s+--hash=sha256:[0-9a-f]{64})*"


def _version(node: Node) -> Iterator[Violation]:
    source, version = node.get("ofed_source"), node.get("ofed_version")
    if source is None or version is None:
        return
    if source in ("keep", "inbox"):
        if version:
            message = f"ofed_source is {source}, which has no version '{version}'"
            yield Violation("ofed_version", message, "remove the line, or write ofed_source: doca")
        return
    pattern, example = _VERSIONS[source]
    if not version:
        message = f"{source} is not pinned: ofed_version is empty"
        remedy = f"pin the version, such as ofed_version: {example}"
        yield Violation("ofed_version", message, remedy, (), ("ofed_source",))
    elif not pattern.fullmatch(version):
        message = f"'{version}' is not a version of {source}"
        yield Violation("ofed_version", message, f"write a version, such as {example}")


def _package_source(node: Node) -> Iterator[Violation]:
    if node.get("ofed_package_url") and node.get("ofed_repository_url"):
        message = "ofed_repository_url is set too"
        yield Violation("ofed_package_url", message, "remove one of the two")
    if node.get("ofed_package_url") and not node.get("ofed_package_sha256"):
        message = "ofed_package_sha256 is not set, so the file is not verified"
        yield Violation("ofed_package_url", message, "write ofed_package_sha256")
    for name in ("ofed_repository_url", "ofed_repository_key_url", "ofed_package_url"):
        url = node.get(name)
        if url and not re.fullmatch(r"(https?|file)://\S+|/\S+", url):
            message = f"'{url}' is not a URL or an absolute path"
            yield Violation(name, message, "write https://..., file:///... or an absolute path")
    key = node.get("ofed_repository_key_url") or ""
    if key.startswith("http:") and not node.get("ofed_repository_key_fingerprint"):
        message = "a key fetched over http without a fingerprint can be forged"
        remedy = "write https://..., or set ofed_repository_key_fingerprint"
        yield Violation("ofed_repository_key_url", message, remedy)


def _digests(node: Node) -> Iterator[Violation]:
    for name, digits in (("ofed_package_sha256", 64), ("ofed_repository_key_fingerprint", 40)):
        value = (node.get(name) or "").replace(" ", "")
        if value and not re.fullmatch(rf"[0-9A-Fa-f]{{{digits}}}", value):
            message = f"'{node.get(name)}' is not {digits} hexadecimal digits"
            yield Violation(name, message, "copy the digest that its publisher shows")


def _peermem(node: Node) -> Iterator[Violation]:
    if node.get("peermem_mode") != "nvidia-peermem" or node.get("ofed_source") != "inbox":
        return
    if node.get("peermem_inbox_symbols") is False:
        message = (
            "nvidia-peermem needs ib_register_peer_memory_client, which ofed_source: inbox lacks"
        )
        remedy = "write ofed_source: doca, or peermem_mode: dmabuf"
        yield Violation("peermem_mode", message, remedy, (), ("ofed_source",))


def _dmabuf(node: Node) -> Iterator[Violation]:
    if node.get("peermem_mode") != "dmabuf":
        return
    if node.get("peermem_gpu_module") == "proprietary":
        message = "dma-buf needs the open nvidia module, but peermem_gpu_module is proprietary"
        yield Violation("peermem_mode", message, "write nvidia-peermem, or install the open module")
    kernel = _kernel(node)
    # Red Hat's kernels keep their number when they get what Linux has later: the node can tell.
    is_backported = ".el" in (node.get("peermem_kernel_version") or "")
    if kernel is not None and kernel < _DMABUF_KERNEL and not is_backported:
        message = f"dma-buf needs Linux 5.12, but peermem_kernel_version is {kernel[0]}.{kernel[1]}"
        yield Violation("peermem_mode", message, "write nvidia-peermem, or upgrade the kernel")


def _kernel(node: Node) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", node.get("peermem_kernel_version") or "")
    return (int(found[1]), int(found[2])) if found else None


def _kernel_version(node: Node) -> Iterator[Violation]:
    version = node.get("peermem_kernel_version")
    if version is not None and _kernel(node) is None:
        message = f"'{version}' is not a kernel version"
        yield Violation("peermem_kernel_version", message, "write what `uname -r` prints")


def _torch(node: Node) -> Iterator[Violation]:
    kind, image = node.get("torch_runtime_kind"), node.get("torch_runtime_image") or ""
    if kind == "container" and not image:
        message = "a container needs an image, but torch_runtime_image is empty"
        remedy = "set torch_runtime_image to an image with a tag or a digest"
        yield Violation("torch_runtime_image", message, remedy, (), ("torch_runtime_kind",))
    if image and (image.endswith(":latest") or not re.search(r"[:@][^/]+$", image)):
        message = f"'{image}' is not pinned"
        yield Violation("torch_runtime_image", message, "add a version tag or a digest")
    if node.get("torch_runtime_index_url") and node.get("torch_runtime_wheelhouse"):
        message = "torch_runtime_index_url is set too"
        yield Violation("torch_runtime_wheelhouse", message, "remove one of the two")
    for name in ("torch_runtime_python", "torch_runtime_directory", "torch_runtime_wheelhouse"):
        path = node.get(name) or ""
        if path and not path.startswith("/"):
            yield Violation(
                name,
                f"'{path}' is not an absolute path",
                "write an absolute path, such as /opt/...",
            )


def _requirement_pins(node: Node) -> Iterator[Violation]:
    for index, text in enumerate(node.get("torch_runtime_requirements") or []):
        if not re.fullmatch(_PIN, text):
            message = f"'{text}' is not pinned"
            remedy = "write NAME==VERSION"
            yield Violation("torch_runtime_requirements", message, remedy, (index,))


SOFTWARE_RULES = (
    Rule("ofed.version", "The OFED version is pinned; inbox drivers have none.",
         _OFED, _version),
    Rule("ofed.origin", "OFED packages come from one source, and are verified.",
         _OFED, _package_source),
    Rule("ofed.digest", "Digests and fingerprints have the right length.",
         "RFC 4880, section 12.2; FIPS 180-4", _digests),
    Rule("peermem.symbols", "nvidia-peermem has a driver that provides its symbols.",
         "NVIDIA open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c", _peermem),
    Rule("peermem.dmabuf", "dma-buf has the open GPU module and Linux 5.12 or later.",
         _GDR, _dmabuf),
    Rule("peermem.kernel", "The kernel version is well-formed.", "man uname.1", _kernel_version),
    Rule("torch.runtime", "torch has one source, and its paths are absolute.",
         "pip documentation: install", _torch),
    Rule("torch.pinned", "torch's packages are pinned.",
         "PEP 440, version matching", _requirement_pins),
)  # fmt: skip
