"""Faults of the fabric: cables, leaf switches, spines, and paths between nodes."""

from collections.abc import Iterable

from tests.madeup.condition import Condition
from tests.madeup.faults import Chance, Truth, fault, of_any_node, of_leaf


@of_any_node
def swapped_rails(condition: Condition, chance: Chance, node: int) -> Iterable[int]:
    one, other = chance.sample(range(condition.shape.rails), 2)
    switches = condition.switch_of[node]
    switches[one], switches[other] = switches[other], switches[one]
    return one, other


@of_any_node
def wrong_leaf(condition: Condition, chance: Chance, node: int) -> None:
    shape = condition.shape
    other = (shape.block_of(node) + 1 + chance.randrange(max(1, shape.blocks - 1))) % shape.blocks
    condition.switch_of[node] = [other * shape.rails + rail for rail in range(shape.rails)]


def _any_switch(condition: Condition, chance: Chance) -> tuple[int, int, int]:
    block, rail = chance.randrange(condition.shape.blocks), chance.randrange(condition.shape.rails)
    return block * condition.shape.rails + rail, block, rail


@fault
def leaf_uplinks(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    switch, block, rail = _any_switch(condition, chance)
    condition.uplink_gb_s[switch, : condition.uplink_gb_s.shape[1] // 2] = 0
    return of_leaf(condition, block, rail)


@fault
def leaf_lossy(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    switch, block, rail = _any_switch(condition, chance)
    condition.switch_loss[switch] = 1e-3
    return of_leaf(condition, block, rail)


@fault
def spine_uneven(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    switch, block, rail = _any_switch(condition, chance)
    uplinks = condition.uplink_gb_s.shape[1]
    condition.adaptive[switch] = False
    condition.uplink_gb_s[switch, max(1, uplinks // 4) :] = 0
    return of_leaf(condition, block, rail)


@fault
def no_pfc_switch(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    block, rails = chance.randrange(condition.shape.blocks), condition.shape.rails
    condition.lossless[block * rails : (block + 1) * rails] = False
    return of_leaf(condition, block, None)


@fault
def bad_path(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    one, other = chance.sample(range(condition.shape.nodes), 2)
    rail = chance.randrange(condition.shape.rails)
    condition.path_share[one, other, rail] = 0.1
    return (Truth("pair", (one, other), rail),)


@fault
def hash_collisions(condition: Condition, _chance: Chance) -> tuple[Truth, ...]:
    condition.adaptive[:] = False
    return (Truth("fleet"),)


@fault
def half_spines(condition: Condition, _chance: Chance) -> tuple[Truth, ...]:
    condition.uplink_gb_s[:, : condition.uplink_gb_s.shape[1] // 2] = 0
    return (Truth("fleet"),)
