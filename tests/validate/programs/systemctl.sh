#!/bin/sh
units=$ROOT/.answers/units
if [ "$1" = list-units ]; then cat "$units/failed"; exit; fi
value=; for word; do shift; [ "$word" != --value ] || value=yes; [ "$word" != -- ] || break; done
for unit; do
    if [ -n "$value" ]; then sed -n s/^MainPID=//p "$units/$unit"; continue; fi
    cat "$units/$unit" 2> /dev/null || printf 'Id=%s\nLoadState=not-found\n' "$unit"
    echo
done
