# title: Hold the lock of dpkg
# stands for: unattended-upgrades or a hanging post-install script holds the lock, and every
#   package installation waits or fails.
# breaks: the node, until a reboot
unit=rdmaprov-lab-dpkg-lock.service

state() {
	systemctl is-active "$unit" || true
}

# dpkg and apt use fcntl locks, which end with the process.
inject() {
	systemd-run --quiet --collect --unit="$unit" --property=Type=notify python3 -c '
import fcntl, os, signal, socket
lock = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
    manager.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1))
signal.pause()
' || nothing_to_break "another process holds the lock of dpkg"
}

heal() {
	systemctl stop "$unit"
}
