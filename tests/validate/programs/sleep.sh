#!/bin/sh
# Nobody waits for a made-up node, but for tenths where it is asked again and again. Meanwhile its
# counters rise as .answers/sleep says: NETDEV COUNTER INCREASE.
# @ADD@

[ ! -e "$ROOT/.answers/sleep" ] || while read -r netdev counter increase; do
    add "$netdev" "$counter" "$increase"
done < "$ROOT/.answers/sleep"
case $1 in 0.*) exec /bin/sleep "$1" ;; esac
