"""What keeps a site from being loaded."""

import difflib
import shlex
from pathlib import Path

from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode


class SiteError(RdmaprovError):
    """There is no site to load."""

    exit_code = ExitCode.INVALID_SITE


def no_nodes(site: Path) -> SiteError:
    """Return the error for a site that has hosts and no node."""
    hint = shlex.join(["rdmaprov", "check", str(site)])
    return SiteError(f"{site}: the site has no nodes", f"See: {hint}")


def site_directory(site: Path) -> Path:
    """Return the directory of a site, resolved; raise SiteError if there is none."""
    if not site.exists():
        raise SiteError(f"{site}: no such directory", _suggestion(site))
    if not site.is_dir():
        raise SiteError(
            f"{site}: not a directory", f"Name the directory of the site: {site.parent}"
        )
    return site.resolve()


def _suggestion(site: Path) -> str:
    """Return what to do about a missing site, such as a similar name beside it."""
    beside = [path.name for path in site.parent.glob("*/") if path.is_dir()]
    if near := difflib.get_close_matches(site.name, beside, n=1):
        return f"Did you mean {site.parent / near[0]}?"
    here = f" (relative to {Path.cwd()})" if not site.is_absolute() else ""
    create = shlex.join(["rdmaprov", "init", str(site)])
    return f"Name the directory of a site{here}, or create one: {create}"
