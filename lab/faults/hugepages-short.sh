# title: Free a quarter of the hugepages
# stands for: Memory was fragmented when the pages were requested, and the kernel gave fewer,
#   without an error.
# breaks: the node, until a reboot
state() {
	hugepages_state
}

inject() {
	recall before | grep -q ' [1-9]' || nothing_to_break "there are no hugepages"
	recall before | awk '{ print $1, int($2 * 3 / 4) }' | set_hugepages
}

heal() {
	recall before | set_hugepages
}
