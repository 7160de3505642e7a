# title: Switch automatic NUMA balancing on
# stands for: A tuning profile was applied or a kernel update brought its default back, and the kernel
#   unmaps pages of running jobs, registered memory included, to see which CPU uses them.
# breaks: the node, until a reboot
value=/proc/sys/kernel/numa_balancing

state() {
	cat $value
}

inject() {
	[ "$(recall before)" = 0 ] || nothing_to_break "automatic NUMA balancing is on"
	echo 1 > $value
}

heal() {
	recall before > $value
}
