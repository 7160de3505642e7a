#!/bin/sh
# As a server it counts what .answers/traffic/PROGRAM says: NETDEV COUNTER INCREASE.
# @ADD@

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
