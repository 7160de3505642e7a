"""Drivers, peer memory and torch: versions are pinned and work together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rdmaprov.contract.rule import Rule, Violation
from rdmaprov.inventory.model import Node

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


RULES = (
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
