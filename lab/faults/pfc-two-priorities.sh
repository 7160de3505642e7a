# title: Switch PFC on for a second priority of a rail
# stands for: A second lossless priority was switched on for storage and left on, so the receive
#   buffer is split in two and each half is too small for the line rate.
# breaks: one rail, until a reboot
state() {
	pfc_state
}

inject() {
	lossless=$(pfc_priorities | head -n 1)
	[ -n "$lossless" ] || nothing_to_break "rail $rail has PFC on no priority"
	set_dcb pfc set dev "$netdev" prio-pfc "$(((lossless + 1) % 8)):on"
}

heal() {
	heal_pfc
}
