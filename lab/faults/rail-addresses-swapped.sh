# title: Exchange the IPv4 addresses of a rail and the next one
# stands for: Two cables were exchanged, or a kernel update exchanged two netdev names, so each rail
#   is on the other's network plane.
# breaks: one rail, until a reboot
# The next rail that has an address, from the highest number on to 0.
choose() {
	for device in $(ls -v /sys/class/infiniband) $(ls -v /sys/class/infiniband); do
		case $device in
		"$rdma") seen=yes ;;
		mlx5_*)
			other=$(cat "/sys/class/infiniband/$device/ports/1/gid_attrs/ndevs/0")
			if [ -n "${seen:-}" ] && [ -n "$(ipv4_of "$other")" ]; then
				echo "$other"
				return
			fi
			;;
		esac
	done
}

state() {
	[ -e "$record/other" ] || choose | remember other
	other=$(recall other)
	ipv4_of "$netdev"
	[ -z "$other" ] || ipv4_of "$other"
}

# An address that belongs to the other rail. A link that comes back has networkd add its own again.
still_there() {
	state > "$record/now"
	recall after | grep -vxF -f "$record/before" | grep -qxF -f "$record/now"
}

inject() {
	if [ -z "$other" ] || [ -z "$(ipv4_of "$netdev")" ]; then
		nothing_to_break "rail $rail and another one have no IPv4 addresses"
	fi
	keep_routes "$netdev" "$other"
	recall before |
		awk -v a="$netdev" -v b="$other" '{ $1 = $1 == a ? b : a; print }' |
		set_ipv4 "$netdev" "$other"
}

heal() {
	other=$(recall other)
	recall before | set_ipv4 "$netdev" "$other"
	put_routes_back
}
