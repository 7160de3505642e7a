# What the factory scripts of the shapes begin with. They run as root, with -eu, at the first boot of
# a node, before its network, and the node starts anew after that: only what lies on its disk counts.
firmware=/sys/firmware/qemu_fw_cfg/by_name/opt/org.rdmaprov
# shellcheck disable=SC2034 # for the scripts
MANAGEMENT=enp0s2

# Print a line for each rail: its number and the MAC addresses of its NICs.
rails() {
	tr ' ' '\n' < $firmware/rails/raw | tr '+' ' ' | grep . | cat -n
}

# Print the network device that has a MAC address, once it is there and udev has named it.
netdev_of() { # MAC
	for _ in $(seq 300); do
		if grep -qsFx "$1" /sys/class/net/*/address; then
			udevadm settle
			grep -lsFx "$1" /sys/class/net/*/address | head -n 1 | cut -d / -f 5
			return
		fi
		sleep 0.2
	done
	echo "no network device has the address $1"
	return 1
}

# Install packages that the disk carries; what they would start starts at the next boot.
install_spare() { # words of grep that choose among the file names
	printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
	# shellcheck disable=SC2046 # a list of files without blanks
	(cd /usr/lib/rdmaprov-lab/packages && dpkg --install $(printf '%s\n' *.deb | grep "$@"))
	rm /usr/sbin/policy-rc.d
}

# Have another than systemd-networkd configure the node's links.
without_networkd() {
	rm /etc/systemd/network/10-management.network
	systemctl disable systemd-networkd.service systemd-networkd.socket
}
