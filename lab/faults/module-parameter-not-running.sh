# title: Run a module with another parameter value than modprobe.d sets
# stands for: The parameter was written to modprobe.d and the module was never loaded again, or was
#   loaded from an initramfs that nobody rebuilt, so the file is right and the module is not.
# breaks: the node, until a reboot
state() {
	[ -e "$record/parameter" ] || parameters_in_force | head -n 1 | remember parameter
	read -r file module parameter value < "$record/parameter" ||
		nothing_to_break "no loaded module has a parameter from /etc/modprobe.d"
	echo "$module $parameter $(cat "/sys/module/$module/parameters/$parameter")"
}

# A parameter that cannot be written is given when the module is loaded.
set_parameter() { # VALUE
	state > /dev/null
	file=/sys/module/$module/parameters/$parameter
	name=$parameter module_of=$module
	if [ -n "$(find "$file" -perm -u+w)" ]; then
		echo "$1" > "$file"
		return
	fi
	unload "$module_of" > "$record/unloaded"
	sed -i "s/^\($module_of .*\|$module_of \)$name=[^ ]*/\1$name=$1/" "$record/unloaded"
	load < "$record/unloaded"
}

inject() {
	state > /dev/null
	case $value in
	Y | 1) other=0 ;;
	N | 0) other=1 ;;
	*[!0-9]*) nothing_to_break "no other value of $module $parameter is known to be allowed" ;;
	*) other=0 ;;
	esac
	set_parameter "$other"
}

heal() {
	[ ! -e "$record/unloaded" ] || load < "$record/unloaded" # interrupted in between
	state > /dev/null
	set_parameter "$value"
}
