# title: Let the receive buffer of a rail's lossless priority overflow
# stands for: The host takes packets off the NIC too slowly, so the NIC asks for a pause again and
#   again and the congestion spreads through the fabric.
# breaks: one rail, until a reboot
state() {
	cat "/sys/kernel/standin_mlx5e/$netdev/rx_overflow"
}

inject() {
	lossless=$(pfc_priorities | head -n 1)
	[ -n "$lossless" ] || nothing_to_break "rail $rail has PFC on no priority"
	echo "$lossless 10" > "/sys/kernel/standin_mlx5e/$netdev/rx_overflow"
}

heal() {
	recall before > "/sys/kernel/standin_mlx5e/$netdev/rx_overflow"
}
