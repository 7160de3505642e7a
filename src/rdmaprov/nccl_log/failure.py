"""Why a job failed, from what its logs say of the end: causes first, then paths, then victims.

A rank that lost another one, or waited for it, is a victim: where a cause is known, it is a note.
The rank that did not join, or that ended without a message, is named beside it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.causes import UNKNOWN, VICTIMS, KnownCause, causes
from rdmaprov.nccl_log.completion import CompletionError
from rdmaprov.nccl_log.matrix import Matrix, format_numbers
from rdmaprov.nccl_log.troubles import RankTrouble, TroubleTally
from rdmaprov.problem import printable
from rdmaprov.words import some

_MOST_PATHS = 8
_MOST_HOSTS = 4
_KIND = "nccl.failed"
_LOST = ("closed", "timeout")
_LATE = ("timeout", "watchdog", "dump")
_UNREACHED = ("connect", "store", "gloo", "id-of-nccl", "ucx-path")
_LOOK = "its own log and exit status, and dmesg -T on its host, have the cause"
_FLIGHT = (
    "pass the logs of all ranks; torch's flight recorder (TORCH_FR_BUFFER_SIZE) names the call"
)


def judge_failure(matrix: Matrix) -> tuple[list[Finding], list[str]]:
    """Return why the job failed, nothing if no line says that it did; and notes on victims."""
    by_cause = _by_cause(matrix.broken.troubles)
    own = {one: said for one, said in by_cause.items() if one.whose in ("own", "all")}
    victims = [each for one, said in by_cause.items() if one.whose == "others" for each in said]
    paths = list(_path_findings(matrix.errors))
    proofs = {"alone", "path"} if victims or paths else {"alone"}
    if not any(each.cause in _LATE for each in victims):
        proofs.add("lost")
    found: list[Finding] = []
    minor: list[Finding] = []
    after: list[Finding] = []  # what ended a job that hung, or one of which nothing else is said
    for one, said in own.items():
        proves = _ends(one, said, matrix.broken) in proofs
        place = found if proves else after if one.ends == "lost" else minor
        place.append(_cause_finding(one, said, matrix))
    if victims and not found and not paths:
        found, minor = minor, []
    found += paths
    if not found and victims:
        found = [_hang(matrix.broken, victims) or _lost(matrix, victims)]
        victims = []
    found += [
        Finding(_KIND, f"{one.means}: '{said[0].words}'", one.fix, proven=False)
        for one, said in by_cause.items()
        if one.whose == "open" and not found
    ]
    ended = (pair for pair in by_cause.items() if pair[0].whose == "ended")
    after += [_cause_finding(one, said[:1], matrix) for one, said in ended]
    if not found:
        found = [after.pop(0)] if after else []
    minor += after
    notes = [f"{each.what}; {each.remedy}" for each in minor]
    guilty = {each.rank for said in own.values() for each in said} - {None}
    victims = [each for each in victims if each.cause in _LOST and each.rank not in guilty]
    if victims and found:
        notes.append(f"{_who(victims)}: victims of that ('{_short(victims[0].words)}')")
    return found, notes


def _ends(cause: KnownCause, said: Sequence[RankTrouble], broken: TroubleTally) -> str:
    """Return what proves that the job failed of it, as it went on for those who said it."""
    if cause.ends == "start":
        return "never" if all(each[2:4] in broken.started for each in said) else "alone"
    if cause.id == "event-port" and all(_came_back(each, broken.warnings) for each in said):
        return "path"
    return cause.ends


def _came_back(trouble: RankTrouble, warnings: Collection[tuple[str, str]]) -> bool:
    """Return whether the port that went down is up in the last words about it."""
    port = trouble.words.partition(" Got ")[0]
    last = [words for host, words in warnings if host == trouble.host and words.startswith(port)]
    return any("port active" in words for words in last[-2:]) and "port error" not in last[-1]


def _by_cause(troubles: Iterable[RankTrouble]) -> dict[KnownCause, list[RankTrouble]]:
    """Return the troubles by their cause, in the order of the table; what nobody knows at last."""
    found: dict[str, list[RankTrouble]] = defaultdict(list)
    for each in troubles:
        found[each.cause].append(each)
    known = {one: found[name] for name, one in causes().items() if name in found}
    if any(one.whose not in VICTIMS and one.id != UNKNOWN for one in known):
        known.pop(causes()[UNKNOWN], None)
    cuda = causes()["cuda"]  # what a process says of CUDA after it said more only follows
    own = {one: said for one, said in known.items() if one.whose == "own" and one is not cuda}
    named = {each[2:5] for said in own.values() for each in said}
    if left := [each for each in known.pop(cuda, []) if each[2:5] not in named]:
        known[cuda] = left
    return known


def _cause_finding(cause: KnownCause, said: Sequence[RankTrouble], matrix: Matrix) -> Finding:
    words = list(dict.fromkeys(each.words for each in said))
    meaning, fix = cause.meaning(words[0]), cause.fix
    if cause.id == "sizes" and (differ := _calls(matrix.broken)):
        meaning += f" ({differ})"
    if cause.id == "event-port" and _ends(cause, said, matrix.broken) == "path":
        meaning += ", and came back"
    if cause.id == "no-network":
        fix = _asked(matrix) + fix
    seen = f"{_who(said)}: {meaning}"
    if cause.whose == "all":
        seen = meaning if cause.by else f"{meaning}, seen by {_who(said)}"
    what = f"{seen}: '{_short(words[0])}'"
    if len(words) > 1:
        what += f" and {len(words) - 1} more"
    hosts = tuple(sorted({each.host for each in said if each.host}))
    return Finding(_KIND, what, fix, nodes=hosts if cause.whose == "own" else ())


def _calls(broken: TroubleTally) -> str:
    """Return in what the ranks' last operations differ, if it is one operation to NCCL."""
    calls = {broken.ranks[one]: call for one, call in broken.calls.items() if one in broken.ranks}
    if len({call.number for call in calls.values()}) != 1 or len(set(calls.values())) < 2:
        return ""
    ranks = format_numbers(sorted(calls))
    by_call: dict[str, list[int]] = defaultdict(list)
    for rank, call in sorted(calls.items()):
        by_call[f"{call.function} of {call.values} values"].append(rank)
    each = ", ".join(f"{text} on {format_numbers(of)}" for text, of in list(by_call.items())[:4])
    return f"operation {next(iter(calls.values())).number} of {ranks}: {each}"


