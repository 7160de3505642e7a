"""Options of the modules. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options, by module, and those that several modules have."""

    OFED = r"""
options:
  source:
    description: RDMA drivers to run. keep leaves a vendor's OFED as it is; without
      one, it installs the distribution's RDMA tools. The other values remove other
      flavours first.
    type: str
    choices: [keep, inbox, doca, mlnx_ofed]
    default: keep
  version:
    description: Version to install, such as 3.1.0 for doca or 24.10-1.1.4.0 for mlnx_ofed.
      Must be empty for keep and inbox.
    type: str
    default: ''
  profile:
    description: Metapackage to install. Used with doca only.
    type: str
    choices: [doca-ofed, doca-networking, doca-roce, doca-all]
    default: doca-ofed
  repository_url:
    description: Package repository; empty uses the vendor's repository for O(version).
    type: str
    default: ''
  repository_key_url:
    description: Public key of the repository; empty uses the vendor's key.
    type: str
    default: ''
  repository_key_fingerprint:
    description: Fingerprint of that key, 40 hexadecimal digits. If empty, only known
      keys of the vendor are accepted.
    type: str
    default: ''
  package_url:
    description: Repository package or archive to install from, instead of a repository.
      Needs O(package_sha256).
    type: str
    default: ''
  package_sha256:
    description: SHA-256 of the file at O(package_url), 64 hexadecimal digits.
    type: str
    default: ''
  firmware:
    description: 'Firmware of the NICs when the vendor''s packages are installed:
      keep leaves mlnx-fw-updater out, whose installation burns it; update installs
      it.'
    type: str
    choices: [keep, update]
    default: keep
  hold:
    description: Hold the driver, kernel and GPU driver packages, so that an upgrade
      of one does not break the others.
    type: bool
    default: true
  restart:
    description: Whether the role may restart the driver stack, under the guard, if
      nothing uses it. Otherwise a reboot is required.
    type: str
    choices: [never, if-needed]
    default: never
"""

    FABRIC = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
  ipoib:
    description: 'Whether the rails'' IPoIB network devices are used. With false,
      their state, MTU and files are left alone and not judged: RDMA does not need
      them. Used on InfiniBand only.'
    type: bool
    default: true
  ipoib_mode:
    description: Mode of the rails' IPoIB network devices, running and at boot. connected
      allows an MTU of 65520, and ConnectX-4 and later lack it, unless OFED's ib_ipoib
      is loaded with ipoib_enhanced 0. keep leaves the mode alone. Used on InfiniBand
      with O(ipoib) only.
    type: str
    choices: [keep, datagram, connected]
    default: keep
  memory_bytes:
    description: Memory of the node, such as 2T. If set, a node with less is refused
      (apart from what the kernel reserves), and hugepages are checked against it.
    type: bytes
  numa_nodes:
    description: Number of NUMA nodes. If set, a node with fewer is refused, and lists
      with one entry per NUMA node are checked against it.
    type: int
  gpu_count:
    description: Number of GPUs in the node. A node with another number is refused,
      and each GPU must belong to a rail.
    type: int
    default: 0
  source_routing:
    description: Set up one routing table for each rail, so that replies leave on
      the rail that received the request. ARP then answers only for the rail's own
      address.
    type: bool
    default: true
  routing_table_base:
    description: Routing table number of rail 0. Rail i uses this number plus i.
    type: int
    default: 1000
"""

    MLX5 = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
  module_parameters:
    description: Kernel module to its parameters and their values. Unknown parameters
      are refused, because the kernel ignores them silently.
    type: dict
    default: {}
  initramfs:
    description: Whether to rebuild the initramfs after a change; auto rebuilds it
      if it contains the module.
    type: str
    choices: [auto, always, never]
    default: auto
  reload:
    description: Whether the role may reload modules, under the guard, for parameters
      that are read at load time. Otherwise a reboot is required.
    type: str
    choices: [never, if-needed]
    default: never
  firmware_settings:
    description: Firmware setting, by its mlxconfig name, to its value on all rails.
      Takes effect at the next reboot.
    type: dict
    default: {}
  firmware_profiles:
    description: Sets of recommended firmware settings, for what a card has of them
      (README, "Profiles"); O(firmware_settings) overrides them.
    type: list
    elements: str
    choices: [roce, gpudirect, no-vfs, host-dcbx, firmware-dcbx, weka]
    default: []
  firmware_version:
    description: Firmware version required on all rails, such as 28.43.2026; empty
      accepts any. The role checks the version and does not burn firmware.
    type: str
    default: ''
"""

    SUBNET_MANAGER = r"""
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

    HUGEPAGES = r"""
