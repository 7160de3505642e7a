# title: Slow a rail down to 5 Mbit/s
# stands for: A link or a PCIe slot came up at a fraction of its width, and one rail holds up every
#   collective of the cluster.
# breaks: one rail, until a reboot
state() {
	netem_state
}

inject() {
	inject_netem rate 5mbit
}

heal() {
	heal_netem
}
