"""Faults of processes and their settings: what dies, hangs, corrupts, is late, or lies."""

from tests.madeup.condition import Condition, RankFault
from tests.madeup.faults import Chance, Truth, any_gpu, any_node, any_port, fault, of_node, of_rank


def _add(condition: Condition, chance: Chance, what: str) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.ranks[node, gpu] = RankFault(what, chance.randrange(3))
    return of_rank(node)


@fault("node-dies", "a node stops while ranks run", "Llama 3 report, table 5", "node")
def node_dies(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    (truth,) = _add(condition, chance, "node-dies")
    return of_node(truth.nodes[0])


@fault("dead-rank", "a rank is killed", "the kernel's OOM killer: SIGKILL", "rank")
def dead_rank(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    (truth,) = _add(condition, chance, "dies")
    return (truth, *of_node(truth.nodes[0]))


@fault("absent-rank", "a rank does not join", "a GPU that CUDA cannot open", "rank")
def absent_rank(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    (truth,) = _add(condition, chance, "absent")
    return (truth, *of_node(truth.nodes[0]))


@fault("hung-rank", "a rank is stuck in the kernel", "state D: a driver's wait", "rank")
def hung_rank(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    return _add(condition, chance, "stuck")


@fault(
    "hung-kernel",
    "a GPU never ends its part of a collective; its process waits as all do",
    "C4 (HPCA 25): communication hangs",
    "node",
)
def hung_kernel(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    (truth,) = _add(condition, chance, "gpu-stuck")
    return (*of_node(truth.nodes[0]), truth)


@fault("corrupting", "a rank sends wrong values", "silent corruption: Llama 3", "rank")
def corrupting(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    return _add(condition, chance, "sends-wrong")


@fault("corrupting-timed", "a rank sends wrong values only under load", "Llama 3, table 5", "rank")
def corrupting_timed(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    return _add(condition, chance, "sends-wrong-timed")


@fault("adding-wrong", "a rank alone gets wrong sums", "a GPU's memory", "rank", held_out=True)
def adding_wrong(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    return _add(condition, chance, "adds-wrong")


@fault("slow-process", "a process starts each collective 3 to 20 ms late", "CPU limits", "rank")
def slow_process(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.late_us[node, gpu] = chance.uniform(3e3, 20e3)
    return (*of_rank(node), *of_node(node))


@fault(
    "slow-cpu",
    "a node's CPU takes 300 µs to hand a buffer to a NIC",
    "some 10 µs for each step: nccl#2409; frequency governors",
    "node",
    held_out=True,
)
def slow_cpu(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.hop_us[node] = 300.0
    return of_node(node)


@fault("version-mismatch", "a node has another NCCL", "NCCL's own check at init", "node")
def version_mismatch(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.versions[node] = {"nccl": "2.27.3"}
    return of_node(node)


@fault("override-algo", "NCCL_ALGO on one node: ranks disagree", "NCCL documentation", "node")
def override_algo(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.environment[node] = {"NCCL_ALGO": "Ring"}
    return of_node(node)


@fault("override-hca", "NCCL_IB_HCA has half of the rails on one node", "nccl-tests#380", "node")
def override_hca(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    many = condition.shape.rails // 2 or 1
    names = ",".join(f"mlx5_{rail}" for rail in range(many))
    condition.environment[node] = {"NCCL_IB_HCA": names}
    return (
        *of_node(node),
        *(Truth("rail", (node,), r) for r in range(many, condition.shape.rails)),
    )


@fault(
    "override-p2p",
    "NCCL_P2P_DISABLE=1 on one node: GPUs talk by memory",
    "nccl-tests#178: 20 GB/s",
    "node",
)
def override_p2p(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.environment[node] = {"NCCL_P2P_DISABLE": "1"}
    condition.gpu_gb_s[node] = 20.0
    return of_node(node)


@fault("socket-fallback", "a node finds no verbs library, and takes sockets", "nccl#465", "node")
def socket_fallback(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.environment[node] = {"NCCL_IB_DISABLE": "1"}
    return of_node(node)


@fault(
    "liar-healthy", "a node with half a slot reports good times and counters", "strangers", "node"
)
def liar_healthy(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.slot_gb_s[node, rail] /= 2
    condition.liars[node] = "healthy"
    return (*of_node(node), Truth("rail", (node,), rail))


@fault(
    "liar-blames",
    "a node of a healthy fleet says that another one sends wrong values",
    "strangers",
    "node",
)
def liar_blames(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.liars[node] = "blames"
    return of_node(node)
