# title: Delete the modprobe.d file of a running module's parameter
# stands for: The parameter was set by hand, or a package's removal took its file along, so the node
#   is right until its next reboot.
# breaks: the node, until healed
state() {
	[ -e "$record/parameter" ] || parameters_in_force | head -n 1 | remember parameter
	read -r file module parameter value < "$record/parameter" ||
		nothing_to_break "no loaded module has a parameter from /etc/modprobe.d"
	grep -Hs "^[[:space:]]*options[[:space:]].*$parameter=" /etc/modprobe.d/*.conf ||
		echo "$module $parameter is not configured"
}

inject() {
	state > /dev/null
	lost=$file
	keep_file "$lost"
	rm "$lost"
}

# After a reboot the module runs without the parameter; it gets it at its next load.
heal() {
	put_files_back
}
