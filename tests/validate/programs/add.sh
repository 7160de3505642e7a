# add NETDEV COUNTER INCREASE
add() {
    file="$ROOT/.answers/ethtool/-S_$1"
    awk -v name="$2:" -v more="$3"         '$1 == name { $0 = "     " name " " $2 + more } { print }' "$file" > "$file:new"
    mv "$file:new" "$file"
}
