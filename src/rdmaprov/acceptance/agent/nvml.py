"""What NVIDIA's driver says of a GPU while it works: by its library, as nvidia-smi would be late.

Each number is -1 where the driver does not say it. Sources: nvml.h of driver 580; of drivers before
535 the function of clocks has an older name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_SM, _CELSIUS = 1, 0  # NVML_CLOCK_SM, NVML_TEMPERATURE_GPU
_MOST_PROCESSES = 64
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
UNKNOWN = -1


class _Process(ctypes.Structure):
    """A row of nvmlDeviceGetComputeRunningProcesses_v3."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("bytes", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    )


class _Pci(ctypes.Structure):
    """What nvmlDeviceGetPciInfo_v3 fills in."""

    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("ids", ctypes.c_uint * 5),
        ("bus", ctypes.c_char * 32),
    )


class GpuSensors:
    """The sensors of one GPU; without the library or the GPU nothing is known.

    Args:
        uuid: `GPU-` and what CUDA calls it; empty if CUDA does not say.
    """

    def __init__(self, uuid: str) -> None:
        self._library: Any = None
        self._gpu = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            begun = library.nvmlInit_v2() == 0
            by_uuid = library.nvmlDeviceGetHandleByUUID
            if uuid and begun and by_uuid(uuid.encode(), ctypes.byref(self._gpu)) == 0:
                self._library = library
        except (OSError, AttributeError):
            self._library = None

    def _call(self, name: str, *given: Any) -> bool:
        call: Callable[..., int] | None = getattr(self._library, name, None)
        return call is not None and call(self._gpu, *given) == 0

    def _number(self, names: tuple[str, ...], kind: type[Any], *given: Any) -> int:
        value = kind()
        for name in names:
            if self._call(name, *given, ctypes.byref(value)):
                return int(value.value)
        return UNKNOWN

    def read(self) -> tuple[int, int, int, int]:
        """Return the clock in MHz, the power in mW, the temperature in °C, and why it is slow."""
        whole = ctypes.c_uint
        return (
            self._number(("nvmlDeviceGetClockInfo",), whole, _SM),
            self._number(("nvmlDeviceGetPowerUsage",), whole),
            self._number(("nvmlDeviceGetTemperature",), whole, _CELSIUS),
            self._number(_REASONS, ctypes.c_ulonglong),
        )

    def limit_mw(self) -> int:
        """Return the power limit that is in force, in mW."""
        return self._number(("nvmlDeviceGetEnforcedPowerLimit",), ctypes.c_uint)

    def replays(self) -> int:
        """Return how many packets of its PCIe link were sent again since its driver was loaded."""
        return self._number(("nvmlDeviceGetPcieReplayCounter",), ctypes.c_uint)

    def processes(self) -> int:
        """Return how many processes compute on it."""
        count = ctypes.c_uint(_MOST_PROCESSES)
        rows = (_Process * _MOST_PROCESSES)()
        done = self._call("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), rows)
        return count.value if done else UNKNOWN

    def address(self) -> str:
        """Return its PCI address as the kernel writes it; empty if it is not known."""
        found = _Pci()
        if not self._call("nvmlDeviceGetPciInfo_v3", ctypes.byref(found)):
            return ""
        domain, _, rest = found.bus.decode("ascii", "replace").lower().partition(":")
        return f"{domain[-4:]}:{rest}"
