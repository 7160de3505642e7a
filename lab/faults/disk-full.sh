# title: Fill the root disk, including the blocks reserved for root
# stands for: A core dump or a runaway log filled the disk, and every tool that writes a file fails in
#   its own way.
# breaks: the node, until healed
filler=/var/log/rdmaprov-lab-runaway.log

state() {
	[ -e "$filler" ] && echo full || echo room
}

# Blocks are set aside, not written: fast, and the host's disk does not grow.
inject() {
	: > "$filler"
	observe after # no room for it later
	block=$(stat -f -c %S "$filler")
	bytes=$(($(stat -f -c %f "$filler") * block))
	while [ "$bytes" -ge "$block" ]; do
		end=$(stat -c %s "$filler")
		fallocate -o "$end" -l "$bytes" "$filler" 2> /dev/null || bytes=$((bytes / 2))
	done
}

heal() {
	rm -f "$filler"
}
