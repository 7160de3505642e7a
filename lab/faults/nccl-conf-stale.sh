# title: Put the nccl.conf of an earlier cluster in place
# stands for: The file came with an old node image: it names devices that are not there and a traffic
#   class of 0, and NCCL reads it before anything that the job's launcher sets up.
# breaks: the node, until healed
state() {
	sha256sum /etc/nccl.conf 2> /dev/null || echo absent
}

inject() {
	keep_file /etc/nccl.conf
	printf '%s\n' NCCL_IB_HCA=mlx5_bond_0 NCCL_IB_GID_INDEX=3 NCCL_IB_TC=0 \
		NCCL_SOCKET_IFNAME=eno1 > /etc/nccl.conf.new
	mv /etc/nccl.conf.new /etc/nccl.conf
}

heal() {
	put_files_back
}
