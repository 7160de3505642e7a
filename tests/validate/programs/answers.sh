#!/bin/sh
# Prints what is in .answers/PROGRAM/ARGUMENTS, with "_" for blanks and slashes. Fields are split and
# joined by the shell: the suite asks some ten thousand times, and each tool costs another process.
# shellcheck disable=SC2086
IFS=_; key="$*"
case $key in *' '*|*"$ROOT"*) key=$(printf %s "$key" | sed "s|$ROOT||g" | tr ' ' _) ;; esac
set -f; key=$key/; IFS=/; set -- $key; IFS=_; file=$ROOT/.answers/${0##*/}/$*
if [ ! -e "$file" ]; then echo "${0##*/}: the made-up node has no answer to: $file" >&2; exit 99; fi
[ -e "$file:err" ] || [ -e "$file:rc" ] || exec cat "$file"
cat "$file"; [ ! -e "$file:err" ] || cat "$file:err" >&2
[ ! -e "$file:rc" ] || exit "$(cat "$file:rc")"
