"""Keep the bytecode of what Python imports from a zip archive, on nodes of the lab alone.

Ansible sends each module as an archive of some fifty sources, and Python compiles them anew in
each, twice (zipimport also compiles a source to tell its file's name): seconds under emulation. The
code is what it would be; it is kept by the hash of its source, in memory (/run), by root alone.
"""

import _imp
import marshal
import os
import sys
import zipimport

_DIRECTORY = "/run/rdmaprov-lab/bytecode"
_compile_source = zipimport._compile_source


def _kept(pathname, source):
    digest = _imp.source_hash(sys.hexversion, source).hex()
    path = f"{_DIRECTORY}/{digest}-{len(source)}"
    try:
        with open(path, "rb") as file:
            code = marshal.loads(file.read())
    except (OSError, EOFError, TypeError, ValueError):
        code = _compile_source(pathname, source)
        _keep(path, marshal.dumps(code))
        return code
    _imp._fix_co_filename(code, pathname)
    return code


def _keep(path, data):
    if os.geteuid() != 0:  # another user could put anything there
        return
    try:
        os.makedirs(_DIRECTORY, mode=0o755, exist_ok=True)
        with open(f"{path}.{os.getpid()}", "wb") as file:
            file.write(data)
        os.replace(f"{path}.{os.getpid()}", path)
    except OSError:
        pass  # it is compiled again next time


zipimport._compile_source = _kept
