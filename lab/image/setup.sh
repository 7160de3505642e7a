#!/bin/sh
# Turn a bootstrapped Debian tree into a factory node. Runs in the tree itself (chroot),
# with the lab's image/ and standins/ directories under /usr/src/rdmaprov-lab.
#   BUILD_PACKAGES        packages to remove once the stand-in modules are built
#   KERNEL_COMMAND_LINE   what GRUB passes to the kernel on a factory node
set -eu
lab=/usr/src/rdmaprov-lab
kernel=$(cd /lib/modules && echo *)

# Stand-in kernel modules, once as they are and once as the fleet's odd one out has them: of these,
# make compiles only what has a version in it.
cp -r $lab/standins /tmp/standins
build() { # $1: where to, $2...: make variables
	to=$1
	shift
	make -s -j "$(nproc)" -C "/lib/modules/$kernel/build" M=/tmp/standins "$@" modules
	mkdir -p "$to"
	cp /tmp/standins/*.ko "$to"
}
build "/lib/modules/$kernel/extra"
build /usr/lib/rdmaprov-lab/modules/older \
	STANDIN_OFED_VERSION=24.10-3.2.5 STANDIN_NVIDIA_VERSION=570.86.15
rm -r /tmp/standins
# shellcheck disable=SC2086 # a list of words
apt-get -qq -y purge --auto-remove $BUILD_PACKAGES 'linux-headers-*'
sed -i '/^force-unsafe-io$/d' /etc/dpkg/dpkg.cfg.d/99mmdebstrap # for this build alone
depmod "$kernel"

find $lab/image/files -name __pycache__ -prune -exec rm -r {} + # pip's, in a wheel
cp -r --no-preserve=ownership $lab/image/files/. /
sed -i "s|@KERNEL_COMMAND_LINE@|$KERNEL_COMMAND_LINE|" /etc/default/grub
rm -r $lab

useradd --create-home --shell /bin/bash provisioner
echo 'provisioner ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/provisioner
chmod 440 /etc/sudoers.d/provisioner
rm -f /etc/ssh/ssh_host_*
: > /etc/machine-id
: > /etc/hostname
: > /etc/default/locale # sshd complains at each login without it
echo nameserver 10.0.2.3 > /etc/resolv.conf # of the emulated management network
mkdir -p /opt/rdmaprov-lab/torch

systemctl -q enable systemd-networkd rdmaprov-lab-clock rdmaprov-lab-identity
systemctl -q disable apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	e2scrub_all.timer e2scrub_reap.service fstrim.timer
systemctl -q set-default multi-user.target
systemctl -q mask systemd-networkd-wait-online.service getty@tty1.service
update-initramfs -u -k "$kernel"

# The boot loader. grub-install wants a block device; what it would do is done here and
# in rdmaprov.lab.disk: modules and a first grub.cfg in /boot/grub, boot code in the gap
# before the first partition. From then on update-grub works as on metal.
grub=/boot/grub/i386-pc
mkdir -p $grub
cp /usr/lib/grub/i386-pc/*.mod /usr/lib/grub/i386-pc/*.lst /usr/lib/grub/i386-pc/boot.img $grub
grub-mkimage -O i386-pc -o $grub/core.img -p '(hd0,msdos1)/boot/grub' \
	biosdisk part_msdos ext2 normal configfile linux serial terminal search search_label
cat > /boot/grub/grub.cfg <<CFG
serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
set timeout=0
menuentry 'Debian GNU/Linux' {
	search --no-floppy --label --set=root rdmaprov-root
	linux /boot/vmlinuz-$kernel root=LABEL=rdmaprov-root ro $KERNEL_COMMAND_LINE
	initrd /boot/initrd.img-$kernel
}
CFG
