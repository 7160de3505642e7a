"""A machine paused, saved into its own disk, and running again with the right time."""

import time
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UnreachableError
from rdmaprov.lab import monitor
from rdmaprov.lab.patience import limit_s

# A machine of many GiB on a slow disk takes minutes; 2 GiB take a second.
SAVE_TIMEOUT_S = 900.0
PAUSED_TIMEOUT_S = 3.0
CLOCK_TIMEOUT_S = 60.0
CLOCK_ATTEMPTS = 8
CLOCK_ERROR_S = 1.0  # a busy processor delays the script by more or less than that


def is_paused(node_dir: Path) -> bool:
    """Return whether the machine runs and its processors do not; False if QEMU does not answer."""
    try:
        with monitor.qemu(node_dir, limit_s(PAUSED_TIMEOUT_S, node_dir)) as machine:
            return not machine.ask("query-status")["running"]
    except (OSError, ValueError, UnreachableError):
        return False


def pause(node: str, node_dir: Path) -> None:
    """Stop the machine's processors, and with them its clock, or raise UnreachableError."""
    _command(node, node_dir, "stop")


def resume(node: str, node_dir: Path) -> None:
    """Let the machine's processors run on; raise UnreachableError if QEMU does not answer."""
    _command(node, node_dir, "cont")


def save(node: str, node_dir: Path, name: str) -> None:
    """Save memory, devices and disk of a machine into its disk; replace a state of the same name.

    Raises:
        RdmaprovError: QEMU refused.
        UnreachableError: QEMU does not answer.
    """
    said = _command(node, node_dir, "human-monitor-command", f"savevm {name}")
    if said:
        raise RdmaprovError(f"{node}: {said}", "Is there room on the disk? Nothing was saved.")


def delete(node: str, node_dir: Path, name: str) -> None:
    """Remove a machine's saved state, if there is one; UnreachableError: QEMU does not answer."""
    _command(node, node_dir, "human-monitor-command", f"delvm {name}")


def _command(node: str, node_dir: Path, execute: str, line: str | None = None) -> str:
    """Return what a monitor command printed; most print nothing."""
    arguments = {} if line is None else {"command-line": line}
    try:
        with monitor.qemu(node_dir, limit_s(SAVE_TIMEOUT_S, node_dir)) as machine:
            answer = machine.ask(execute, **arguments)
    except OSError as error:
        raise UnreachableError(
            f"the virtual machine of {node} does not answer ({error})", "Run: rdmaprov lab up"
        ) from error
    return answer.strip() if isinstance(answer, str) else ""


def set_clock(node: str, node_dir: Path) -> None:
    """Set a node's clock to this machine's time.

    Raises:
        RdmaprovError: it is still wrong after several attempts.
        UnreachableError: the guest agent does not answer.
    """
    lead_s = 0.0
    for _ in range(CLOCK_ATTEMPTS):
        script = f"date -u -s @{time.time() + lead_s:.3f}"
        monitor.run_inside(node, node_dir, script, limit_s(CLOCK_TIMEOUT_S, node_dir))
        behind_s = _clock_error_s(node, node_dir)
        if abs(behind_s) < CLOCK_ERROR_S:
            return
        lead_s += behind_s  # what the script took to start; the next one takes as long
    raise RdmaprovError(
        f"{node}: its clock is {behind_s:+.1f} s off and cannot be set",
        f"Run: rdmaprov lab reboot {node}",
    )


def _clock_error_s(node: str, node_dir: Path) -> float:
    """Return by how much a node's clock is behind for certain; negative if it is ahead.

    A busy machine takes its time to answer: a clock that was right at some moment between
    question and answer is right.
    """
    with monitor.agent(node, node_dir, limit_s(CLOCK_TIMEOUT_S, node_dir)) as agent:
        before = time.time()
        guest = float(agent.ask("guest-get-time")) / 1e9
        after = time.time()
    return max(before - guest, 0.0) + min(after - guest, 0.0)
