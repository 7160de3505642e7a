"""Drivers, peer memory and torch: versions that are given, and that go together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rdmaprov.contract.rule import Finding, Rule
from rdmaprov.inventory.model import Node

_OFED = "NVIDIA DOCA and MLNX_OFED installation guides"
_GDR = "NVIDIA GPU Operator documentation: GPUDirect RDMA"
_VERSIONS = {
    "doca": (re.compile(r"(latest|\d+\.\d+(\.\d+)?([.-][\w.]+)?)"), "3.1.0"),
    "mlnx_ofed": (re.compile(r"\d+\.\d+-\d+(\.\d+)+"), "24.10-1.1.4.0"),
}
_DMABUF_KERNEL = (5, 12)
_PIN = r"[A-Za-z0-9._-]+(\[[\w,-]+\])?\s*==\s*[\w.+!-]+(\s+--hash=sha256:[0-9a-f]{64})*"


def _version(node: Node) -> Iterator[Finding]:
    source, version = node.get("ofed_source"), node.get("ofed_version")
    if source is None or version is None:
        return
    if source == "inbox":
        if version:
            message = f"'{version}' is given, and the kernel's own drivers have no version"
            yield Finding("ofed_version", message, "remove the line, or write ofed_source: doca")
        return
    pattern, example = _VERSIONS[source]
    if not version:
        message = f"{source} is not pinned"
        yield Finding("ofed_version", message, f"write such as {example}", (), ("ofed_source",))
    elif not pattern.fullmatch(version):
        message = f"'{version}' is not a version of {source}"
        yield Finding("ofed_version", message, f"write such as {example}")


def _origin(node: Node) -> Iterator[Finding]:
    if node.get("ofed_package_url") and node.get("ofed_repository_url"):
        message = "ofed_repository_url is given as well"
        yield Finding("ofed_package_url", message, "remove one of the two")
    if node.get("ofed_package_url") and not node.get("ofed_package_sha256"):
        message = "a file without ofed_package_sha256 is not verified"
        yield Finding("ofed_package_url", message, "write ofed_package_sha256")
    for name in ("ofed_repository_url", "ofed_repository_key_url", "ofed_package_url"):
        url = node.get(name)
        if url and not re.fullmatch(r"(https?|file)://\S+|/\S+", url):
            message = f"'{url}' is neither a URL nor a path"
            yield Finding(name, message, "write https://... or file:///...")
    key = node.get("ofed_repository_key_url") or ""
    if key.startswith("http:") and not node.get("ofed_repository_key_fingerprint"):
        message = "a key over http, with no fingerprint, can be anyone's"
        remedy = "write https://..., or ofed_repository_key_fingerprint"
        yield Finding("ofed_repository_key_url", message, remedy)


def _digests(node: Node) -> Iterator[Finding]:
    for name, digits in (("ofed_package_sha256", 64), ("ofed_repository_key_fingerprint", 40)):
        value = (node.get(name) or "").replace(" ", "")
        if value and not re.fullmatch(rf"[0-9A-Fa-f]{{{digits}}}", value):
            message = f"'{node.get(name)}' does not have {digits} hexadecimal digits"
            yield Finding(name, message, "copy it from its source")


def _peermem(node: Node) -> Iterator[Finding]:
    if node.get("peermem_mode") != "nvidia-peermem" or node.get("ofed_source") != "inbox":
        return
    if node.get("peermem_inbox_symbols") is False:
        message = "nvidia-peermem needs ib_register_peer_memory_client, and ofed_source is inbox"
        remedy = "write ofed_source: doca, or peermem_mode: dmabuf"
        yield Finding("peermem_mode", message, remedy, (), ("ofed_source",))


def _dmabuf(node: Node) -> Iterator[Finding]:
    if node.get("peermem_mode") != "dmabuf":
        return
    if node.get("peermem_gpu_module") == "proprietary":
        message = "dma-buf needs the open nvidia module, and peermem_gpu_module is proprietary"
        yield Finding("peermem_mode", message, "write nvidia-peermem, or install the open module")
    kernel = _kernel(node)
    if kernel is not None and kernel < _DMABUF_KERNEL:
        message = f"dma-buf needs Linux 5.12, and the node has {kernel[0]}.{kernel[1]}"
        yield Finding("peermem_mode", message, "write nvidia-peermem, or upgrade the kernel")


def _kernel(node: Node) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", node.get("peermem_kernel_version") or "")
    return (int(found[1]), int(found[2])) if found else None


def _kernel_form(node: Node) -> Iterator[Finding]:
    version = node.get("peermem_kernel_version")
    if version is not None and _kernel(node) is None:
        message = f"'{version}' is not a kernel version"
        yield Finding("peermem_kernel_version", message, "write what `uname -r` prints")


def _torch(node: Node) -> Iterator[Finding]:
    kind, image = node.get("torch_runtime_kind"), node.get("torch_runtime_image") or ""
    if kind == "container" and not image:
        message = "there is no image to run"
        yield Finding("torch_runtime_image", message, "write one", (), ("torch_runtime_kind",))
    if image and (image.endswith(":latest") or not re.search(r"[:@][^/]+$", image)):
        yield Finding("torch_runtime_image", f"'{image}' is not pinned", "write a tag or a digest")
    if node.get("torch_runtime_index_url") and node.get("torch_runtime_wheelhouse"):
        message = "torch_runtime_index_url is given as well"
        yield Finding("torch_runtime_wheelhouse", message, "remove one of the two")
    for name in ("torch_runtime_python", "torch_runtime_directory", "torch_runtime_wheelhouse"):
        path = node.get(name) or ""
        if path and not path.startswith("/"):
            yield Finding(name, f"'{path}' is not an absolute path", "write such as /opt/...")


def _pinned(node: Node) -> Iterator[Finding]:
    for index, text in enumerate(node.get("torch_runtime_requirements") or []):
        if not re.fullmatch(_PIN, text):
            message = f"'{text}' is not pinned"
            remedy = "write NAME==VERSION"
            yield Finding("torch_runtime_requirements", message, remedy, (index,))


RULES = (
    Rule("ofed.version", "OFED is pinned; the kernel's own drivers are not.", _OFED, _version),
    Rule("ofed.origin", "Packages come from one place, and are verified.", _OFED, _origin),
    Rule("ofed.digest", "Digests have their length.",
         "RFC 4880, section 12.2; FIPS 180-4", _digests),
    Rule("peermem.symbols", "nvidia-peermem has a driver with its symbols.",
         "NVIDIA open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c", _peermem),
    Rule("peermem.dmabuf", "dma-buf has an open kernel module and Linux 5.12.", _GDR, _dmabuf),
    Rule("peermem.kernel", "The kernel version is one.", "man uname.1", _kernel_form),
    Rule("torch.runtime", "torch has one source, at an absolute path.",
         "pip documentation: install", _torch),
    Rule("torch.pinned", "torch's packages are pinned.", "PEP 440, version matching", _pinned),
)  # fmt: skip