options:
  count_2m:
    description: Number of 2 MiB hugepages on the node, spread evenly over its NUMA
      nodes. 0 asks for none; see O(unlisted).
    type: int
    default: 0
  per_numa_node_2m:
    description: Number of 2 MiB hugepages on NUMA node 0, 1 and so on. Use this or
      O(count_2m).
    type: list
    elements: int
    default: []
  count_1g:
    description: Number of 1 GiB hugepages on the node, spread evenly over its NUMA
      nodes. At boot, the kernel decides where they are if a NUMA node lacks room.
    type: int
    default: 0
  per_numa_node_1g:
    description: Number of 1 GiB hugepages on NUMA node 0, 1 and so on. Use this or
      O(count_1g).
    type: list
    elements: int
    default: []
  count_512m:
    description: Number of 512 MiB hugepages on the node, spread evenly over its NUMA
      nodes. For Arm kernels with memory pages of 64 KiB.
    type: int
    default: 0
  per_numa_node_512m:
    description: Number of 512 MiB hugepages on NUMA node 0, 1 and so on. Use this
      or O(count_512m).
    type: list
    elements: int
    default: []
  count_16g:
    description: Number of 16 GiB hugepages on the node, as O(count_1g). For Arm kernels
      with memory pages of 64 KiB.
    type: int
    default: 0
  per_numa_node_16g:
    description: Number of 16 GiB hugepages on NUMA node 0, 1 and so on. Use this
      or O(count_16g).
    type: list
    elements: int
    default: []
  allocation_1g:
    description: 'When to allocate 1 GiB and 16 GiB hugepages: boot uses the kernel
      command line and requires a reboot; runtime allocates now, which usually fails
      once memory is in use.'
    type: str
    choices: [boot, runtime]
    default: boot
  default_size:
    description: Default hugepage size of the kernel; keep leaves it unchanged. Any
      but the kernel's own (2M, or 512M with memory pages of 64 KiB) requires a reboot.
    type: str
    choices: [keep, 2M, 512M, 1G, 16G]
    default: keep
  unlisted:
    description: Hugepages of a size for which the site asks for none. keep leaves
      them to whoever allocated them, as well as hugepagesz and hugepages on the kernel
      command line unless the site asks for 1 GiB or 16 GiB pages. free frees them.
    type: str
    choices: [keep, free]
    default: keep
  left_bytes:
    description: Memory that must remain free of hugepages.
    type: bytes
    default: 1G
"""

    PEERMEM = r"""
options:
  mode:
    description: How NICs access GPU memory; auto prefers dma-buf if the node supports
      it.
    type: str
    choices: [auto, nvidia-peermem, dmabuf, 'off']
    required: true
  gpu_module:
    description: Flavour of the nvidia kernel module. If set, it is verified, and
      dma-buf is checked against it.
    type: str