def _asked(matrix: Matrix) -> str:
    """Return what the environment asks for and what the log says of it, as a beginning."""
    hints = {kind: text for one in matrix.processes for kind, text in one.hints.items()}
    said = [hints[kind] for kind in ("net", "no_device", "no_library") if kind in hints]
    return "".join(f"'{each}'; " for each in said)


def _path_findings(errors: Sequence[CompletionError]) -> Iterator[Finding]:
    """Yield each path that failed once; what only follows from others only if there is no other."""
    first = [each for each in errors if not each.is_flush] or list(errors)
    paths: dict[tuple[str, ...], CompletionError] = {}
    for each in first:
        place = (each.host, each.hca, each.remote_gid or each.peer, each.call, str(each.status))
        paths.setdefault(place, each)
    for error in list(paths.values())[:_MOST_PATHS]:
        to = error.remote_gid or error.peer or "an unknown end"
        own = f"{error.host or '?'}" + (f" rank {error.rank}" if error.rank is not None else "")
        ends = f" (GID {error.local_gid})" if error.local_gid else ""
        what = f"{own} {error.hca or 'HCA unknown'}{ends} to {to}: {error.said}"
        yield Finding(_KIND, what, error.remedy)
    if len(paths) > _MOST_PATHS:
        what = f"{len(paths) - _MOST_PATHS} more paths failed; see --json"
        yield Finding(_KIND, what, "look for an end that many of them have")


def _hang(broken: TroubleTally, victims: Collection[RankTrouble]) -> Finding | None:
    """Return for whom ranks waited until the time was up, None if none did."""
    late = {each.rank for each in victims if each.cause == "timeout" and each.rank is not None}
    if not late or any(each.cause == "closed" for each in victims):
        return None
    late |= {rank for _, rank in broken.waits}
    ranks = sorted(rank for rank in late if rank is not None)
    number, name = next(iter(broken.operations.values()))
    operation = f"operation {number} ({name})"
    behind = {
        rank
        for (group, rank), called in broken.enqueued.items()
        for (other, _), due in broken.waits.items()
        if group == other and called < due
    }
    if behind and not behind & late:
        who = format_numbers(sorted(behind))
        what = f"{who} did not join {operation}, in which {format_numbers(ranks)} waited"
        return Finding(_KIND, what, f"find what {who} did instead: {_FLIGHT}")
    if parted := _parted(broken, number, ranks):
        return Finding(_KIND, parted, f"find where the program's ways part; {_FLIGHT}")
    waited = _operations(broken, ranks) or f"{format_numbers(ranks)} waited in {operation}"
    what = f"{waited} until the time was up"
    return Finding(_KIND, f"{what}; no rank that says how far it is has called fewer", _FLIGHT)


