# title: Remove the DSCP entry of RoCE traffic from a rail
# stands for: Another tool replaced the DSCP map and forgot one entry, so RoCE data has
#   priority 0 while trust, PFC and the rest of the map look right.
# breaks: one rail, until a reboot
state() {
	dscp_entries
}

# The entry that RoCE uses by the ToS in force; 26 is the usual one; else any but priority 0.
choose() {
	tos=$(cat "/sys/kernel/config/rdma_cm/$rdma/ports/1/default_roce_tos" 2> /dev/null || echo 0)
	recall before | tr ' ' '\n' |
		awk -F : -v dscp="$((tos >> 2))" '
			$1 == dscp && dscp > 0 { exact = $0 }
			$1 == 26 { usual = $0 }
			$2 > 0 && any == "" { any = $0 }
			END { print exact != "" ? exact : usual != "" ? usual : any }'
}

inject() {
	case $(recall before) in
	*' '*) ;;
	*) nothing_to_break "rail $rail has fewer than two DSCP entries" ;;
	esac
	set_dcb app del dev "$netdev" dscp-prio "$(choose)"
}

heal() {
	heal_dscp
}
