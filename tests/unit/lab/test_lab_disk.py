"""The disk image has one active Linux partition, and GRUB's code where the firmware looks."""

from __future__ import annotations

import struct

import pytest

from rdmaprov.lab import disk

EXT4_MAGIC_OFFSET = 1024 + 0x38
EXT4_MAGIC = 0xEF53
DISK_MIB = 16


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    grub = tree / "boot/grub/i386-pc"
    grub.mkdir(parents=True)
    (grub / "boot.img").write_bytes(b"B" * 512)
    (grub / "core.img").write_bytes(b"C" * 30000)
    path = tmp_path_factory.mktemp("image") / "disk.img"
    disk.make_bootable(path, tree, "some-label", DISK_MIB)
    return path.read_bytes()


def test_disk_has_its_size(image):
    assert len(image) == DISK_MIB << 20


def test_sector_0_is_a_boot_sector(image):
    assert image[510:512] == b"\x55\xaa"
    assert image[:4] == b"BBBB"
    assert struct.unpack_from("<Q", image, 0x5C) == (1,)


def test_partition_reaches_from_1_mib_to_the_end(image):
    active, _, kind, _, first, sectors = struct.unpack_from("<B3sB3sII", image, 446)
    assert (active, kind, first) == (0x80, 0x83, 2048)
    assert (first + sectors) * 512 == len(image)


def test_only_one_partition(image):
    assert image[462:510] == bytes(48)


def test_core_image_follows_and_knows_where_its_rest_is(image):
    assert image[512:516] == b"CCCC"
    assert struct.unpack_from("<Q", image, 512 + 500) == (2,)


def test_filesystem_starts_at_the_partition_and_has_its_label(image):
    start = 2048 * 512
    assert struct.unpack_from("<H", image, start + EXT4_MAGIC_OFFSET) == (EXT4_MAGIC,)
    assert image[start + 1024 + 0x78 :][:10] == b"some-label"


def test_boot_image_of_another_size_is_refused():
    with pytest.raises(ValueError, match="511 bytes"):
        disk.boot_sector(b"x" * 511, 4096)


def test_core_image_too_long_for_the_gap_is_refused():
    with pytest.raises(ValueError, match="does not fit before the partition"):
        disk.core_sectors(b"x" * (2048 * 512))
