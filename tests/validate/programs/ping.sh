#!/bin/sh
for last; do :; done
case " $* " in *" -M do "*) cat "$ROOT/.answers/ping/$last"; exit ;; esac
[ ! -e "$ROOT/.answers/ping/$last:silent" ]
