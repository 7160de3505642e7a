"""Whether this machine can run ranks over NCCL. As a program: says what is missing, and fails."""

from __future__ import annotations

import shutil
import subprocess
import sys


def missing_gpu() -> str:
    if shutil.which("nvidia-smi") is None:
        return "no NVIDIA GPU: nvidia-smi is not installed (the GPU driver)"
    asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    said = (asked.stdout + asked.stderr).strip().splitlines()
    if asked.returncode != 0 or not any(line.startswith("GPU ") for line in said):
        return f"no NVIDIA GPU: nvidia-smi -L says {said[0] if said else 'nothing'}"
    return ""


if __name__ == "__main__":
    sys.exit(missing_gpu() or None)
