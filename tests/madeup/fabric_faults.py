"""Faults of the fabric: cables, leaf switches, spines, and paths between nodes."""

from tests.madeup.condition import Condition
from tests.madeup.faults import Chance, Truth, any_node, fault, of_leaf, of_node


@fault(
    "swapped-rails",
    "two cables of a node are swapped; each rail is a subnet of its own",
    "NVIDIA SuperPOD cabling guide: validate with LLDP",
    "node",
)
def swapped_rails(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    one, other = chance.sample(range(condition.shape.rails), 2)
    switches = condition.switch_of[node]
    switches[one], switches[other] = switches[other], switches[one]
    return (*of_node(node), Truth("rail", (node,), one), Truth("rail", (node,), other))


@fault(
    "wrong-leaf",
    "a node's cables lead to another block's leaves: one hop more to its own",
    "cabling audits by LLDP; about 1 µs more each way",
    "node",
    same_as="healthy, but for the latency",
)
def wrong_leaf(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    shape = condition.shape
    other = (shape.block_of(node) + 1 + chance.randrange(max(1, shape.blocks - 1))) % shape.blocks
    condition.switch_of[node] = [other * shape.rails + rail for rail in range(shape.rails)]
    return of_node(node)


def _any_switch(condition: Condition, chance: Chance) -> tuple[int, int, int]:
    """Return a leaf switch by chance: its number, block and rail."""
    block, rail = chance.randrange(condition.shape.blocks), chance.randrange(condition.shape.rails)
    return block * condition.shape.rails + rail, block, rail


@fault("leaf-uplinks", "half of a leaf's uplinks are gone", "C4 (HPCA 25): uplink failures", "leaf")
def leaf_uplinks(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    switch, block, rail = _any_switch(condition, chance)
    condition.uplink_gb_s[switch, : condition.uplink_gb_s.shape[1] // 2] = 0
    return of_leaf(condition, block, rail)


@fault("leaf-lossy", "a leaf loses 1e-3 of the packets", "corruption: SIGCOMM 17", "leaf")
def leaf_lossy(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    switch, block, rail = _any_switch(condition, chance)
    condition.switch_loss[switch] = 1e-3
    return of_leaf(condition, block, rail)


@fault(
    "spine-uneven",
    "a leaf hashes all flows onto a quarter of its uplinks",
    "hash polarization: Alibaba HPN (SIGCOMM 24)",
    "leaf",
    same_as="leaf-uplinks",
)
def spine_uneven(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    switch, block, rail = _any_switch(condition, chance)
    uplinks = condition.uplink_gb_s.shape[1]
    condition.adaptive[switch] = False
    condition.uplink_gb_s[switch, max(1, uplinks // 4) :] = 0
    return of_leaf(condition, block, rail)


@fault("no-pfc-switch", "the leaves of a block have no PFC", "0.x GB/s: nccl#378", "leaf")
def no_pfc_switch(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    block, rails = chance.randrange(condition.shape.blocks), condition.shape.rails
    condition.lossless[block * rails : (block + 1) * rails] = False
    return of_leaf(condition, block, None)


@fault("bad-path", "one path between two nodes carries a tenth", "C4 (HPCA 25), Pingmesh", "pair")
def bad_path(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    one, other = chance.sample(range(condition.shape.nodes), 2)
    rail = chance.randrange(condition.shape.rails)
    condition.path_share[one, other, rail] = 0.1
    return (Truth("pair", (one, other), rail),)


@fault(
    "hash-collisions",
    "no leaf has adaptive routing: flows share uplinks by chance",
    "1 / 1.7: cluster-readiness-engine#287; C4, HPN",
    "fleet",
)
def hash_collisions(condition: Condition, _chance: Chance) -> tuple[Truth, ...]:
    condition.adaptive[:] = False
    return (Truth("fleet"),)


@fault(
    "half-spines",
    "half of the spine switches are off: each leaf has half of its uplinks",
    "maintenance: spines are drained for an upgrade",
    "fleet",
    held_out=True,
)
def half_spines(condition: Condition, _chance: Chance) -> tuple[Truth, ...]:
    condition.uplink_gb_s[:, : condition.uplink_gb_s.shape[1] // 2] = 0
    return (Truth("fleet"),)