"""

    MTU = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
  ipoib:
    description: 'Whether the rails'' IPoIB network devices are used. With false,
      their state, MTU and files are left alone and not judged: RDMA does not need
      them. Used on InfiniBand only.'
    type: bool
    default: true
  ipoib_mode:
    description: Mode of the rails' IPoIB network devices, running and at boot. connected
      allows an MTU of 65520, and ConnectX-4 and later lack it, unless OFED's ib_ipoib
      is loaded with ipoib_enhanced 0. keep leaves the mode alone. Used on InfiniBand
      with O(ipoib) only.
    type: str
    choices: [keep, datagram, connected]
    default: keep
  mtu_bytes:
    description: MTU of the rails' network devices. RoCE needs at least 4192 for an
      RDMA MTU of 4096; 2044 is the IPoIB MTU of a subnet manager's default partition.
    type: int
    required: true
  rdma_bytes:
    description: RDMA MTU required on the ports.
    type: int
    choices: [256, 512, 1024, 2048, 4096]
    required: true
"""

    ROCE_QOS = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
  nccl_traffic_class:
    description: NCCL_IB_TC, the traffic class of NCCL's data.
    type: int
    required: true
  lldpad:
    description: 'What to do if lldpad runs, which would overwrite the QoS settings:
      refuse the node, or mask the service.'
    type: str
    choices: [refuse, mask]
    default: refuse
  backend:
    description: 'Tool that sets QoS: dcb of iproute2, or mlnx_qos. With auto, mlnx_qos
      is used only for what dcb cannot set. keep changes nothing, where the image,
      a hypervisor or another tool sets QoS; validate still checks that it is the
      site''s.'
    type: str
    choices: [auto, dcb, mlnx_qos, keep]
    default: auto
  trust:
    description: Packet field that determines the priority. RoCE data is marked by
      DSCP; the tag of a VLAN rail can carry the priority instead, as nccl_ib_sl.
    type: str
    choices: [dscp, pcp]
    default: dscp
  dscp_priorities:
    description: DSCP to priority; other DSCPs keep the default, their upper three
      bits. The role sets all 64 entries.
    type: dict
    required: true
  pfc_priorities:
    description: Priorities with PFC. An empty list is lossy RoCE, which needs congestion
      control.
    type: list
    elements: int
    required: true
  global_pause:
    description: Ethernet global pause. Must be off if PFC is on.
    type: bool
    default: false
  priority_tc:
    description: Priority to traffic class; other priorities use traffic class 0.
    type: dict
    required: true
  tc_strict:
    description: Traffic classes with strict priority.
    type: list
    elements: int
    required: true
  tc_percent:
    description: Traffic class to its ETS bandwidth share in percent; the shares must
      add up to 100.
    type: dict
    required: true
  buffer_bytes:
    description: Receive buffer to its size; empty leaves the sizes to the firmware.
    type: dict
    default: {}
  priority_buffer:
    description: Priority to receive buffer; empty leaves the map to the firmware.
    type: dict
    default: {}
  cable_length_m:
    description: Cable length, from which the driver calculates the PFC thresholds
      of the buffers in O(buffer_bytes) and O(priority_buffer). Without those it has
      no effect.
    type: int
    default: 7
  ecn_priorities:
    description: Priorities on which congestion control reacts to ECN marks. An empty
      list is RoCE with PFC alone.
    type: list
    elements: int
    required: true
  cnp_dscp:
    description: DSCP of congestion notification packets (CNPs), 0 to 63. Used on
      RoCE only.
    type: int
    default: 48
  cnp_priority:
    description: Priority of congestion notification packets (CNPs), 0 to 7. Must
      differ from fabric_lossless_priority. Used on RoCE only.
    type: int
    default: 6
  dcqcn:
    description: Congestion control parameter, by its name in the kernel's cc_params,
      such as rp_ai_rate, to its value.
    type: dict
    default: {}
  tos:
    description: Type of service of RoCE packets.
    type: int
    required: true
  rdma_cm_mode:
    description: RoCE version of rdma_cm connections.
    type: str
    choices: [RoCE v2, IB/RoCE v1]
    default: RoCE v2
  force_traffic_class:
    description: Set O(tos) on all packets, regardless of what the program requests.
      Needs OFED's driver.
    type: bool
    default: false
  dcbx:
    description: 'Who controls QoS: the host, or the firmware by DCBX with the switch.
      The firmware may override these settings.'
    type: str
    choices: [host, firmware]
    default: host
"""

    LIMITS = r"""
options:
  memlock:
    description: 'Memory that a process may lock: unlimited, or a number of KiB. RDMA
      locks every buffer that it registers.'
    type: str
    default: unlimited
  memlock_users:
    description: 'Users that get this limit at login, as in limits.conf: a user, @group
      or *. The * does not include root.'
    type: list
    elements: str
    default: ['*', root]
  memlock_services:
    description: systemd services that get this limit, where installed. Login limits
      do not apply to services.
    type: list
    elements: str
    default:
      - ssh
      - sshd
      - slurmd
      - kubelet
      - containerd
      - docker
      - crio
      - k3s
      - k3s-agent
      - rke2-server
      - rke2-agent
      - pbs_mom
      - pbs
      - sgeexecd
      - lsfd
      - flux
  sysctl:
    description: 'Kernel settings: sysctl name to value.'
    type: dict
    default: {}
"""

    PCIE = r"""
options:
  max_read_request_bytes:
    description: PCIe maximum read request size of the rails' NICs; keep leaves it
      unchanged, as a virtual function's host sets it.
    type: str
    choices: ['128', '256', '512', '1024', '2048', '4096', keep]
    default: '4096'
  acs_redirect:
    description: 'ACS redirect from GPUs to NICs, other GPUs and NVMe drives below
      one PCIe switch: off lets them communicate directly, keep leaves it unchanged.'
    type: str
    choices: ['off', keep]
    required: true
  iommu:
    description: IOMMU mode on the kernel command line, which requires a reboot; keep
      leaves it unchanged.
    type: str
    choices: [passthrough, 'off', keep]
    default: keep
  numa_balancing:
    description: Whether the kernel migrates memory between NUMA nodes automatically,
      which stalls RDMA; keep leaves it unchanged, as tuned may set it.
    type: str
    choices: ['off', 'on', keep]
    default: 'off'
  irq_affinity:
    description: 'CPUs for the rails'' interrupts: local uses those of the rail''s
      NUMA node, keep leaves them unchanged.'
    type: str
    choices: [local, keep]
    default: local
  cpu_governor:
    description: CPU frequency governor; keep leaves it unchanged.
    type: str
    choices: [performance, schedutil, powersave, keep]
    default: performance
