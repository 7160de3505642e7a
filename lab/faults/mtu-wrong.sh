# title: Set the MTU of a rail to 1500
# stands for: A driver was reloaded, or somebody ran `ip link set` by hand, and the rail has the
#   default MTU, so RDMA on it uses 1024-byte packets while ping still works.
# breaks: one rail, until a reboot
state() {
	cat "/sys/class/net/$netdev/mtu"
}

inject() {
	[ "$(recall before)" != 1500 ] || nothing_to_break "the MTU of rail $rail is 1500"
	ip link set dev "$netdev" mtu 1500
}

heal() {
	ip link set dev "$netdev" mtu "$(recall before)"
}
