# title: Remove the IPv4 address of a rail
# stands for: The network's configuration of one rail did not apply at boot, and without an address
#   there is no IPv4 GID, so NCCL finds no GID that the other nodes can reach.
# breaks: one rail, until a reboot
state() {
	ipv4_of "$netdev"
}

inject() {
	[ -n "$(recall before)" ] || nothing_to_break "rail $rail has no IPv4 address"
	keep_routes "$netdev"
	ip -4 address flush dev "$netdev"
}

heal() {
	recall before | set_ipv4 "$netdev"
	put_routes_back
}
