"""Kernel modules: modprobe's configuration, parameters, the initramfs, reloading."""
