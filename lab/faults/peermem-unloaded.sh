# title: Unload nvidia_peermem
# stands for: The module does not load at boot after a driver update, and NCCL copies through host
#   memory without a warning.
# breaks: the node, until a reboot
state() {
	[ ! -d /sys/module/nvidia_peermem ] || echo loaded
}

inject() {
	[ -n "$(recall before)" ] || nothing_to_break "nvidia_peermem is not loaded"
	unload nvidia_peermem > "$record/unloaded"
}

heal() {
	[ ! -e "$record/unloaded" ] || load < "$record/unloaded"
}