"""

    NCCL = r"""
options:
  kind:
    description: Kind of the fabric. Settings for the other kind are ignored.
    type: str
    required: true
    choices: [roce, infiniband]
  version:
    description: NCCL version of the jobs. It decides which variables exist. Quote
      it, or YAML reads a number.
    type: str
    default: '2.30'
  ib_hca:
    description: NCCL_IB_HCA, the RDMA devices for NCCL, by exact name. Empty uses
      the devices of O(rails), as found on the node.
    type: list
    elements: str
    default: []
  ib_tc:
    description: NCCL_IB_TC, the traffic class of NCCL's data.
    type: int
    required: true
  ib_sl:
    description: NCCL_IB_SL, the service level of NCCL's data. On RoCE it is the priority
      (PCP) in the tag of VLAN rails.
    type: int
    required: true
  ib_pkey:
    description: Partition key of NCCL's data, in quotes, such as "0x8001". NCCL_IB_PKEY
      is its index in the tables of the node's ports, where the role finds it. Used
      on InfiniBand only.
    type: str
    required: true
  sharp:
    description: Whether the switches are to reduce (SHARP). wanted has NCCL use CollNet,
      and rdmaprov accept fails if it does not; off judges nothing. It needs an aggregation
      manager beside the subnet manager, and NCCL's SHARP plugin in the jobs. Used
      on InfiniBand only.
    type: str
    choices: ['off', wanted]
    default: 'off'
  adaptive_routing:
    description: Whether NCCL's transfers are to allow adaptive routing, by which
      switches choose a port for each packet. on and off set NCCL_IB_ADAPTIVE_ROUTING;
      auto leaves it to NCCL, which allows it on InfiniBand alone. The subnet manager
      turns it on for service levels, of which fabric_service_level must be one.
    type: str
    choices: [auto, 'on', 'off']
    default: auto
  ib_gid_index:
    description: NCCL_IB_GID_INDEX. With -1, NCCL 2.21 and later choose the GID by
      O(ib_address_family), which still works after the index changes.
    type: int
    default: -1
  ib_address_family:
    description: NCCL_IB_ADDR_FAMILY, the address family by which NCCL chooses the
      GID.
    type: str
    choices: [ipv4, ipv6]
    required: true
  ib_address_range:
    description: NCCL_IB_ADDR_RANGE, the network that contains the GID, such as 198.18.0.0/15;
      empty allows any.
    type: str
    default: ''
  socket_ifname:
    description: NCCL_SOCKET_IFNAME, the network devices for NCCL's bootstrap, such
      as =eth0, eth or ^docker. Empty lets NCCL choose. RDMA device names are not
      valid.
    type: str
    default: ''
  cross_nic:
    description: 'NCCL_CROSS_NIC: 0 keeps each ring on one rail, 1 allows it to cross
      rails, 2 avoids crossing if possible.'
    type: int
    choices: [0, 1, 2]
    required: true
  tuner_plugin:
    description: NCCL_TUNER_PLUGIN, the name or absolute path of a tuner plugin's
      library, such as example for libnccl-tuner-example.so. Empty sets none. rdmaprov
      does not install it.
    type: str
    default: ''
  tuner_config:
    description: Lines of the file of NCCL's example tuner plugin, as rdmaprov tune
      prints them. Written to /etc/nccl_tuner.conf, for NCCL_TUNER_CONFIG_FILE. Empty
      removes that file.
    type: str
    default: ''
  environment:
    description: 'More NCCL_ variables: name to value. Variables that have their own
      setting are refused.'
    type: dict
    default: {}
  conf_existing:
    description: 'What to do with a hand-written nccl.conf: replace it, or merge its
      other lines. It is backed up in both cases.'
    type: str
    choices: [replace, merge]
    default: replace
"""

    TORCH_RUNTIME = r"""
