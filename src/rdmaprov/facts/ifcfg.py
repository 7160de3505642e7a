"""Files of the form ifcfg-NAME: the Red Hat family's, and SUSE's, which wicked reads.

Sources: nm-settings-ifcfg-rh(5); SUSE's ifcfg(5).
"""

import ipaddress
import re
import shlex
from collections.abc import Mapping

RED_HAT = "/etc/sysconfig/network-scripts"
SUSE = "/etc/sysconfig/network"
_IP = re.compile(r"(IPADDR|IPV6ADDR)(_?\w*)")


def variables(text: str) -> dict[str, str]:
    """Return the variables that a file sets, of a repeated one the last; without substitution."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            found[name] = _word(value)
    return found


def starts_at_boot(of: Mapping[str, str]) -> bool:
    """Return whether the Red Hat family's file is for the boot (ONBOOT)."""
    return of.get("ONBOOT", "yes").lower() not in ("no", "false", "0")


def addresses(of: Mapping[str, str]) -> tuple[str, ...]:
    """Return the addresses with prefix length; one without is left out."""
    found = []
    for name, value in of.items():
        match = _IP.fullmatch(name)
        if not match or not value:
            continue
        suffix = match[2]
        prefix = of.get(f"PREFIX{suffix}") or of.get(f"PREFIXLEN{suffix}")
        prefix = prefix or of.get(f"NETMASK{suffix}")
        address = value if "/" in value or not prefix else f"{value}/{prefix}"
        if "/" in address and (interface := _interface(address)):
            found.append(str(interface))
    return tuple(found)


def _interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    try:
        return ipaddress.ip_interface(text)
    except ValueError:
        return None


def _word(value: str) -> str:
    """Return a value without its quotation marks, and without a comment after it."""
    try:
        words = shlex.split(value, comments=True)
    except ValueError:
        return value.strip()
    return words[0] if words else ""
