# title: Clear the ToS of RDMA traffic on a rail
# stands for: The RDMA modules were reloaded after the ToS was set, and nothing set
#   it again, so RoCE packets leave the node unmarked and are not lossless.
# breaks: one rail, until a reboot
# Print rdma_cm's ToS, or set it. Its directory need not be there, the value outlives it.
cm_tos() { # [VALUE]
	directory=/sys/kernel/config/rdma_cm/$rdma
	made=
	if [ ! -d "$directory" ]; then
		mkdir "$directory" 2> /dev/null || return 0 # no rdma_cm, no ToS
		made=yes
	fi
	if [ $# -eq 0 ]; then
		cat "$directory/ports/1/default_roce_tos"
	else
		echo "$1" > "$directory/ports/1/default_roce_tos"
	fi
	[ -z "$made" ] || rmdir "$directory"
}

state() {
	tclass=/sys/class/infiniband/$rdma/tc/1/traffic_class # the vendor's driver has it
	echo "rdma_cm $(cm_tos)"
	[ ! -e "$tclass" ] || echo "tclass $(sed -n 's/^Global tclass=//p' "$tclass")"
}

inject() {
	recall before | grep -q ' [1-9]' || nothing_to_break "rail $rail has no ToS"
	cm_tos 0
	[ ! -e "$tclass" ] || echo -1 > "$tclass"
}

heal() {
	recall before | while read -r what value; do
		case $what in
		rdma_cm) [ -z "$value" ] || cm_tos "$value" ;;
		tclass) echo "${value:--1}" > "/sys/class/infiniband/$rdma/tc/1/traffic_class" ;;
		esac
	done
}
