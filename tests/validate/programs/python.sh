#!/bin/sh
shift 3
printf '{'; comma=
for name; do
    version=$(cat "$ROOT/.answers/python/$name" 2> /dev/null || echo null)
    printf '%s"%s": %s' "$comma" "$name" "$version"
    comma=', '
done
echo '}'
