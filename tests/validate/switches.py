"""What lldpd 1.0.16 prints of switches that announce lossless RoCE, as `lldpctl -f json0`.

The form is that of a real lldpd whose neighbour was another one with the custom TLVs below
(tests/namespaces/test_lldp.py); a switch's name, its ports and the frame size are made up.
"""

import json
from collections.abc import Mapping
from typing import Any

# Priority 3 in class 3 and 6 in class 6; 50 % each for classes 0 and 3, class 6 is strict.
ETS = "00,00,03,00,60,32,00,00,32,00,00,00,00,02,02,02,02,02,02,00,02"
PFC = "08,08"
# UDP port 4791 has priority 3, and so has DSCP 26; DSCP 48 has 6.
APPLICATIONS = "00,63,12,B7,65,00,1A,C5,00,30"


def announced(ends: Mapping[str, tuple[str, str]], frame_bytes: int = 9216) -> str:
    """Return lldpctl's answer on a node; `ends` has each port's switch and its port."""
    entries = [_entry(netdev, *end, frame_bytes) for netdev, end in ends.items()]
    return json.dumps({"lldp": [{"interface": entries}]}, indent=2)


def _entry(netdev: str, switch: str, port: str, frame_bytes: int) -> dict[str, Any]:
    tlvs = {"9": ETS, "11": PFC, "12": APPLICATIONS}
    return {
        "name": netdev, "via": "LLDP", "rid": "1", "age": "0 day, 00:00:03",
        "chassis": [{
            "id": [{"type": "mac", "value": "8a:78:6e:77:a8:04"}],
            "name": [{"value": switch}],
            "descr": [{"value": "Debian GNU/Linux 12 (bookworm)"}],
            "mgmt-ip": [{"value": "fe80::8878:6eff:fe77:a804"}],
            "mgmt-iface": [{"value": "2"}],
            "capability": [{"type": "Bridge", "enabled": True},
                           {"type": "Router", "enabled": False}],
        }],
        "port": [{
            "id": [{"type": "ifname", "value": port}], "descr": [{"value": port}],
            "ttl": [{"value": "120"}], "mfs": [{"value": str(frame_bytes)}],
        }],
        "unknown-tlvs": [{"unknown-tlv": [
            {"oui": "00,80,C2", "subtype": subtype, "len": str(len(value.split(","))),
             "value": value}
            for subtype, value in tlvs.items()
        ]}],
    }  # fmt: skip
