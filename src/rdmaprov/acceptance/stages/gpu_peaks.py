"""What a GPU can do at most, by its data sheet."""

import re

# Dense TFLOP/s in bfloat16 (V100: float16) and GB/s of memory of NVIDIA's and AMD's data sheets, by
# what nvidia-smi prints. Cards that share their name with a faster one come before it.
_PEAKS = (
    (r"\bH100 NVL\b", 835.0, 3938.0),
    (r"\bH100 PCIe\b", 756.0, 2039.0),
    (r"\bG?H200\b", 989.0, 4800.0),
    (r"\bH100\b|\bH800\b", 989.0, 3352.0),
    (r"\bH20\b", 148.0, 4000.0),
    (r"\bGB200\b", 2500.0, 8000.0),
    (r"\bB200\b", 2250.0, 8000.0),
    (r"\bA[18]00.*-40GB\b", 312.0, 1555.0),
    (r"\bA[18]00.*PCI", 312.0, 1935.0),
    (r"\bA[18]00\b", 312.0, 2039.0),
    (r"\bL40S\b", 362.0, 864.0),
    (r"\bV100\b", 125.0, 900.0),
    (r"\bMI300X\b", 1307.0, 5300.0),
)


def peaks(gpu: str) -> tuple[float, float] | None:
    """Return a GPU's dense peak in bfloat16, TFLOP/s, and its memory's, GB/s; None: not known."""
    return next(((flops, gb_s) for name, flops, gb_s in _PEAKS if re.search(name, gpu)), None)
