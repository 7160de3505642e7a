"""Module and firmware parameters that exist: the kernel ignores an unknown one silently."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.facts import firmware_profiles
from rdmaprov.inventory.model import Node

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
    Rule(
        "modules.value",
        "Each parameter has a value that its module accepts.",
        "Linux drivers/net/ethernet/mellanox/mlx5/core/main.c; nvidia-peermem.c",
        _values,
    ),
    Rule(
        "modules.firmware",
        "Firmware settings and versions are well-formed.",
        "man mstconfig.1",
        _firmware,
    ),
    Rule(
        "modules.profiles",
        "Firmware profiles fit each other, the fabric and roce_qos_dcbx.",
        "NVIDIA Network Operator, NIC configuration details",
        _profiles,
    ),
)
