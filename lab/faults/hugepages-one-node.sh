# title: Move all hugepages to one NUMA node
# stands for: The pages were requested while one NUMA node was full, so the total is right and half
#   of the processes reach their pages across the socket link.
# breaks: the node, until a reboot
state() {
	hugepages_state
}

inject() {
	nodes=$(recall before | sed -n 's|.*/\(node[0-9]*\)/.* [1-9].*|\1|p' | sort -u | wc -l)
	[ "$nodes" -gt 1 ] || nothing_to_break "there are no hugepages on two NUMA nodes"
	recall before | awk '
		{
			size = $1
			sub(/.*hugepages-/, "", size)
			total[size] += $2
			if (!(size in first)) first[size] = $1
			path[NR] = $1
			of[NR] = size
		}
		END {
			for (i = 1; i <= NR; i++)
				print path[i], path[i] == first[of[i]] ? total[of[i]] : 0
		}' | remember moved
	set_hugepages < "$record/moved"
	[ "$(state)" != "$(recall moved)" ] || return 0
	heal
	nothing_to_break "the first NUMA node has no room for all hugepages"
}

heal() {
	recall before | set_hugepages
}
