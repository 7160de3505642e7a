# title: Move PFC of a rail to the next priority
# stands for: The host was set up from another site's guide, so the switch pauses one priority and
#   the NIC another; nobody notices until the fabric is congested and drops packets.
# breaks: one rail, until a reboot
state() {
	pfc_state
}

inject() {
	lossless=$(pfc_priorities | head -n 1)
	[ -n "$lossless" ] || nothing_to_break "rail $rail has PFC on no priority"
	set_dcb pfc set dev "$netdev" prio-pfc all:off "$(((lossless + 1) % 8)):on"
}

heal() {
	heal_pfc
}
