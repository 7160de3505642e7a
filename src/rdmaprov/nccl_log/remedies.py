"""Likely causes, from what NCCL itself wrote."""

from rdmaprov.nccl_log.matrix import Channel, Matrix, Transport
from rdmaprov.words import some

NO_CHANNELS = (
    "run a collective (since NCCL 2.22, the first one makes the channels) with NCCL_DEBUG=INFO and"
    " NCCL_DEBUG_SUBSYS=INIT,NET,ENV, and pass the whole log"
)

# NCCL tries a plugin, then IB, then Socket (src/plugin/net.cc). What explains most comes first.
_NO_RDMA = {
    "ib_disabled": "unset it",
    "net": "unset it, or set it to IB",
    "no_library": "install libibverbs (rdma-core) on the node, and in the container of the job",
    "ib_hca": "compare it with `ibv_devinfo -l`: it must name devices, not network interfaces",
    "no_device": "run `ibv_devinfo`: a port must be active, and a container needs /dev/infiniband",
    "plugin_failed": "compare the plugin's version with NCCL's, or set NCCL_NET_PLUGIN=none",
}
_NO_GDR = {
    "no_module": "load nvidia_peermem, or use the open GPU driver with dma-buf",
    "gdr_read": "unset it",
    "distance": "allow it by NCCL_NET_GDR_LEVEL if nvidia-smi topo -m shows no CPU between them",
    "gdr_level": "unset it, or allow the distance between GPU and HCA",
}


def transport(matrix: Matrix, host: str, channel: Channel) -> str:
    """Return the likely cause of a wrong transport on the channel's host, and what to do."""
    if channel.transport is Transport.OFI:
        return "NCCL uses the plugin for libfabric; set NCCL_NET_PLUGIN=none for InfiniBand or RoCE"
    if channel.transport is not Transport.SOCKET:
        return "compare NCCL_IB_HCA with the devices' link layers (`ibv_devinfo`)"
    return _logged_causes(matrix, host, _NO_RDMA) or (
        f"the log names no cause: on {host or 'the node'}, run `ibv_devinfo`, and set"
        " NCCL_DEBUG_SUBSYS=INIT,NET,ENV for the next run"
    )


def gdr(matrix: Matrix, host: str, channels: list[Channel]) -> str:
    """Return why the host's channels likely have no GPUDirect RDMA, and what to do."""
    said = _logged_causes(matrix, host, _no_gdr(matrix))
    if said:
        return said
    if all(channel.sends for channel in channels):
        # ncclTopoCheckGdr, src/graph/paths.cc: reads need Ampere or NVLink unless asked for.
        return (
            "only sends lack it: before Ampere and without NVLink, NCCL uses it for receives only,"
            " unless NCCL_NET_GDR_READ=1"
        )
    return (
        f"on {host or 'the node'}, check that nvidia_peermem is loaded or dma-buf works, and that"
        " GPU and HCA share a PCIe switch (`nvidia-smi topo -m`; NCCL_NET_GDR_LEVEL)"
    )


def unasked(matrix: Matrix) -> list[str]:
    """Return what the log says of sockets, or of no GPUDirect RDMA at all, though none asked.

    What somebody set on purpose is no reason.
    """
    if any({"ib_disabled", "net"} & one.hints.keys() for one in matrix.processes):
        return []
    kinds = {channel.transport for channel in matrix.channels}
    causes, what = _NO_RDMA, "sockets are used"
    if kinds and Transport.SOCKET not in kinds and not any(c.gdr for c in matrix.channels):
        causes, what = _no_gdr(matrix), "GPUDirect RDMA is not used"
    elif kinds != {Transport.SOCKET}:
        return []
    found: dict[str, list[str]] = {}
    # Of some ranks' logs, what the others do may differ.
    is_whole = kinds <= {Transport.IB, Transport.ROCE} and not matrix.absent
    for host in sorted({channel.rank.host for channel in matrix.channels}):
        own = [channel for channel in matrix.channels if channel.rank.host == host]
        said = _logged_causes(matrix, host, causes) or (gdr(matrix, "", own) if is_whole else "")
        if said:
            found.setdefault(said, []).append(host or "?")
    return [f"{some(hosts, 4)}: {what}: {said}" for said, hosts in found.items()]


def _no_gdr(matrix: Matrix) -> dict[str, str]:
    """Return the causes of no GPUDirect RDMA; NCCL before 2.23 looks for another file.

    src/transport/net_ib.cc of v2.22.3-1 asks for memory_peers alone, which MLNX_OFED's ib_core has
    and newer kernels have not; v2.23.4-1 asks for nvidia_peermem too.
    """
    old = [v for v in matrix.versions if tuple(map(int, v.split(".")[:2])) < (2, 23)]
    if not old:
        return _NO_GDR
    remedy = "use NCCL 2.23 or later, which sees nvidia_peermem without MLNX_OFED's memory_peers"
    return {**_NO_GDR, "no_module": f"{remedy}, or load that module if it is not"}


def unknown_transport(network: str) -> str:
    """Return how to make the transport of a network known."""
    if network.startswith(("IB", "gIB", "SHARP")):
        return (
            "pass the whole log: the line `NET/IB : Using`, which names the link layer, is missing"
            " for this process, or appears twice with different devices"
        )
    return f"the plugin {network} chooses its transport itself: read its documentation"


def _logged_causes(matrix: Matrix, host: str, causes: dict[str, str]) -> str:
    hints: dict[str, str] = {}
    for process in matrix.processes:
        if process.host == host:
            hints.update(process.hints)
    said = [f"`{hints[kind]}`: {remedy}" for kind, remedy in causes.items() if kind in hints]
    return ", or ".join(said[:2])
