# title: Limit locked memory to 64 KiB, for logins and for services
# stands for: A security baseline was rolled out over the fleet and lowered every limit it knew, so
#   registering memory for RDMA fails with "Cannot allocate memory".
# breaks: the node, until healed
# Lines of configuration that raise the limit, with their files.
state() {
	grep -His '^[^#]*memlock' /etc/security/limits.conf /etc/security/limits.d/*.conf \
		/etc/systemd/system.conf /etc/systemd/system.conf.d/*.conf \
		/etc/systemd/user.conf /etc/systemd/user.conf.d/*.conf \
		/etc/systemd/system/*.d/*.conf || true
}

inject() {
	[ -n "$(recall before)" ] || nothing_to_break "no limit of locked memory is configured"
	recall before | cut -d : -f 1 | sort -u | while read -r file; do
		keep_file "$file"
		case $file in
		/etc/security/*) lower='s/^\([^#]*memlock[[:space:]]\+\)[^[:space:]]\+/\164/' ;;
		*) lower='s/^\([A-Za-z]*LimitMEMLOCK[[:space:]]*=\).*/\164K/' ;;
		esac
		sed -i "$lower" "$file"
	done
	systemctl daemon-reload
}

heal() {
	put_files_back
	systemctl daemon-reload
}
