# title: Drop every fifth packet that leaves a rail
# stands for: A dirty fibre or a bent cable: the link is up, short messages mostly get through, and
#   throughput is gone.
# breaks: one rail, until a reboot
state() {
	netem_state
}

inject() {
	inject_netem loss 20%
}

heal() {
	heal_netem
}
