"""What TuneD's active profile sets, and irqbalance's policy: both may undo what roles set.

Sources: man tuned-adm(8); Fedora's Power Management Guide, "Custom Profiles"; TuneD's own profiles
(redhat-performance/tuned, profiles/); linux-system-roles/kernel_settings, README (reapply_sysctl).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rdmaprov.boundary import shown
from rdmaprov.facts import units
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, read_files, whole

UNIT, ACTIVE, MAIN = "tuned.service", "/etc/tuned/active_profile", "/etc/tuned/tuned-main.conf"
# The first counts: a user's profile hides the distribution's of the same name.
_DIRECTORIES = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_MOST_PROFILES = 32
_POLICY = re.compile(r"--policyscript(?:=.*)?|-l.*")


@dataclass(frozen=True)
class ProfileOption:
    """An option of a profile."""

    kind: str  # the plugin's, such as sysctl
    name: str
    value: str
    file: str

    def words(self) -> list[str]:
        """Return its value's words.

        Raises:
            CouldNotTell: TuneD works the value out when it runs.
        """
        if "$" in self.value:
            raise CouldNotTell(f"{self.file}: {self.name} is {shown(self.value)!r}, not a value")
        return self.value.strip('"').split()


@dataclass(frozen=True)
class Profile:
    """The active profile with all that it includes."""

    names: tuple[str, ...]
    # one for each plugin's instance and name, the last one that TuneD reads
    options: tuple[ProfileOption, ...]
    restores_sysctl: bool  # whether TuneD sets what /etc/sysctl.d says after what the profile says

    def of(self, kind: str) -> Iterator[ProfileOption]:
        """Yield the options of a plugin."""
        return (each for each in self.options if each.kind == kind)


def read(host: Host) -> Profile | None:
    """Return the active profile; None where TuneD does not run or has none."""
    if units.show(host, UNIT)[UNIT].get("ActiveState") != "active":
        return None
    files = read_files(host, ACTIVE, MAIN)
    names = tuple((files.get(ACTIVE) or "").split())
    if not names:
        return None
    found: dict[tuple[str, str], ProfileOption] = {}
    left = [_MOST_PROFILES]
    for name in names:
        _read(host, name, found, left)
    main = dict(_assignments(files.get(MAIN) or ""))
    restores = main.get("reapply_sysctl", "1").lower() not in ("0", "false", "no", "off")
    return Profile(names, tuple(found.values()), restores)


def irqbalance_policies(host: Host) -> tuple[str, ...]:
    """Return the options by which running irqbalances have a policy of their own."""
    command = (
        "for each in $(grep -lsx irqbalance /proc/[0-9]*/comm); do "
        "tr '\\0' '\\n' < \"${each%comm}cmdline\"; done; "
        f"echo {END}"
    )
    lines = whole(host.run(command).stdout, "irqbalance's options").splitlines()
    return tuple(line for line in lines if _POLICY.fullmatch(line))


def _read(
    host: Host, name: str, found: dict[tuple[str, str], ProfileOption], left: list[int]
) -> None:
    """Add what a profile sets, after what it includes."""
    left[0] -= 1
    if not _NAME.fullmatch(name) or left[0] < 0:
        raise CouldNotTell(f"TuneD's profile {shown(name)!r} cannot be read")
    paths = [f"{directory}/{name}/tuned.conf" for directory in _DIRECTORIES]
    files = read_files(host, *paths)
    path = next((each for each in paths if files.get(each) is not None), "")
    if not path:
        raise CouldNotTell(f"TuneD's profile {name} is in none of {', '.join(_DIRECTORIES)}")
    sections = _sections(files.must(path))
    for included in re.split(r"[\s,]+", sections.get("main", {}).get("include", "").strip()):
        if included:
            _read(host, included, found, left)
    for section, options in sections.items():
        for option, value in options.items():
            kind = options.get("type", section)
            found[section, option] = ProfileOption(kind, option, value, path)


def _sections(text: str) -> dict[str, dict[str, str]]:
    parts = re.split(r"(?m)^\[([^\]\n]+)\][^\n]*$", text)
    return {
        name.strip(): dict(_assignments(body))
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", ";")):
            yield name.strip(), value.strip()
