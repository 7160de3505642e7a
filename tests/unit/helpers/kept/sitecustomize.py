"""Work that processes of tests do once: Python imports this as each starts; see conftest.py.

Each run of Ansible packs the same sources anew, and each module on a node compiles what was packed,
as zipimport keeps no bytecode: a third of what a plan of one node takes. Each start parses two
files of Ansible's own: a sixth of it. All are kept below a directory that is named by the content
of all plugins; a node's bytecode as on nodes of the lab.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder

ROOT = os.path.realpath(__file__ + "/../../../../..")  # each start would pay for pathlib
KEPT = os.environ.get("RDMAPROV_TESTS_KEPT", "")


class AtImport:
    """Has a module changed once it is imported."""

    def find_spec(self, name, path=None, _target=None):
        if name not in CHANGES:
            return None
        spec = PathFinder.find_spec(name, path)
        loader = spec.loader  # type: ignore[union-attr]
        execute = loader.exec_module  # type: ignore[union-attr]

        def execute_and_change(module):
            execute(module)
            CHANGES[name](module)

        loader.exec_module = execute_and_change  # type: ignore[method-assign, union-attr]
        return spec


def keep_packed(ansible):
    import shutil
    from contextlib import suppress
    from pathlib import Path

    pack = ansible._find_module_utils

    def pack_once(**given):
        source = Path(given["module_path"]).resolve()
        if source.parent != Path(ROOT, "plugins/modules"):
            return pack(**given)
        kept = Path(KEPT, f"packed-{ansible.__version__}")
        own = Path(ansible.C.DEFAULT_LOCAL_TMP, "ansiballz_cache")
        name = f"*.node.plugins.modules.{source.stem}-*-none"
        for path in kept.glob(name):
            own.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                (own / path.name).symlink_to(path)
        built = pack(**given)
        with suppress(OSError):  # another run may tidy up
            kept.mkdir(parents=True, exist_ok=True)
            for path in own.glob(name):
                if not path.is_symlink():
                    part = kept / f"{os.getpid()}.part"
                    shutil.copy(path, part)
                    part.replace(kept / path.name)
        return built

    ansible._find_module_utils = pack_once


def keep_parsed(module, name, read):
    """Have a function of a module parse once what `read` makes bytes of."""
    parse = getattr(module, name)

    def parse_once(given, *more):
        import json
        from hashlib import sha256
        from pathlib import Path

        text = read(given)
        kept = Path(KEPT, f"{name}-{sha256(text).hexdigest()}")
        if kept.exists():
            return json.loads(kept.read_bytes())
        parsed = parse(text, *more)
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = Path(KEPT, f"{os.getpid()}.parsed")
        part.write_text(json.dumps(parsed))
        part.replace(kept)
        return parsed

    setattr(module, name, parse_once)


CHANGES = {
    "ansible.executor.module_common": keep_packed,
    "ansible.utils.collection_loader._collection_meta": lambda module: keep_parsed(
        module, "_meta_yml_to_dict", bytes
    ),
    "ansible.config.manager": lambda module: keep_parsed(
        module, "yaml_load", lambda file: file.read()
    ),
}


if KEPT:
    sys.meta_path.insert(0, AtImport())
    sys.path.insert(0, f"{ROOT}/lab/image/files/usr/lib/python3/dist-packages")
    sys.dont_write_bytecode, usual = True, sys.dont_write_bytecode  # no __pycache__ in the image
    vars(import_module("rdmaprov_lab_bytecode"))["_DIRECTORY"] = f"{KEPT}/bytecode"
    sys.dont_write_bytecode = usual
    del sys.path[0]