options:
  kind:
    description: 'Source of torch: an existing interpreter, a virtual environment,
      a container image, or none to manage nothing.'
    type: str
    choices: [interpreter, venv, container, none]
    default: venv
  python:
    description: Interpreter that has torch, or that creates the virtual environment.
    type: str
    default: /usr/bin/python3
  directory:
    description: Path of the virtual environment. It is a link to the directory in
      use.
    type: str
    default: /opt/rdmaprov/torch
  requirements:
    description: Packages, each pinned with ==. An existing interpreter must have
      these versions. With --hash=sha256:... after each, pip installs only matching
      files.
    type: list
    elements: str
    default: [torch==2.13.0]
  index_url:
    description: Package index; empty uses pip's default.
    type: str
    default: ''
  wheelhouse:
    description: Directory on the node that contains all wheels, instead of an index.
    type: str
    default: ''
  image:
    description: Container image with torch, pinned by tag or digest.
    type: str
    default: ''
  container_tool:
    description: Tool that runs the image. The role pulls images for docker and podman.
    type: str
    choices: [docker, podman, enroot, apptainer]
    default: podman
"""

    RAILS = r"""
options:
  rails:
    description: The rails of the node, in order. Rail i of all nodes forms one network
      plane, and so does storage rail i. Each rail needs a netdev or a pci; on InfiniBand,
      its rdma alone will do.
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description: Network device of the rail, as shown by `ip link`.
        type: str
      pci:
        description: PCI address of the rail's function, such as 0000:18:00.0. Unlike
          a device name, it does not change after an upgrade.
        type: str
      address:
        description: Address with prefix length, such as 198.18.0.1/24 or fd00::1/64.
        type: str
      gateway:
        description: Router of the rail's subnet. With a gateway, rail i can have
          a subnet of its own in each rack; without one, all nodes share one subnet
          on rail i. A link-local router, such as fe80::1 or 169.254.0.1, and any
          router of a /32 or /128 address are reached over the link itself.
        type: str
      gpus:
        description: Indexes of the GPUs that use this rail. GPUs can share several
          rails; each of these then lists all of them.
        type: list
        elements: int
      use:
        description: What the rail is for. Storage rails come last; they are configured
          and validated as the others are, but NCCL, the bandwidth floor and the acceptance
          test leave them out.
        type: str
        choices: [compute, storage]
        default: compute
      link_gbps:
        description: Line rate of this rail, in Gb/s, if it differs from fabric_link_gbps.
        type: int
        choices: [10, 25, 40, 50, 56, 100, 200, 400, 800]
      vlan:
        description: The network device is a VLAN, whose tag carries the priority
          (PCP).
        type: bool
        default: false
      rdma:
        description: RDMA device of the rail, such as mlx5_0, as InfiniBand's node
          descriptions have it. rdmaprov subnet finds the rail's port by it. Without
          it, rail i has the i-th of the device names that most nodes have in the
          subnet. A rail with neither netdev nor pci is found by it on the node, too;
          prefer pci, as the kernel counts mlx5_0, mlx5_1, … anew when a card is missing.
          Used on InfiniBand only.
        type: str
      leaf:
        description: Leaf switch of the rail, by its node description on InfiniBand
          and by the name that it announces by LLDP on RoCE, such as leaf01, or a
          template of fabric_leaf. rdmaprov subnet and rdmaprov validate name a rail
          that is on another one. Without it, the nodes with one fabric_leaf must
          have the rail on one switch.
        type: str
      switch_port:
        description: Port of the leaf, by the ID or the description that the switch
          announces by LLDP, such as swp1 or Ethernet1/1; of a bond, that of one of
          its ports. rdmaprov validate names a rail that is on another one. Needs
          leaf. Used on RoCE only.
        type: str
      pkeys:
        description: Partition keys of the rail's port, if they differ from fabric_partition_keys.
          Used on InfiniBand only.
        type: list
        elements: str
      ipoib_pkey:
        description: Partition key, in quotes, such as "0x8002", with which the rail's
          network device is the IPoIB interface of that partition. netdev, pci or
          rdma names the port, and the role makes PARENT.8002 over the port's own
          IPoIB device, now and at boot. Used on InfiniBand with fabric_ipoib only.
        type: str
      subnet_prefix:
        description: Subnet prefix of the rail's subnet, in quotes, as opensm's subnet_prefix
          has it, such as "0xfec0000000000001". Without it, the rail must have the
          same one on all nodes. Used on InfiniBand only.
        type: str
"""

    GUARD = r"""
options:
  guard_allowed_netdevs:
    description: Network devices that may be changed although the management path,
      the default gateway or storage over the network uses them.
    type: list
    elements: str
    default: []
  guard_revert_s:
    description: Seconds until a change to the management path is reverted, unless
      a new connection confirms it.
    type: int
    default: 60
"""

    LINKS = r"""
options:
  link_manager:
    description: Service that configures the network devices of the node; auto detects
      it for each device.
    type: str
    choices: [auto, systemd-networkd, NetworkManager, ifupdown, netplan]
    default: auto
"""
