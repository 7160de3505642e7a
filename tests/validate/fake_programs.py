"""The programs of a made-up node: scripts that read what the node's tree has under .answers."""

from __future__ import annotations

# Prints what is in answers/PROGRAM/ARGUMENTS, with "_" for blanks and slashes.
_ANSWERS = """\
#!/bin/sh
key=$(printf %s "$*" | sed "s|$ROOT||g" | tr ' /' '__')
file=$ROOT/.answers/${0##*/}/$key
if [ ! -e "$file" ]; then echo "${0##*/}: the made-up node has no answer to: $*" >&2; exit 99; fi
cat "$file"; [ ! -e "$file:err" ] || cat "$file:err" >&2
[ ! -e "$file:rc" ] || exit "$(cat "$file:rc")"
"""
_SYSTEMCTL = """\
#!/bin/sh
units=$ROOT/.answers/units
if [ "$1" = list-units ]; then cat "$units/failed"; exit; fi
value=; for word; do shift; [ "$word" != --value ] || value=yes; [ "$word" != -- ] || break; done
for unit; do
    if [ -n "$value" ]; then sed -n s/^MainPID=//p "$units/$unit"; continue; fi
    cat "$units/$unit" 2> /dev/null || printf 'Id=%s\\nLoadState=not-found\\n' "$unit"
    echo
done
"""
# add NETDEV COUNTER INCREASE
_ADD = """\
add() {
    file="$ROOT/.answers/ethtool/-S_$1"
    awk -v name="$2:" -v more="$3" \
        '$1 == name { $0 = "     " name " " $2 + more } { print }' "$file" > "$file:new"
    mv "$file:new" "$file"
}
"""
# As a server it counts what .answers/traffic/PROGRAM says: NETDEV COUNTER INCREASE.
_TRAFFIC = (
    f"""\
#!/bin/sh
{_ADD}
"""
    """\
program=${0##*/}
for last; do :; done
case "$program $*" in rping*-s*) server=yes ;; rping*) server= ;;
    *) case $last in *[0-9].*[0-9].*|*:*) server= ;; *) server=yes ;; esac ;;
esac
if [ -z "$server" ]; then cat "$ROOT/.answers/traffic/$program:out" 2> /dev/null
    [ ! -e "$ROOT/.answers/traffic/$program:rc" ] || exit 1; exit 0; fi
[ -e "$ROOT/.answers/traffic/$program" ] || exit 0
while read -r netdev counter increase; do
    case "$*" in *"$(cat "$ROOT/.answers/traffic/of-$netdev")"*) ;; *) continue ;; esac
    add "${counter%%:*}" "${counter##*:}" "$increase"
done < "$ROOT/.answers/traffic/$program"
"""
)
# Nobody has to wait for a made-up node. Meanwhile its counters rise as .answers/sleep says: NETDEV
# COUNTER INCREASE.
_SLEEP = f"""\
#!/bin/sh
{_ADD}
[ ! -e "$ROOT/.answers/sleep" ] || while read -r netdev counter increase; do
    add "$netdev" "$counter" "$increase"
done < "$ROOT/.answers/sleep"
"""
_PING = """\
#!/bin/sh
for last; do :; done
case " $* " in *" -M do "*) cat "$ROOT/.answers/ping/$last"; exit ;; esac
[ ! -e "$ROOT/.answers/ping/$last:silent" ]
"""
_PYTHON = """\
#!/bin/sh
shift 3
printf '{'; comma=
for name; do
    version=$(cat "$ROOT/.answers/python/$name" 2> /dev/null || echo null)
    printf '%s"%s": %s' "$comma" "$name" "$version"
    comma=', '
done
echo '}'
"""
_LIKE = {
    "systemctl": _SYSTEMCTL,
    "ib_write_bw": _TRAFFIC,
    "rping": _TRAFFIC,
    "ibv_rc_pingpong": _TRAFFIC,
    "ping": _PING,
    "sleep": _SLEEP,
}


def script(name: str) -> str:
    """Return the script for a program: a Python interpreter if the name is a path."""
    return _PYTHON if name.startswith("/") else _LIKE.get(name, _ANSWERS)
