# ruff: noqa: E501
# fmt: off
"""The modules' argument specs. Written by `make generate`; changes here are lost."""

from __future__ import annotations

from typing import Any

RAILS: dict[str, Any] = {'type': 'list', 'elements': 'dict', 'required': True, 'options': {'netdev': {'type': 'str'}, 'pci': {'type': 'str'}, 'address':
    {'type': 'str'}, 'gateway': {'type': 'str'}, 'gpus': {'type': 'list', 'elements': 'int'}, 'use': {'type': 'str', 'choices': ['compute', 'storage'],
    'default': 'compute'}, 'link_gbps': {'type': 'int', 'choices': [10, 25, 40, 50, 56, 100, 200, 400, 800]}, 'vlan': {'type': 'bool', 'default': False},
    'rdma': {'type': 'str'}, 'leaf': {'type': 'str'}, 'switch_port': {'type': 'str'}, 'pkeys': {'type': 'list', 'elements': 'str', 'no_log': False},
    'ipoib_pkey': {'type': 'str', 'no_log': False}, 'subnet_prefix': {'type': 'str'}}}

ARGUMENTS: dict[str, dict[str, Any]] = {
    'ofed': {'source': {'type': 'str', 'choices': ['keep', 'inbox', 'doca', 'mlnx_ofed'], 'default': 'keep'}, 'version': {'type': 'str', 'default': ''},
        'profile': {'type': 'str', 'choices': ['doca-ofed', 'doca-networking', 'doca-roce', 'doca-all'], 'default': 'doca-ofed'}, 'repository_url': {'type':
        'str', 'default': ''}, 'repository_key_url': {'type': 'str', 'default': '', 'no_log': False}, 'repository_key_fingerprint': {'type': 'str', 'default':
        '', 'no_log': False}, 'package_url': {'type': 'str', 'default': ''}, 'package_sha256': {'type': 'str', 'default': ''}, 'firmware': {'type': 'str',
        'choices': ['keep', 'update'], 'default': 'keep'}, 'hold': {'type': 'bool', 'default': True}, 'restart': {'type': 'str', 'choices': ['never',
        'if-needed'], 'default': 'never'}},
    'fabric': {'kind': {'type': 'str', 'required': True, 'choices': ['roce', 'infiniband']}, 'rails': RAILS, 'ipoib': {'type': 'bool', 'default': True},
        'ipoib_mode': {'type': 'str', 'choices': ['keep', 'datagram', 'connected'], 'default': 'keep'}, 'memory_bytes': {'type': 'bytes'}, 'numa_nodes':
        {'type': 'int'}, 'gpu_count': {'type': 'int', 'default': 0}, 'source_routing': {'type': 'bool', 'default': True}, 'neighbor_entries': {'type': 'int',
        'default': 8192}, 'routing_table_base': {'type': 'int', 'default': 1000}, 'link_manager': {'type': 'str', 'choices': ['auto', 'systemd-networkd',
        'NetworkManager', 'ifupdown', 'netplan'], 'default': 'auto'}, 'guard_allowed_netdevs': {'type': 'list', 'elements': 'str', 'default': []},
        'guard_revert_s': {'type': 'int', 'default': 60}},
    'mlx5': {'kind': {'type': 'str', 'required': True, 'choices': ['roce', 'infiniband']}, 'rails': RAILS, 'module_parameters': {'type': 'dict', 'default': {}},
        'initramfs': {'type': 'str', 'choices': ['auto', 'always', 'never'], 'default': 'auto'}, 'reload': {'type': 'str', 'choices': ['never', 'if-needed'],
        'default': 'never'}, 'firmware_settings': {'type': 'dict', 'default': {}}, 'firmware_profiles': {'type': 'list', 'elements': 'str', 'choices': ['roce',
        'gpudirect', 'no-vfs', 'host-dcbx', 'firmware-dcbx', 'weka'], 'default': []}, 'firmware_version': {'type': 'str', 'default': ''}},
    'subnet_manager': {'hosts': {'type': 'list', 'elements': 'str', 'default': []}, 'node': {'type': 'str', 'required': True}, 'rails': RAILS, 'subnet_rails':
        {'type': 'list', 'elements': 'int', 'default': [0]}, 'engines': {'type': 'list', 'elements': 'str', 'required': True}, 'root_guids': {'type': 'list',
        'elements': 'str', 'default': []}, 'partitions': {'type': 'list', 'elements': 'str', 'default': []}, 'partition_keys': {'type': 'list', 'elements':
        'str', 'default': [], 'no_log': False}, 'qos': {'type': 'bool', 'default': False}, 'polling_timeout_ms': {'type': 'int', 'default': 1000},
        'polling_retries': {'type': 'int', 'default': 3}, 'log_max_mb': {'type': 'int', 'default': 100}, 'settings': {'type': 'dict', 'default': {}}, 'beside':
        {'type': 'list', 'elements': 'str', 'default': []}},
    'hugepages': {'count_2m': {'type': 'int', 'default': 0}, 'per_numa_node_2m': {'type': 'list', 'elements': 'int', 'default': []}, 'count_1g': {'type': 'int',
        'default': 0}, 'per_numa_node_1g': {'type': 'list', 'elements': 'int', 'default': []}, 'count_512m': {'type': 'int', 'default': 0},
        'per_numa_node_512m': {'type': 'list', 'elements': 'int', 'default': []}, 'count_16g': {'type': 'int', 'default': 0}, 'per_numa_node_16g': {'type':
        'list', 'elements': 'int', 'default': []}, 'allocation_1g': {'type': 'str', 'choices': ['boot', 'runtime'], 'default': 'boot'}, 'default_size': {'type':
        'str', 'choices': ['keep', '2M', '512M', '1G', '16G'], 'default': 'keep'}, 'unlisted': {'type': 'str', 'choices': ['keep', 'free'], 'default': 'keep'},
        'left_bytes': {'type': 'bytes', 'default': '1G'}},
    'peermem': {'rails': RAILS, 'mode': {'type': 'str', 'required': True, 'choices': ['auto', 'nvidia-peermem', 'dmabuf', 'off']}, 'gpu_module': {'type':
        'str'}, 'gpu_persistence': {'type': 'str', 'choices': ['keep', 'on'], 'default': 'keep'}},
    'mtu': {'kind': {'type': 'str', 'required': True, 'choices': ['roce', 'infiniband']}, 'rails': RAILS, 'ipoib': {'type': 'bool', 'default': True},
        'ipoib_mode': {'type': 'str', 'choices': ['keep', 'datagram', 'connected'], 'default': 'keep'}, 'mtu_bytes': {'type': 'int', 'required': True},
        'rdma_bytes': {'type': 'int', 'required': True, 'choices': [256, 512, 1024, 2048, 4096]}, 'link_manager': {'type': 'str', 'choices': ['auto',
        'systemd-networkd', 'NetworkManager', 'ifupdown', 'netplan'], 'default': 'auto'}, 'guard_allowed_netdevs': {'type': 'list', 'elements': 'str',
        'default': []}, 'guard_revert_s': {'type': 'int', 'default': 60}},
    'roce_qos': {'kind': {'type': 'str', 'required': True, 'choices': ['roce', 'infiniband']}, 'rails': RAILS, 'nccl_traffic_class': {'type': 'int', 'required':
        True}, 'lldpad': {'type': 'str', 'choices': ['refuse', 'mask'], 'default': 'refuse'}, 'backend': {'type': 'str', 'choices': ['auto', 'dcb', 'mlnx_qos',
        'keep'], 'default': 'auto'}, 'trust': {'type': 'str', 'choices': ['dscp', 'pcp'], 'default': 'dscp'}, 'dscp_priorities': {'type': 'dict', 'required':
        True}, 'pfc_priorities': {'type': 'list', 'elements': 'int', 'required': True}, 'global_pause': {'type': 'bool', 'default': False}, 'priority_tc':
        {'type': 'dict', 'required': True}, 'tc_strict': {'type': 'list', 'elements': 'int', 'required': True}, 'tc_percent': {'type': 'dict', 'required':
        True}, 'buffer_bytes': {'type': 'dict', 'default': {}}, 'priority_buffer': {'type': 'dict', 'default': {}}, 'cable_length_m': {'type': 'int', 'default':
        7}, 'ecn_priorities': {'type': 'list', 'elements': 'int', 'required': True}, 'cnp_dscp': {'type': 'int', 'default': 48}, 'cnp_priority': {'type': 'int',
        'default': 6}, 'dcqcn': {'type': 'dict', 'default': {}}, 'tos': {'type': 'int', 'required': True}, 'rdma_cm_mode': {'type': 'str', 'choices':
        ['RoCE v2', 'IB/RoCE v1'], 'default': 'RoCE v2'}, 'force_traffic_class': {'type': 'bool', 'default': False}, 'dcbx': {'type': 'str', 'choices': ['host',
        'firmware'], 'default': 'host'}, 'guard_allowed_netdevs': {'type': 'list', 'elements': 'str', 'default': []}, 'guard_revert_s': {'type': 'int',
        'default': 60}},
    'limits': {'memlock': {'type': 'str', 'default': 'unlimited'}, 'memlock_users': {'type': 'list', 'elements': 'str', 'default': ['*', 'root']},
        'memlock_services': {'type': 'list', 'elements': 'str', 'default': ['ssh', 'sshd', 'slurmd', 'kubelet', 'containerd', 'docker', 'crio', 'k3s',
        'k3s-agent', 'rke2-server', 'rke2-agent', 'pbs_mom', 'pbs', 'sgeexecd', 'lsfd', 'flux']}, 'sysctl': {'type': 'dict', 'default': {}}},
    'pcie': {'rails': RAILS, 'max_read_request_bytes': {'type': 'str', 'choices': ['128', '256', '512', '1024', '2048', '4096', 'keep'], 'default': '4096'},
        'acs_redirect': {'type': 'str', 'required': True, 'choices': ['off', 'keep']}, 'iommu': {'type': 'str', 'choices': ['passthrough', 'off', 'keep'],
        'default': 'keep'}, 'numa_balancing': {'type': 'str', 'choices': ['off', 'on', 'keep'], 'default': 'off'}, 'irq_affinity': {'type': 'str', 'choices':
        ['local', 'keep'], 'default': 'local'}, 'cpu_governor': {'type': 'str', 'choices': ['performance', 'schedutil', 'powersave', 'keep'], 'default':
        'performance'}},
    'nccl': {'kind': {'type': 'str', 'required': True, 'choices': ['roce', 'infiniband']}, 'rails': RAILS, 'version': {'type': 'str', 'default': '2.30'},
        'ib_hca': {'type': 'list', 'elements': 'str', 'default': []}, 'ib_tc': {'type': 'int', 'required': True}, 'ib_sl': {'type': 'int', 'required': True},
        'ib_pkey': {'type': 'str', 'required': True, 'no_log': False}, 'sharp': {'type': 'str', 'choices': ['off', 'wanted'], 'default': 'off'},
        'adaptive_routing': {'type': 'str', 'choices': ['auto', 'on', 'off'], 'default': 'auto'}, 'ib_gid_index': {'type': 'int', 'default': -1},
        'ib_address_family': {'type': 'str', 'required': True, 'choices': ['ipv4', 'ipv6']}, 'ib_address_range': {'type': 'str', 'default': ''},
        'socket_ifname': {'type': 'str', 'default': ''}, 'cross_nic': {'type': 'int', 'required': True, 'choices': [0, 1, 2]}, 'tuner_plugin': {'type': 'str',
        'default': ''}, 'environment': {'type': 'dict', 'default': {}}, 'conf_existing': {'type': 'str', 'choices': ['replace', 'merge'], 'default': 'replace'},
        'enroot': {'type': 'str', 'choices': ['off', 'mounts', 'environ'], 'default': 'off'}},
    'torch_runtime': {'kind': {'type': 'str', 'choices': ['interpreter', 'venv', 'container', 'none'], 'default': 'venv'}, 'python': {'type': 'str', 'default':
        '/usr/bin/python3'}, 'directory': {'type': 'str', 'default': '/opt/rdmaprov/torch'}, 'requirements': {'type': 'list', 'elements': 'str', 'default':
        ['torch==2.13.0']}, 'index_url': {'type': 'str', 'default': ''}, 'wheelhouse': {'type': 'str', 'default': ''}, 'image': {'type': 'str', 'default': ''},
        'container_tool': {'type': 'str', 'choices': ['docker', 'podman', 'enroot', 'apptainer'], 'default': 'podman'}},
}
