"""Images are built once for each recipe, again when damaged, and never half; and they can boot."""

import compileall
import shutil
import struct
from pathlib import Path

import pytest

from rdmaprov.errors import RdmaprovError
from rdmaprov.lab import build, disk
from rdmaprov.lab.image import ImageStore, Recipe, check_space
from rdmaprov.resources import data_dir


@pytest.fixture
def said():
    return []


@pytest.fixture
def store(tmp_path, said):
    return ImageStore(tmp_path / "images", said.append)


class Builder:
    def __init__(self, error=None):
        self.built = 0
        self.error = error

    def __call__(self, scratch: Path) -> Path:
        self.built += 1
        (scratch / "half").write_text("half")
        if self.error is not None:
            raise self.error
        image = scratch / "new.img"
        image.write_text("whole")
        return image


def get(store, builder):
    return store.get("key", "node image", builder)


def test_image_is_built_once(store):
    builder = Builder()
    assert get(store, builder).read_text() == "whole"
    get(store, builder)
    assert builder.built == 1


def test_failed_build_leaves_nothing_but_its_lock(store):
    with pytest.raises(KeyboardInterrupt):
        get(store, Builder(KeyboardInterrupt()))
    assert [path.name for path in store.directory.iterdir()] == ["key.lock"]


def test_remains_of_a_killed_build_are_swept(store):
    (store.directory / "key.build-4242").mkdir(parents=True)
    get(store, Builder())
    assert not list(store.directory.glob("*.build-*"))


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda image: image.write_text("truncated"), "size and modification time changed"),
        (lambda image: image.with_suffix(".json").unlink(), "record cannot be read"),
        (lambda image: image.with_suffix(".json").write_text("{"), "record cannot be read"),
        (lambda image: image.write_text("WHOLE"), "modification time changed"),
    ],
    ids=["truncated", "no record", "bad record", "overwritten"],
)
def test_damaged_image_is_built_again(store, said, damage, what):
    builder = Builder()
    damage(get(store, builder))
    assert get(store, builder).read_text() == "whole"
    assert builder.built == 2
    assert what in said[-1]


def test_purge_removes_images_and_leaves_other_files(store):
    get(store, Builder())
    (store.directory / "keep.txt").write_text("mine")
    store.purge()
    assert [path.name for path in store.directory.iterdir()] == ["keep.txt"]


@pytest.fixture
def recipe(tmp_path):
    copy = tmp_path / "lab"
    shutil.copytree(data_dir("lab"), copy)
    return Recipe(copy, "bookworm")


def test_recipe_key_is_that_of_what_an_image_is_made_of(recipe):
    before = recipe.key()
    assert Recipe(data_dir("lab"), "bookworm").key() == before
    assert Recipe(recipe.directory, "trixie").key() != before
    (recipe.directory / "faults/new.sh").write_text("true")
    assert recipe.key() == before
    (recipe.directory / "image/files/usr/lib/rdmaprov-lab/rail").chmod(0o600)
    assert recipe.key() != before


@pytest.mark.parametrize("part", ["recipe.toml", "image/setup.sh", "standins/Makefile"])
def test_recipe_key_changes_with_its_files(recipe, part):
    before = recipe.key()
    with (recipe.directory / part).open("a") as file:
        file.write("\n")
    assert recipe.key() != before


def test_recipe_key_leaves_out_the_bytecode_of_an_installed_wheel(recipe):
    before = recipe.key()
    python = recipe.directory / "image/files/usr/lib/python3/dist-packages"
    assert compileall.compile_dir(python, quiet=2)
    assert list(python.glob("__pycache__/*.pyc"))
    assert recipe.key() == before


def test_spare_packages_are_fetched_after_the_build_packages_are_purged(
    recipe, tmp_path, monkeypatch
):
    """A library that both need is there before, and apt would leave it out."""
    ran = []
    monkeypatch.setattr(build, "run", lambda argv, **_: ran.append(argv))
    monkeypatch.setattr(build, "check_space", lambda *_: None)
    build.build_root(recipe, tmp_path, {})
    hooks = [word for word in ran[0] if word.startswith("--customize-hook=")]
    purging = [number for number, hook in enumerate(hooks) if "setup.sh" in hook]
    fetching = [number for number, hook in enumerate(hooks) if "--download-only" in hook]
    assert "purge" in (recipe.directory / "image/setup.sh").read_text()
    assert len(purging) == 1
    assert len(fetching) == 1
    assert purging < fetching


def test_too_little_space_is_refused(tmp_path):
    with pytest.raises(RdmaprovError, match="MiB free, and 1073741824 are needed"):
        check_space(tmp_path, 1 << 30)


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


def test_sector_0_is_a_boot_sector_and_the_core_image_follows(image):
    assert image[510:512] == b"\x55\xaa"
    assert image[:4] == b"BBBB"
    assert struct.unpack_from("<Q", image, 0x5C) == (1,)
    assert image[512:516] == b"CCCC"
    assert struct.unpack_from("<Q", image, 512 + 500) == (2,)  # where its rest is


def test_one_partition_reaches_from_1_mib_to_the_end(image):
    assert len(image) == DISK_MIB << 20
    active, _, kind, _, first, sectors = struct.unpack_from("<B3sB3sII", image, 446)
    assert (active, kind, first) == (0x80, 0x83, 2048)
    assert (first + sectors) * 512 == len(image)
    assert image[462:510] == bytes(48)


def test_filesystem_starts_at_the_partition_and_has_its_label(image):
    start = 2048 * 512
    assert struct.unpack_from("<H", image, start + EXT4_MAGIC_OFFSET) == (EXT4_MAGIC,)
    assert image[start + 1024 + 0x78 :][:10] == b"some-label"


def test_boot_and_core_image_of_another_size_are_refused():
    with pytest.raises(ValueError, match="511 bytes"):
        disk.boot_sector(b"x" * 511, 4096)
    with pytest.raises(ValueError, match="does not fit before the partition"):
        disk.core_sectors(b"x" * (2048 * 512))
