"""Print the LLDP frames that arrive at this machine's ports, as hexadecimal digits.

    python3 -I -S -c SOURCE SECONDS [NETDEV ...]

It listens at all ports side by side, until each has heard a frame or the time is up, and prints a
line for each port (`port NETDEV`), frame (`frame NETDEV HEX`) and port at which it cannot listen
(`error NETDEV REASON`). Nothing is parsed here: a frame is data from a stranger, and the controller
judges it. The sockets end with the program, and with them the membership in LLDP's groups.
Needs root (CAP_NET_RAW) and Python 3.6.
"""

import os
import select
import socket
import struct
import sys
import time

from rdmaprov.node import devices

ETHERTYPE = 0x88CC  # IEEE 802.1AB, 7.1
# IEEE 802.1AB, table 7-1: nearest bridge, nearest non-TPMR bridge, nearest customer bridge.
GROUPS = ("0180c200000e", "0180c2000003", "0180c2000000")
# Linux include/uapi/linux/if_packet.h and socket.h, which Python's socket module lacks.
SOL_PACKET, ADD_MEMBERSHIP, MR_MULTICAST, OUTGOING = 263, 1, 0, 4
MOST_FRAMES = 4  # of a port that are printed; several neighbours on one port are rare
MOST_READ = 64  # of a port that are read: a flood must not keep a processor busy
MOST_BYTES = 2048  # of a frame; an LLDPDU fits a frame of 1500 bytes
NET = os.path.join("/", devices.NET)


def is_cabled(name):
    """Return whether a network device is an Ethernet port that is up and has a cable."""
    kind, carrier = (devices.read(NET, name, file) for file in ("type", "carrier"))
    lines = devices.read(NET, name, "uevent").splitlines()
    is_stacked = any(line.startswith("DEVTYPE=") for line in lines)
    return kind == "1" and carrier == "1" and not is_stacked


def is_of_a_card(name):
    """Return whether it is a port of a card with RDMA, or of a bond: no virtual function."""
    device = os.path.join(NET, name, "device")
    if os.path.exists(os.path.join(device, "physfn")) or not os.path.exists(device):
        return False
    if devices.REPRESENTOR.fullmatch(devices.read(NET, name, "phys_port_name")):
        return False
    bonded = os.path.isdir(os.path.join(NET, name, "master", "bonding"))
    return bonded or os.path.isdir(os.path.join(device, "infiniband"))


def ports():
    """Return the ports to listen at: those of RDMA cards and bonds, else all that have a cable."""
    cabled = [name for name in sorted(os.listdir(NET)) if is_cabled(name)]
    return [name for name in cabled if is_of_a_card(name)] or cabled


def open_socket(name):
    """Return a socket that gets the LLDP frames of a port."""
    # With a protocol it would get the frames of all ports until it is bound to one (packet(7)).
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        index = socket.if_nametoindex(name)
        for group in GROUPS:
            address = bytes.fromhex(group)
            request = struct.pack("iHH8s", index, MR_MULTICAST, len(address), address)
            listener.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, request)
        listener.bind((name, ETHERTYPE))
    except OSError:
        listener.close()
        raise
    return listener


def open_all(names):
    """Return the ports' names by their sockets, and print those that have none."""
    found = {}
    for name in names:
        print("port {}".format(name))
        try:
            found[open_socket(name)] = name
        except OSError as error:
            print("error {} {}".format(name, error.strerror or error))
    return found


def listen(names, seconds):
    """Print each port's frames, once each."""
    end = time.monotonic() + seconds
    sockets = open_all(names)
    heard = {name: set() for name in sockets.values()}
    left = dict.fromkeys(sockets, MOST_READ)
    while not all(heard.values()) and time.monotonic() < end:
        waiting = [each for each in sockets if left[each]]
        ready, _, _ = select.select(waiting, [], [], max(0, end - time.monotonic()))
        for each in ready:
            left[each] -= 1
            frame, sender = each.recvfrom(MOST_BYTES)
            frames = heard[sockets[each]]
            if sender[2] != OUTGOING and frame not in frames and len(frames) < MOST_FRAMES:
                frames.add(frame)
                print("frame {} {}".format(sockets[each], frame.hex()))


def main(arguments):
    """Listen at the ports that are named, else at all that may be rails."""
    listen(arguments[1:] or ports(), float(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
