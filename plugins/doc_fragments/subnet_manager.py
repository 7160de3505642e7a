"""Options of the module subnet_manager. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
options:
  hosts:
    description: 'Nodes that run a subnet manager, the master first. Each has a lower
      priority than the one before it, from 14 down. None: the subnet is managed by
      a switch, by UFM or by hand, and the role does nothing.'
    type: list
    elements: str
    default: []
  node:
    description: The node's name in O(hosts).
    type: str
    required: true
  subnet_rails:
    description: Rails whose subnets are managed, one manager for each. Where all
      rails are one subnet, one rail is enough; where planes are apart, name one rail
      of each.
    type: list
    elements: int
    default: [0]
  engines:
    description: Routing engines in the order in which opensm tries them; after the
      last one it takes minhop, unless no_fallback is among them.
    type: list
    elements: str
    required: true
  root_guids:
    description: 'GUIDs of the switches at the top of the tree, as 0x0123456789abcdef.
      None: opensm finds them itself.'
    type: list
    elements: str
    default: []
  partitions:
    description: 'Lines of opensm''s partition file, such as "Default=0x7fff, ipoib,
      mtu=5 : ALL=full;" or "storage=0x0002 : 0xb8cef60300a1b2c4=full;". The default
      partition, and those of O(partition_keys) and of rails'' pkeys, are added with
      all ports as members, unless a line has them.'
    type: list
    elements: str
    default: []
  partition_keys:
    description: Partition keys (P_Keys) that the subnet manager must give the rails'
      ports, in quotes, the one of NCCL's data first. "0x8001" is full membership
      of partition 1, "0x0001" limited. Empty accepts any. Used on InfiniBand only.
    type: list
    elements: str
    default: []
  qos:
    description: Set up service levels and virtual lanes. Needed if traffic uses another
      service level than 0.
    type: bool
    default: false
  polling_timeout_ms:
    description: How often a standby asks the master whether it is there, in ms. opensm's
      own default is 10000.
    type: int
    default: 1000
  polling_retries:
    description: Unanswered questions after which a standby takes over.
    type: int
    default: 3
  log_max_mb:
    description: Size in MB at which opensm truncates its log.
    type: int
    default: 100
  settings:
    description: Other settings of opensm.conf, name to value, such as use_ucast_cache
      or the vendor's sharp_enabled.
    type: dict
    default: {}
  beside:
    description: Port GUIDs of other subnet managers that may run in the subnet, such
      as a switch's with a lower priority. Any other manager is a reason not to start.
    type: list
    elements: str
    default: []
"""
