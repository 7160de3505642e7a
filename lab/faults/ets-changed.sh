# title: Put all priorities of a rail into one strict traffic class
# stands for: lldpad or the NIC's firmware negotiated ETS anew with a switch that was replaced, and
#   lossless traffic shares its queue with everything else.
# breaks: one rail, until a reboot
state() {
	dcb ets show dev "$netdev" tc-tsa tc-bw prio-tc
}

inject() {
	set_dcb ets set dev "$netdev" tc-tsa all:strict tc-bw all:0 prio-tc all:0
}

# A class that does not share by bandwidth has none to set, though the NIC may report some.
heal() {
	words=$(recall before | awk '
		{
			for (i = 2; i <= NF; i++) {
				split($i, pair, ":")
				value[$1, pair[1]] = pair[2]
			}
		}
		END {
			printf "tc-tsa"
			for (i = 0; i < 8; i++) printf " %d:%s", i, value["tc-tsa", i]
			printf " tc-bw"
			for (i = 0; i < 8; i++)
				printf " %d:%d", i, value["tc-tsa", i] == "ets" ? value["tc-bw", i] : 0
			printf " prio-tc"
			for (i = 0; i < 8; i++) printf " %d:%d", i, value["prio-tc", i]
		}')
	# shellcheck disable=SC2086 # a list of words
	set_dcb ets set dev "$netdev" $words
}
