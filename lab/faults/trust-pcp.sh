# title: Set the trust of a rail back to PCP
# stands for: The NIC's firmware was reset and its trust state is the factory's, so packets without
#   a VLAN tag all land on priority 0, whatever their DSCP.
# breaks: one rail, until a reboot
state() {
	dscp_entries
}

inject() {
	[ -n "$(recall before)" ] || nothing_to_break "rail $rail trusts PCP"
	set_dcb app flush dev "$netdev" dscp-prio
}

heal() {
	heal_dscp
}
