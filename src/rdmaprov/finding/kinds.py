"""What a finding can be: each kind by its id, what it means, what was seen, and usual causes.

docs/findings.md is written from here (`python -m rdmaprov.finding.document`). An id is kept for
ever: history and receivers of notifications know a trouble by it.
"""

from typing import NamedTuple


class FindingKind(NamedTuple):
    """What all findings of a kind have in common.

    Attributes:
        means: what is wrong; unknown, where a finding is not verified.
        causes: the usual ones, the most frequent one first, and what to do.
    """

    means: str
    seen: str
    causes: str


# The remedy of each rail.unsupported.
UNFIT = "Name a device whose data is on port 1 (fabric_rails); see: rdma link; docs/supported.md"

KINDS = {
    "address.taken": FindingKind(
        "Another node or rail answers to a rail's address.",
        "the kernel's neighbours (`ip neigh`) after connections over each rail",
        "the same address twice in `fabric_rails`; swapped cables; ARP that answers on any device",
    ),
    "backend.gloo": FindingKind(
        "Nodes with GPUs were measured over gloo, which shows neither their GPUs nor RDMA.",
        "the backend that was asked for; the GPUs that nodes have",
        "`--backend gloo`: run without it",
    ),
    "bandwidth.collective": FindingKind(
        "An all-gather, a reduce-scatter or an all-to-all is far below what the fabric gives.",
        "its largest message on all ranks, against 0.7 of its floor",
        "one bad path, which an all-reduce does not meet: `--pairs`; too few uplinks",
    ),
    "bandwidth.floor": FindingKind(
        "The fleet's all-reduce is below what its hardware must reach, or was not measured.",
        "bus bandwidth at 1 GiB or more, against [the floor](floor.md)",
        "what else was found; a rail or PCIe link at half its rate; GPUDirect RDMA not used",
    ),
    "certificate.altered": FindingKind(
        "A certificate is not what was signed.",
        "the signature and countersignatures, against the file; digests of its subjects",
        "somebody edited it; a file that was not copied whole: take it from the run",
    ),
    "certificate.countersignature": FindingKind(
        "A node did not countersign what a certificate says of it.",
        "host keys of the certificate, and the texts that they signed",
        "the node gave no answer as it was issued; its host key was replaced",
    ),
    "certificate.equal": FindingKind(
        "Nodes of a certificate have something in common that only one machine can have.",
        "host keys, serial numbers, UUIDs and GUIDs of all nodes",
        "one machine answered for two, or a node was cloned with its host key",
    ),
    "certificate.expired": FindingKind(
        "A certificate is no longer valid, or not yet.",
        "`issued` and `valid_until`, against this machine's clock",
        "accept the nodes anew; a clock that is wrong: `chronyc tracking`",
    ),
    "certificate.log": FindingKind(
        "A log beside a certificate is not the one of its run.",
        "SHA-256 of the files that it lists",
        "somebody edited the log, or it is unreadable: take it from the run",
    ),
    "certificate.replaced": FindingKind(
        "A part of a node was replaced since it was certified, or that is not known.",
        "serial numbers, GUIDs, firmware and drivers of the node, then and now",
        "`rdmaprov replace`, which accepts the node anew; a node that gives no answer",
    ),
    "certificate.shape": FindingKind(
        "A file has what a certificate cannot have.",
        "`docs/certificate.schema.json`",
        "another program wrote or changed it; a version of rdmaprov that is older than the file",
    ),
    "certificate.signer": FindingKind(
        "Nobody who may sign has signed a certificate, or who signed is not known.",
        "`certificate.json.sig`, against the file of allowed signers",
        "it was issued without a key; `--allowed-signers` is not given or lacks the key",
    ),
    "certificate.site": FindingKind(
        "The site says something else of a node than as it was certified.",
        "digests of its variables",
        "the site was changed since: accept the node anew",
    ),
    "certificate.verdict": FindingKind(
        "A certificate is of no pass, or its verdicts do not follow from its numbers.",
        "rows, floors and times of ranks, computed again",
        "somebody edited it: accept the nodes anew",
    ),
    "clock.off": FindingKind(
        "A node's clock differs from the controller's.",
        "its time before and after it was asked",
        "chronyd does not run, or does not reach its servers: `chronyc tracking`",
    ),
    "connection.broken": FindingKind(
        "Ranks lost their connections to a node, or to each other.",
        "errors of gloo or NCCL that name an address",
        "a node or link that failed; a firewall; a rank that died without a word",
    ),
    "control.filtered": FindingKind(
        "A firewall does not let TCP pass between nodes on the device by which ranks meet.",
        "connections of each node to a free port of the first and of the next node",
        "a firewall on a node or between nodes with few ports open: NCCL and gloo listen at any",
    ),
    "counters.full": FindingKind(
        "A counter stands at its largest value: what it would count from there on is not known.",
        "its value, over the watch",
        "it is never set back: `perfquery -R`",
    ),
    "counters.reset": FindingKind(
        "Counters were set back during a watch: what they had counted is lost.",
        "a value that is less than before",
        "somebody resets them (`perfquery -R`), or reloads the driver",
    ),
    "data.late": FindingKind(
        "The data of a training step arrive late.",
        "time in the phase data, against the step's computation",
        "the loader's processes are slow: `top`, its disk, its memory",
    ),
    "device.fleet-slow": FindingKind(
        "GPUs of a whole fleet are slower than their model is.",
        "each GPU's median against its model's data sheet",
        "clocks or power held down everywhere (`nvidia-smi -q -d PERFORMANCE,POWER`)",
    ),
    "device.slow": FindingKind(
        "A GPU, or a processor without one, multiplies matrices slower than its peers.",
        "each device alone, against the fleet's median",
        "clocks held down (`nvidia-smi -q -d PERFORMANCE`): heat, power; another process",
    ),
    "gpu.count": FindingKind(
        "A node has another number of GPUs than the site or its peers.",
        "`nvidia-smi`, `fabric_gpu_count`",
        "a GPU that fell off the bus (Xid 79) or does not come up: `dmesg -T`",
    ),
    "gpu.disturbed": FindingKind(
        "Another job began to use a GPU during the run: what was measured there is not known.",
        "processes of `nvidia-smi` before and after",
        "the node is not drained",
    ),
    "gpu.ecc": FindingKind(
        "A GPU's memory had errors that ECC did not correct, is worn, or waits for a recovery.",
        "`nvidia-smi -q`: volatile ECC errors, SRAM threshold, spare rows, recovery action",
        "a cell that a reset replaces: `nvidia-smi -r`; if it comes again: `dcgmi diag -r 3`, RMA",
    ),
    "gpu.hung": FindingKind(
        "A GPU does not end work that it has by itself.",
        "a product or copy of one GPU, without communication, against a time limit",
        "its kernel log has an Xid; reset the GPU, or replace it",
    ),
    "gpu.in-use": FindingKind(
        "A process uses a GPU before the run begins.",
        "processes of `nvidia-smi`",
        "the node is not drained; a process that a job left",
    ),
    "gpu.links": FindingKind(
        "Links between the GPUs of a node are slower, or fewer, than those of their peers.",
        "all GPUs of a node alone, against the fleet's median; the states of NVLinks",
        "NVLink with errors or down (`nvidia-smi nvlink -s`); a slow GPU",
    ),
    "gpu.lost": FindingKind(
        "A GPU does not answer any more.",
        "what `nvidia-smi` says of it",
        "it fell off the bus (Xid 79): reboot the node, then replace the GPU",
    ),
    "gpu.memory": FindingKind(
        "Memory of a GPU is used though no process uses it.",
        "free and total memory of `nvidia-smi`",
        "a process in another container or that hangs: `fuser -v /dev/nvidia*`",
    ),
    "gpu.pcie": FindingKind(
        "A GPU's PCIe link gave up packets, or runs with fewer lanes or slower than it can.",
        "`nvidia-smi -q`: rollovers of replays; width; generation of a GPU at work",
        "a GPU or riser that is not seated well; the slot's setting in the BIOS; `lspci -vv`",
    ),
    "gpu.slow-link": FindingKind(
        "Data between a GPU and its host are slower than those of its peers.",
        "copies of pinned memory to the GPU and back, all GPUs at once",
        "PCIe link with fewer lanes or a lower rate (`lspci -vv`, LnkSta): seat the card",
    ),
    "gpu.slow-memory": FindingKind(
        "A GPU's memory is slower than that of its peers, or than its model's.",
        "a copy within the GPU's memory",
        "memory clock held down, rows remapped: `nvidia-smi -q -d CLOCK,ROW_REMAPPER`",
    ),
    "gpu.split": FindingKind(
        "A GPU is split (MIG): NCCL does not run on its parts.",
        "`mig.mode.current` of `nvidia-smi`",
        "MIG left on: `nvidia-smi -mig 0`",
    ),
    "gpu.throttled": FindingKind(
        "Heat, a power brake or a lower power limit keeps a GPU's clocks down.",
        "`nvidia-smi -q`: clocks event reasons, temperature against its limit, power limit",
        "fans and inlets; a power supply that failed (`ipmitool sel elist`); `nvidia-smi -pl`",
    ),
    "gpu.unmeasured": FindingKind(
        "A GPU is not measured.", "its rank did not report", "logs of the run"
    ),
    "gpu.unread": FindingKind(
        "What GPUs a node has is not known.",
        "`nvidia-smi` failed",
        "driver and library of different versions: reboot, or load the module anew",
    ),
    "gpu.wrong": FindingKind(
        "A GPU computes wrong values.",
        "products of whole numbers, and the same product again and again, under load",
        "silent data corruption: replace the GPU",
    ),
    "gpu.xid": FindingKind(
        "The driver reports an error of a GPU or NVSwitch that needs a hand.",
        "Xid and SXid in the kernel's log since the boot, by NVIDIA's catalogue",
        "as the line says: reset the GPU (`nvidia-smi -r`), reboot, replace it if it comes again",
    ),
    "input.unread": FindingKind(
        "A file that was given is of no known kind, or a part of it is not known.",
        "what only one tool writes; the end of its text",
        "a text that was cut off; two texts in one file; another version of the tool",
    ),
    "link.down": FindingKind(
        "A link went down.",
        "the port's own counters, its carrier during the run, or NCCL's log",
        "cable or transceiver; the switch port; for many at once the switch",
    ),
    "link.errors": FindingKind(
        "A link has more errors than a link may have.",
        "the counter that `part` names, over the run, against a bit error rate of 1e-12",
        "cable or transceiver: reseat or swap; then the switch port",
    ),
    "link.pcie": FindingKind(
        "A NIC's PCIe link was narrower or slower at boot than the NIC can.",
        "the kernel's line `available PCIe bandwidth, limited by`",
        "a slot wired so, or its setting in the BIOS; a NIC or riser that is not seated well",
    ),
    "link.symbols": FindingKind(
        "A link has more wrong symbols than a link may have: what it carried is lost.",
        "the counter that `part` names, over the run, against a bit error rate of 1e-12",
        "cable or transceiver: reseat or swap, and clean optics; `ethtool -m`, `mlxlink`",
    ),
    "loopback.slow": FindingKind(
        "A NIC is slow to, or does not reach, memory of its own node.",
        "`ib_write_bw` of a rail with itself, against what the slots on the way carry",
        "a slot at a lower width or speed; ACS; the IOMMU; MaxReadReq: `lspci -vv`",
    ),
    "nccl.channels": FindingKind(
        "NCCL has no channel on a rail, on most nodes.",
        "bytes that each rail sent",
        "`NCCL_IB_HCA`; a node with fewer rails, whom all others follow",
    ),
    "nccl.diagnostics": FindingKind(
        "NCCL's own diagnostics found a part at fault.",
        "lines `NCCL DIAG` of the ranks",
        "as the line says: copies between GPUs, memory, the network",
    ),
    "nccl.failed": FindingKind(
        "NCCL or torch says that the job failed.",
        "warnings and results in NCCL's log, torch's errors",
        "as the line says: a path, memory, CUDA, a setting; a rank that ended first",
    ),
    "nccl.hca": FindingKind(
        "A rank uses another HCA than the site says.",
        "channels in NCCL's log",
        "`NCCL_IB_HCA`; a rail that is down, or that NCCL does not find",
    ),
    "nccl.log": FindingKind(
        "What NCCL used is not known: there is no log, or it lacks lines.",
        "files of NCCL_DEBUG",
        "a container with another `NCCL_DEBUG`; a rank that ended early",
    ),
    "nccl.network": FindingKind(
        "NCCL uses another network on a node than on the others.",
        "`Using network` in NCCL's log",
        "`NCCL_NET`, `NCCL_NET_PLUGIN`, `NCCL_IB_DISABLE`; no RDMA device",
    ),
    "nccl.no-gdr": FindingKind(
        "Data go through the host's memory: GPUDirect RDMA is not used.",
        "channels without GDRDMA in NCCL's log",
        "nvidia-peermem is not loaded, or no DMA-BUF; distance of GPU and NIC",
    ),
    "nccl.transport": FindingKind(
        "Ranks talk by another transport than the site says, such as sockets.",
        "channels in NCCL's log",
        "no RDMA device in the container; `NCCL_IB_DISABLE`; a rail without its address",
    ),
    "nccl.tuner": FindingKind(
        "NCCL did not load the tuner plugin of the site, or did not read its file.",
        "NCCL's log",
        "the library is in no directory of the loader's; versions that do not fit",
    ),
    "nccl.version": FindingKind(
        "Ranks have different versions of NCCL, or another than the site states.",
        "the version that each prints, and the package that torch loads",
        "another environment or image on some nodes; `nccl_version`",
    ),
    "node.busy": FindingKind(
        "Another acceptance runs on a node.",
        "its directory and processes",
        "wait for it; one that is gone left processes: `pgrep -af rdmaprov-accept`",
    ),
    "node.counters": FindingKind(
        "Counters of a node are not known.",
        "no answer, or no such counter",
        "the node or its connection is gone; a driver that does not have them: `ethtool -i`",
    ),
    "node.fault": FindingKind(
        "The kernel reports a fault of a NIC, of PCIe, memory or a processor, or of itself.",
        "lines of mlx5_core, AER, machine checks, EDAC and Oops in the kernel's log since the boot",
        "as the line says: firmware that stopped, heat, a cable, a card or a memory module",
    ),
    "node.neighbors": FindingKind(
        "A node's neighbor table was full during the run.",
        "the kernel's counter `table_fulls` of the table that `part` names, before and after",
        "`net.ipv4.neigh.default.gc_thresh3` too small for the nodes and rails in one subnet",
    ),
    "node.odd": FindingKind(
        "A node answers what rdmaprov's own programs do not.",
        "the shape of its answers",
        "something else answers there: drain it and look",
    ),
    "node.rebooted": FindingKind(
        "A node booted during a watch: what it had counted is lost.",
        "the id of its boot",
        "its console, `last -x`",
    ),
    "node.silent": FindingKind(
        "A node, or all nodes of a leaf, stopped answering during the run.",
        "the connection that each node has for the whole run",
        "it crashed or was switched off: its console; for a leaf the switch",
    ),
    "node.unreachable": FindingKind(
        "A node gave no answer: nothing is known of it.",
        "ssh's own words",
        "down; no route; a refused key; no sudo; no Python",
    ),
    "packets.discarded": FindingKind(
        "Packets of the lossless priority were discarded, or too many of another one.",
        "`rx_prioN_discards` of `ethtool -S`, over the run",
        "PFC is not on at both ends; buffers; a priority that the switch does not map",
    ),
    "packets.lost": FindingKind(
        "Packets are lost between nodes, at one end, or in a leaf.",
        "NAKs and timeouts of the senders, over the run",
        "PFC missing at a hop, errors of a link on the way, a full buffer of a switch",
    ),
    "part.slow": FindingKind(
        "Tests of groups leave one part at fault: a node, a rail, a pair, a leaf, the spines.",
        "who was in the groups that were slow or hung, and who in those that were not",
        "its links and switch ports; inside of a node PCIe and GPUs",
    ),
    "path.lossy": FindingKind(
        "TCP repeats too many segments on a rail.",
        "TCP_INFO of gloo's own connections",
        "cable, switch port, or an MTU that differs on the way",
    ),
    "path.unmeasured": FindingKind(
        "Paths between nodes have no result.",
        "perftest's own words",
        "perftest is missing or of another version; a firewall between the nodes",
    ),
    "process.late": FindingKind(
        "A rank is late though its device is good.",
        "a step without communication, against the device's own rate",
        "its processors: limits, other processes, the wrong NUMA node",
    ),
    "process.starved": FindingKind(
        "A rank had no processor for a part of the time.",
        "processor time against time while it multiplied matrices",
        "other processes; a limit of a cgroup; all ranks on the same cores",
    ),
    "rail.bypassed": FindingKind(
        "Data of a rail left by another device.",
        "bytes that each device sent while one rail was tested",
        "no table of its own for each rail: `ip rule`, `ip route`",
    ),
    "rail.not-ready": FindingKind(
        "A rail lacks what a run needs: device, link, address, MTU.",
        "sysfs and addresses before the run",
        "`rdmaprov apply`; a cable; a device of another name",
    ),
    "rail.slow": FindingKind(
        "A rail is slow, at one end or between all nodes.",
        "its all-reduce and bursts, against other rails and other nodes",
        "its link's rate, its PCIe link, a limit (`tc qdisc`), the switch port",
    ),
    "rail.unreachable": FindingKind(
        "Nodes do not reach each other over a rail.",
        "connections over each rail by its own device",
        "cable in another port; VLAN; address or mask; a firewall",
    ),
    "rail.unsupported": FindingKind(
        "A rail's device is of a kind that rdmaprov cannot judge.",
        "the ports of its RDMA device in sysfs",
        "data on other ports than the first (planes, two ports); an SMI device named as a rail",
    ),
    "rank.absent": FindingKind(
        "A rank did not join the others; one that still imports torch is no proven fault.",
        "who joined by the time limit",
        "a slow file server; a rank that hangs or ended: its standard error",
    ),
    "rank.died": FindingKind(
        "A rank was killed, or its program did not start.",
        "its exit status or signal, and the last thing that it said",
        "out of memory, a GPU error (Xid): `dmesg -T`",
    ),
    "rank.failed": FindingKind(
        "A rank failed by an error of its own.",
        "its exception",
        "as it says: memory, CUDA, versions",
    ),
    "rank.hangs": FindingKind(
        "A rank keeps the others waiting.",
        "its process, how many collectives it began, its stack, NCCL's RAS",
        "a process that is stopped or stuck in the kernel; a GPU that hangs: `dmesg -T`",
    ),
    "rank.late": FindingKind(
        "A rank joins collectives after the others.",
        "how long each waits for the others",
        "its processors or its GPU are slower",
    ),
    "rank.unproven": FindingKind(
        "A rank ended well and did not prove all that it was to prove.",
        "sizes, types and times that it reported",
        "another Python or torch than was checked",
    ),
    "rank.untrue": FindingKind(
        "A rank says that another one's data arrive wrong, where all results are right.",
        "what ranks on two other nodes or more say",
        "its memory; something else that answers there: drain it",
    ),
    "rate.changed": FindingKind(
        "All rails began to send less during the run, with the same work.",
        "samples of the rails' counters",
        "heat or power limits of GPUs; links that went down; other jobs",
    ),
    "rdma.failed": FindingKind(
        "RDMA fails on a path, at a rail, on a node or at a leaf.",
        "completions with error in NCCL's words: both ends, device, status",
        "a link that is down; no route between subnets; PFC storms; a full switch",
    ),
    "rendezvous.none": FindingKind(
        "No address of the first node is reachable from all others.",
        "connections by each device",
        "no address in `fabric_rails`; a firewall",
    ),
    "run.failed": FindingKind(
        "A run failed, and nothing tells whose fault that is.",
        "what was said last",
        "run it with `--isolate auto`: groups of nodes name the part",
    ),
    "run.leftover": FindingKind(
        "Processes of a run are left on a node, or may be.",
        "what the node's supervisor could not end",
        "stuck in the kernel: drain it, `dmesg -T`, reboot",
    ),
    "run.timeout": FindingKind(
        "The time that was given is up.",
        "`--timeout`",
        "more nodes and sizes than fit in: a longer one",
    ),
    "scaling.knee": FindingKind(
        "From some number of nodes on, the all-reduce is slower than it must be.",
        "the same test on sets of 2, 4, 8 … nodes, against a model of the fabric",
        "leaves, oversubscription, one slow node in all larger sets",
    ),
    "scaling.pairs": FindingKind(
        "Pairs of nodes are slower than healthy or than other sets: larger ones are not judged.",
        "the smallest sets of the curve",
        "what the stage pairs finds",
    ),
    "scaling.unmeasured": FindingKind(
        "The curve is not measured.", "no set of nodes finished", "what else was found"
    ),
    "sharp.unused": FindingKind(
        "The switches are to add up (SHARP), and NCCL does not use them; or that is not known.",
        "CollNet and TUNING lines in NCCL's log",
        "no aggregation manager; no plugin; a group that is too large",
    ),
    "sizes.cut": FindingKind(
        "Small sizes were not measured: large ones took the time.",
        "the sweep's time limit",
        "a fleet that is slow; fewer `--sizes`",
    ),
    "soak.slower": FindingKind(
        "The fleet was slower for a part of the soak.",
        "medians of intervals of 10 s",
        "heat, flapping links, other jobs: counters of that time",
    ),
    "soak.unmeasured": FindingKind(
        "The soak is not measured.", "no interval was reported", "it was too short: `--soak`"
    ),
    "state.unproven": FindingKind(
        "A node is not measured, because no complete validate has passed since it changed.",
        "results.json of all runs of validate and apply; the node's boot id",
        "a node that was never validated, or in part (`-k`, `-x`, an interrupt); a newer apply; a "
        "reboot; a node that did not answer: `rdmaprov validate`",
    ),
    "state.wrong": FindingKind(
        "A node is not measured, because its settings are wrong.",
        "the newest validate",
        "`rdmaprov apply`, then `rdmaprov validate`",
    ),
    "subnet.balance": FindingKind(
        "Routes load some links more than they need to.",
        "flows of a ring and of all pairs over the tables",
        "the routing engine, its root GUIDs; tables or weights written by hand",
    ),
    "subnet.cabling": FindingKind(
        "A cable is where the plan, or the peers of its host or switch, have none.",
        "`ibnetdiscover`, against `fabric_rails` and the other hosts",
        "swapped cables; a plan that is not as it was built",
    ),
    "subnet.credit-loop": FindingKind(
        "Routes form a loop of credits, which can stop all traffic for good.",
        "the tables of all switches",
        "an engine that allows loops: use ftree or updn",
    ),
    "subnet.engine": FindingKind(
        "Another routing engine than the expected one wrote the tables.",
        "the log of the master, and routes that the engine does not make",
        "an engine that does not suit the fabric: opensm takes the next one",
    ),
    "subnet.errors": FindingKind(
        "A port has more errors than a port may have.",
        "`perfquery`, `ibqueryerrors`: growth, or totals against the traffic",
        "cable or transceiver: clean or replace; counters of long ago: `perfquery -R`",
    ),
    "subnet.extra": FindingKind(
        "A switch, host or port is there that the site does not have.",
        "`ibnetdiscover`, against the site",
        "`fabric_other_hosts` or `fabric_spines` lack it; a host that is cabled by mistake",
    ),
    "subnet.manager": FindingKind(
        "There is no master, more than one, or another one than the site names.",
        "`sminfo`, `saquery SMIR`",
        "opensm does not run; priorities; a manager on a switch",
    ),
    "subnet.missing": FindingKind(
        "A rail, cable or switch is missing.",
        "`ibnetdiscover`, against the site or the peers",
        "no link: port, cable, or the port of the switch",
    ),
    "subnet.node": FindingKind(
        "All rails of a node are missing.",
        "`ibnetdiscover`, against the site",
        "the node is off; its ports are down",
    ),
    "subnet.partition": FindingKind(
        "A port lacks a partition key of the site.",
        "`smpquery pkeys`, against `fabric_partition_keys`",
        "`partitions.conf` of the manager; the manager has not read it again",
    ),
    "subnet.port": FindingKind(
        "A port with a link is not active, or its LID is missing or taken.",
        "`iblinkinfo`, `ibnetdiscover`",
        "the manager did not configure it: its log, `ibportstate`",
    ),
    "subnet.rate": FindingKind(
        "A link is slower than the site says, than its peers, or than both ends could be.",
        "width and speed, `iblinkinfo`",
        "cable or transceiver; a port that is limited",
    ),
    "subnet.routes": FindingKind(
        "Packets to an adapter have no route, a dead end, or go round in a loop.",
        "the tables of all switches",
        "tables of another time: have the manager write them again",
    ),
    "subnet.sharp": FindingKind(
        "SHARP is wanted, and a switch cannot do it, or no job is given.",
        "aggregation nodes; `sharp_hello`",
        "the firmware or setting of the switch; no aggregation manager",
    ),
    "subnet.unread": FindingKind(
        "A part of a subnet could not be verified.",
        "what a tool of infiniband-diags, or a log, said instead",
        "no access to umad devices; a tool that failed; host names that are not set",
    ),
    "sums.wrong": FindingKind(
        "Results of a collective are wrong.",
        "exact sums; each other's own values; pairs of ranks; nccl-tests' `#wrong`",
        "a GPU's memory or a NIC that damages data: drain the node, test it alone",
    ),
    "switch.buffers": FindingKind(
        "The priority of RoCE data has no room for what still arrives after a pause.",
        "answers that were saved from the switch, against the site",
        "a buffer profile that is not lossless: packets are lost",
    ),
    "switch.drops": FindingKind(
        "A switch dropped packets of RoCE data or of CNPs; of what age is not known.",
        "counters of its ports",
        "PFC missing at a hop; buffers; clear the counters and read them again",
    ),
    "switch.dscp-map": FindingKind(
        "RoCE data or CNPs have a class that does not belong to their priority.",
        "answers that were saved from the switch, against the site",
        "the DSCP map of the switch",
    ),
    "switch.ecn": FindingKind(
        "ECN does not mark, or begins where PFC pauses already.",
        "answers that were saved from the switch, against the site",
        "ECN is off for the queue; its thresholds",
    ),
    "switch.mtu": FindingKind(
        "The MTU of a port is below what the site needs.",
        "answers that were saved from the switch, against the site",
        "the default of the switch: set it at all hops",
    ),
    "switch.pfc": FindingKind(
        "PFC is off for the lossless priority, or on for another one.",
        "answers that were saved from the switch, against the site",
        "the default of the switch: set it at all hops",
    ),
    "switch.trust": FindingKind(
        "A port does not trust DSCP: RoCE data get the default priority.",
        "answers that were saved from the switch, against the site",
        "trust of another field; no map on the port",
    ),
    "switch.unread": FindingKind(
        "An answer of a switch is not read: what it would tell is not known.",
        "the saved file",
        "it was cut as it was saved; a version whose answers are not known",
    ),
    "switch.unusual": FindingKind(
        "A switch has another priority than usual; no site says what it should be.",
        "answers that were saved from the switch",
        "judge by a site: `--site`",
    ),
    "switch.watchdog": FindingKind(
        "The PFC watchdog is off, or counted storms.",
        "answers that were saved from the switch",
        "a NIC that never stops pausing stops the fabric: turn it on",
    ),
    "switch.weights": FindingKind(
        "The queue of CNPs is not served first.",
        "answers that were saved from the switch",
        "weights of queues: late CNPs slow congestion control",
    ),
    "torch.driver": FindingKind(
        "A node's GPU driver is older than the CUDA that its torch is built for.",
        "`torch/version.py`, libcuda's own version, `/sys/module/nvidia/version`",
        "a driver before 580 with the default torch: install a newer one, or pin a build of torch "
        "for an older CUDA",
    ),
    "torch.missing": FindingKind(
        "Torch cannot be started on a node.",
        "the interpreter of the site",
        "`rdmaprov apply --roles torch_runtime`; `torch_runtime_python`",
    ),
    "traffic.congested": FindingKind(
        "A rail, or the way into a leaf, is congested: its packets arrive marked.",
        "packets with ECN marks, and CNPs, of `hw_counters`",
        "several nodes that send to one; uplinks that are missing or loaded unevenly",
    ),
    "traffic.elsewhere": FindingKind(
        "A device that is no rail carried a part of the data.",
        "bytes that it sent during the run",
        "NCCL uses sockets: `NCCL_SOCKET_IFNAME`, `NCCL_IB_HCA`",
    ),
    "traffic.held": FindingKind(
        "A rail is paused and has no part in the congestion: it suffers from others.",
        "`rx_prioN_pause_duration` of `ethtool -S`, without CNPs",
        "a rail of the same plane that pauses its switch; ECN that is off in the switches",
    ),
    "traffic.none": FindingKind(
        "No node had traffic: nothing is known of congestion, pauses and imbalance.",
        "bytes of all rails",
        "no job runs: watch beside one, or beside `rdmaprov accept`",
    ),
    "traffic.paused": FindingKind(
        "A rail told its switch to stop sending, without a break.",
        "`tx_prioN_pause_duration`, `tx_pause_storm_*` of `ethtool -S`",
        "its NIC cannot take what arrives: PCIe link and slot, firmware, the IOMMU",
    ),
    "traffic.pauses": FindingKind(
        "A rail pauses its switch for a part of the time: it takes less than arrives.",
        "`tx_prioN_pause_duration` of `ethtool -S`",
        "its PCIe link and slot, its memory, the IOMMU",
    ),
    "traffic.priority": FindingKind(
        "Traffic has another priority than the lossless one; or that is not counted.",
        "`tx_prioN_bytes` of `ethtool -S`",
        "`NCCL_IB_TC`; trust or the DSCP map: `rdmaprov validate`",
    ),
    "traffic.share": FindingKind(
        "A rail sent much less than the others of its node; or nothing tells.",
        "bytes that each rail sent during the run",
        "`NCCL_IB_HCA`; its PCIe link (`lspci -vv`)",
    ),
    "traffic.stopped": FindingKind(
        "A rail sent nothing, or little, while the others of its node sent.",
        "samples of its counters",
        "its errors and its switch port at that time",
    ),
    "traffic.volume": FindingKind(
        "The rails of a node sent less than the algorithm must move.",
        "bytes that its rails sent, against a ring's",
        "NCCL used sockets or another device: `rdmaprov explain nccl-log`",
    ),
    "training.communication": FindingKind(
        "Communication of training is slow, and pairs of nodes do not show where.",
        "steps alone and together, then groups of nodes",
        "the stages pairs, groups and fleet tell more",
    ),
    "training.efficiency": FindingKind(
        "Training on all nodes reaches less of one node's tokens than it must.",
        "tokens per second on 1, 2, 4 … nodes",
        "what is found beside it",
    ),
    "training.unmeasured": FindingKind(
        "Training is not measured.", "ranks did not report their steps", "logs of the run"
    ),
    "version.mixed": FindingKind(
        "A node has another version than most.",
        "torch, NCCL or the driver of each node",
        "pin one version in the site, and apply",
    ),
}
