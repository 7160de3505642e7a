"""Congestion control of a port: ECN, congestion notification, DCQCN. Runs on the node.

The vendor's driver (MLNX_OFED, DOCA) has it in sysfs; Linux's own in debugfs, without a switch
for each priority (drivers/infiniband/hw/mlx5/cong.c), and only if the firmware permits.
"""

from __future__ import annotations

from ..machine import Machine
from ..netdevs import master_of
from ..plan import RUNNING, Change, Plan, Refused
from ..rails import pci_of, rdma_of
from .description import PRIORITIES, Description

# Parameters by Linux's names, as the vendor's driver calls them.
PARAMETERS = {
    "rp_clamp_tgt_rate": "roce_rp/clamp_tgt_rate",
    "rp_clamp_tgt_rate_ati": "roce_rp/clamp_tgt_rate_after_time_inc",
    "rp_time_reset": "roce_rp/rpg_time_reset",
    "rp_byte_reset": "roce_rp/rpg_byte_reset",
    "rp_threshold": "roce_rp/rpg_threshold",
    "rp_ai_rate": "roce_rp/rpg_ai_rate",
    "rp_max_rate": "roce_rp/rpg_max_rate",
    "rp_hai_rate": "roce_rp/rpg_hai_rate",
    "rp_min_dec_fac": "roce_rp/rpg_min_dec_fac",
    "rp_min_rate": "roce_rp/rpg_min_rate",
    "rp_rate_to_set_on_first_cnp": "roce_rp/rate_to_set_on_first_cnp",
    "rp_dce_tcp_g": "roce_rp/dce_tcp_g",
    "rp_dce_tcp_rtt": "roce_rp/dce_tcp_rtt",
    "rp_rate_reduce_monitor_period": "roce_rp/rate_reduce_monitor_period",
    "rp_initial_alpha_value": "roce_rp/initial_alpha_value",
    "rp_gd": "roce_rp/rpg_gd",
    "np_min_time_between_cnps": "roce_np/min_time_between_cnps",
}
LOCKDOWN = "/sys/kernel/security/lockdown"


def plan_congestion(plan: Plan, netdev: str, wanted: Description) -> None:
    """Plan a port's congestion control where its driver shows it.

    Raises:
        Refused: the site wants a parameter that cannot be set here.
    """
    machine = plan.machine
    for name in wanted.dcqcn:
        if name not in PARAMETERS:
            raise Refused(
                f"roce_qos_dcqcn: {name} is not a congestion control parameter: write one of "
                + ", ".join(PARAMETERS)
            )
    vendors = f"/sys/class/net/{netdev}/ecn"
    kernels = f"/sys/kernel/debug/mlx5/{pci_of(machine, netdev)}/cc_params"
    if machine.exists(vendors):
        _vendors(plan, netdev, vendors, wanted)
        return
    locked = _is_locked_down(machine)
    if machine.exists(kernels) and not locked:
        _kernels(plan, netdev, kernels, wanted)
        return
    if not rdma_of(machine, netdev) and master_of(machine, netdev):
        plan.notes.append(
            f"{netdev}: ECN and CNPs: the kernel shows those of a LAG's first port alone "
            "(drivers/infiniband/hw/mlx5/cong.c)"
        )
        return
    why = f"there is no {vendors}, and no cc_params of the kernel's in debugfs"
    if locked:
        why = f"there is no {vendors}, and the kernel is locked down ({LOCKDOWN})"
    if wanted.dcqcn:
        raise Refused(
            f"{netdev}: roce_qos_dcqcn cannot be set: {why}. Install the vendor's driver "
            "(ofed_source), or remove it"
        )
    plan.notes.append(
        f"{netdev}: ECN and CNPs: {why}. Set them in the firmware: mlx5_firmware_settings, "
        "ROCE_CC_PRIO_MASK_P1, CNP_DSCP_P1, CNP_802P_PRIO_P1"
    )


def _vendors(plan: Plan, netdev: str, base: str, wanted: Description) -> None:
    for priority in PRIORITIES:
        for end in ("roce_np", "roce_rp"):
            path = f"{base}/{end}/enable/{priority}"
            on = str(int(wanted.ecn[priority]))
            plan.kernel_value(path, on, netdev, f"ECN of priority {priority} ({end})")
    path = f"{base}/roce_np/"
    plan.kernel_value(path + "cnp_dscp", str(wanted.cnp_dscp), netdev, "DSCP of CNPs")
    plan.kernel_value(path + "cnp_802p_prio", str(wanted.cnp_priority), netdev, "priority of CNPs")
    for name, value in wanted.dcqcn.items():
        plan.kernel_value(f"{base}/{PARAMETERS[name]}", str(value), netdev, name)


def _kernels(plan: Plan, netdev: str, base: str, wanted: Description) -> None:
    plan.kernel_value(f"{base}/np_cnp_dscp", str(wanted.cnp_dscp), netdev, "DSCP of CNPs")
    _kernels_priority(plan, netdev, base, str(wanted.cnp_priority))
    for name, value in wanted.dcqcn.items():
        plan.kernel_value(f"{base}/{name}", str(value), netdev, name)
    plan.notes.append(
        f"{netdev}: ECN of each priority: only the vendor's driver and the firmware can set it "
        "(mlx5_firmware_settings, ROCE_CC_PRIO_MASK_P1)"
    )


def _kernels_priority(plan: Plan, netdev: str, base: str, wanted: str) -> None:
    """Plan the priority of CNPs, whose write sets the mode too: 0, this priority for all."""
    machine, path = plan.machine, f"{base}/np_cnp_prio"
    mode = machine.value(f"{base}/np_cnp_prio_mode")
    if mode == "0":
        plan.kernel_value(path, wanted, netdev, "priority of CNPs")
        return
    seen = f"mode {mode}"
    change = Change(RUNNING, netdev, "priority of CNPs", seen, wanted)
    plan.add(change, lambda: machine.set(path, wanted))


def _is_locked_down(machine: Machine) -> bool:
    """Return whether the kernel keeps even root from debugfs (Secure Boot)."""
    text = machine.read(LOCKDOWN) or ""
    return "[integrity]" in text or "[confidentiality]" in text