def _operations(broken: TroubleTally, ranks: Sequence[int]) -> str:
    """Return which ranks waited in which operation, empty if all did in one."""
    waited = _by_operation(broken, ranks)
    if len(waited) < 2:
        return ""
    each = [f"{format_numbers(own)} in {number} ({name})" for (number, name), own in waited.items()]
    return f"ranks waited in different operations, {some(each, _MOST_HOSTS)},"


def _by_operation(broken: TroubleTally, ranks: Sequence[int]) -> dict[tuple[int, str], list[int]]:
    """Return by number and name of an operation which ranks waited in it, as far as they say."""
    waited: dict[tuple[int, str], list[int]] = defaultdict(list)
    for rank in ranks:
        if own := broken.operations.get(rank):
            waited[own].append(rank)
    return waited


def _parted(broken: TroubleTally, number: int, ranks: Sequence[int]) -> str:
    """Return that ranks wait in different operations of one number, empty if they do not.

    Each group of ranks has numbers of its own, and old versions do not say which group it is.
    """
    waited = _by_operation(broken, ranks)
    by_name = {name: own for (its, name), own in waited.items() if its == number}
    groups = {group for group, rank in broken.waits if rank in ranks}
    if len(by_name) < 2 or len(groups) > 1:
        return ""
    listed = "; ".join(f"{name} on {format_numbers(own)}" for name, own in by_name.items())
    doubt = "" if groups else ", or these are of different groups of ranks"
    return f"ranks called different operations: number {number} is {listed}{doubt}"


def _lost(matrix: Matrix, victims: Sequence[RankTrouble]) -> Finding:
    """Return who lost whom, as far as the logs say."""
    broken = matrix.broken
    lost = sorted({each.rank for each in victims if each.rank is not None})
    # A proxy that gives up closes the connection to the ranks of its own process.
    proxies, words = set(), None
    for each in broken.troubles:
        if each.cause == "proxy":
            proxies.add(each[2:4])
        elif each.cause == "closed" and each[2:4] not in proxies:
            words = words or each
    unreached = [each for each in victims if each.cause in _UNREACHED]
    if words is None or unreached:
        said = unreached or [each for each in victims if each.cause != "closed"]
        one, first = causes()[said[0].cause], said[0].words
        what = f"{_who(said)}: {one.meaning(first)}: '{_short(first)}'"
        return Finding(_KIND, what, one.fix)
    operation = next((broken.operations[rank] for rank in lost if rank in broken.operations), None)
    within = f" in operation {operation[0]} ({operation[1]})" if operation else ""
    who = format_numbers(lost) if lost else _who(victims)
    others = sorted(set(broken.ranks.values()) - set(lost))
    quiet = [rank for rank in others if rank not in broken.ranks_that_ended]
    if len(quiet) == 1:
        silent = format_numbers(quiet)
        what = f"{silent} ended without a message; {who} lost the connection{within}"
        return Finding(_KIND, what, f"look at {silent}: {_LOOK}")
    what = f"{who} lost the connection to another rank{within}"
    if quiet:
        what += f"; {len(quiet)} other ranks have no error, and one of them may have ended first"
    elif others:
        what = f"{who} lost the connection to {format_numbers(others)}{within}"
        what += ", which ended in order: ranks may have called different operations"
    if matrix.silent:
        what += f"; {some(matrix.silent, 2)} ended without a message"
    return Finding(_KIND, f"{what}: '{_short(words.words)}'", f"look for the first one: {_LOOK}")


def _who(said: Iterable[RankTrouble]) -> str:
    """Return the ranks and hosts that said it; the files if neither is known."""
    said = list(said)
    ranks = sorted({each.rank for each in said if each.rank is not None})
    hosts = sorted({each.host for each in said if each.host})
    if not ranks and not hosts:
        return some(dict.fromkeys(each.file for each in said), _MOST_HOSTS)
    names = [format_numbers(ranks)] if ranks else []
    return " on ".join([*names, some(hosts, _MOST_HOSTS)] if hosts else names)


def _short(words: str) -> str:
    return printable(words[:160] + ("…" if len(words) > 160 else ""))
