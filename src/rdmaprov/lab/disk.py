"""A bootable disk image: one ext4 partition, with GRUB in the gap before it."""

import struct
import sys
from pathlib import Path

from rdmaprov.lab.process import run
from rdmaprov.lab.tools import find

SECTOR_BYTES = 512
PARTITION_START_SECTOR = 2048  # 1 MiB, where every partitioning tool starts
CORE_START_SECTOR = 1
LINUX_PARTITION = 0x83
ACTIVE = 0x80

# Where grub-bios-setup writes, from GRUB's include/grub/i386/pc/boot.h and grub-core/boot/i386/pc.
BOOT_KERNEL_SECTOR_OFFSET = 0x5C  # in boot.img: first sector of core.img, 64 bits
CORE_BLOCKLIST_OFFSET = SECTOR_BYTES - 12  # in core.img: first sector of its rest, 64 bits
BOOT_CODE_BYTES = 440  # what follows is the disk signature and the partition table


def boot_sector(boot_img: bytes, disk_sectors: int) -> bytes:
    """Return the 512 bytes of sector 0: GRUB's first stage and a table of one partition.

    Raises:
        ValueError: boot_img is not one sector long.
    """
    if len(boot_img) != SECTOR_BYTES:
        raise ValueError(f"boot.img has {len(boot_img)} bytes, not {SECTOR_BYTES}")
    sector = bytearray(boot_img[:BOOT_CODE_BYTES].ljust(SECTOR_BYTES, b"\0"))
    struct.pack_into("<Q", sector, BOOT_KERNEL_SECTOR_OFFSET, CORE_START_SECTOR)
    entry = struct.pack(
        "<B3sB3sII",
        ACTIVE,
        b"\xfe\xff\xff",  # cylinder, head, sector: "see the 32-bit fields"
        LINUX_PARTITION,
        b"\xfe\xff\xff",
        PARTITION_START_SECTOR,
        disk_sectors - PARTITION_START_SECTOR,
    )
    sector[446:462] = entry
    sector[510:512] = b"\x55\xaa"
    return bytes(sector)


def core_sectors(core_img: bytes) -> bytes:
    """Return core.img told where on the disk its second sector lies.

    Raises:
        ValueError: core.img does not fit into the gap before the partition.
    """
    if len(core_img) > (PARTITION_START_SECTOR - CORE_START_SECTOR) * SECTOR_BYTES:
        raise ValueError(
            f"core.img has {len(core_img)} bytes and does not fit before the partition"
        )
    core = bytearray(core_img)
    struct.pack_into("<Q", core, CORE_BLOCKLIST_OFFSET, CORE_START_SECTOR + 1)
    return bytes(core)


def make_filesystem(image: Path, tree: Path, label: str, mib: int, offset_bytes: int = 0) -> None:
    """Write an ext4 filesystem of `mib` MiB holding `tree` into the file `image`.

    The two features left out are ones that GRUB 2.06 refuses to read.
    """
    run(
        [
            *(find("mke2fs") or "mke2fs", "-q", "-F", "-t", "ext4", "-L", label, "-d", str(tree)),
            *("-O", "^metadata_csum_seed,^orphan_file", "-m", "1"),
            *("-E", f"offset={offset_bytes},lazy_itable_init=1", str(image), f"{mib}M"),
        ]
    )


def make_bootable(image: Path, tree: Path, label: str, mib: int) -> None:
    """Write a disk of `mib` MiB that boots `tree`, which has GRUB's images in boot/grub/i386-pc."""
    gap_bytes = PARTITION_START_SECTOR * SECTOR_BYTES
    with image.open("wb") as disk:
        disk.truncate(mib << 20)
    make_filesystem(image, tree, label, mib - (gap_bytes >> 20), gap_bytes)
    grub = tree / "boot/grub/i386-pc"
    with image.open("r+b") as disk:
        disk.write(boot_sector((grub / "boot.img").read_bytes(), (mib << 20) // SECTOR_BYTES))
        disk.write(core_sectors((grub / "core.img").read_bytes()))


def main(archive: str, tree: str, image: str, label: str, mib: str) -> None:
    """Unpack a tree's archive and make a bootable disk of it: one process, for fakeroot's sake."""
    run(["tar", "-xf", archive, "-C", tree, "--numeric-owner"])
    make_bootable(Path(image), Path(tree), label, int(mib))


if __name__ == "__main__":
    main(*sys.argv[1:])
