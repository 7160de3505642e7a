# title: Take the link of a rail down
# stands for: A cable was pulled or a switch port shut, and jobs continue on the other rails, or
#   fail.
# breaks: one rail, until a reboot
state() {
	case $(ip -o link show dev "$netdev") in
	*[\<,]UP[,\>]*) echo up ;;
	*) echo down ;;
	esac
}

inject() {
	[ "$(recall before)" = up ] || nothing_to_break "rail $rail is down"
	ip -o -6 address show dev "$netdev" scope global | awk '{ print $4 }' | remember ipv6
	keep_routes "$netdev"
	ip link set dev "$netdev" down
}

# Going down loses IPv6 addresses and all routes, not IPv4 addresses.
heal() {
	ip link set dev "$netdev" up
	recall ipv6 | while read -r address; do
		ip -6 address replace "$address" dev "$netdev" nodad
	done
	put_routes_back
}
