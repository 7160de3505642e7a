# title: Run an older release of the vendor's driver
# stands for: A node was in repair while the fleet was updated, and its driver is one release behind
#   the others'.
# breaks: the node, until healed
older=/usr/lib/rdmaprov-lab/modules/older
modules="standin_ofed nvidia_peermem"

# What the next load takes; what runs may be unloaded by a reboot.
state() {
	for module in $modules; do
		echo "$module $(modinfo -F version "$module")"
	done
}

# What a reload loses; the rest of the settings stays with the card.
traffic_classes() {
	for file in /sys/class/infiniband/*/tc/1/traffic_class; do
		[ ! -e "$file" ] || echo "$file $(sed -n 's/^Global tclass=//p' "$file")"
	done
}

change_driver() {
	[ ! -d /sys/module/standin_ofed ] || traffic_classes | remember classes
	unloaded=$record/unloaded.$(cat /proc/sys/kernel/random/boot_id)
	# nvidia_peermem holds the driver without being among its holders.
	{
		unload nvidia_peermem
		unload standin_ofed
	} > "$unloaded.new"
	[ ! -s "$unloaded.new" ] || mv "$unloaded.new" "$unloaded"
	[ -e "$unloaded" ] || return 0 # it did not run
	load < "$unloaded"
	while read -r file value; do
		[ -z "$value" ] || echo "$value" > "$file"
	done < "$record/classes"
}

inject() {
	[ -d /sys/module/standin_ofed ] || nothing_to_break "the vendor's driver does not run"
	# In the newer one's place: modules.dep stays right, and depmod takes half a minute here.
	for module in $modules; do
		path=$(modinfo -F filename "$module")
		keep_file "$path"
		cp "$older/$module.ko" "$path.new"
		mv "$path.new" "$path"
	done
	change_driver
}

heal() {
	put_files_back
	change_driver
}
