# title: Stop sshd so that connections open and nothing answers
# stands for: The node swaps or its disk hangs: the port is open, a monitoring probe passes, and a
#   login waits for ever.
# breaks: the node, until a reboot
listener() {
	systemctl show --property=MainPID --value ssh.service
}

state() {
	case $(sed -n 's/^State:[[:space:]]*//p' "/proc/$(listener)/status" 2> /dev/null) in
	'') echo ended ;;
	T*) echo stopped ;;
	*) echo running ;;
	esac
}

inject() {
	[ "$(recall before)" = running ] || nothing_to_break "no sshd is listening"
	kill -STOP "$(listener)"
}

heal() {
	kill -CONT "$(listener)"
}
