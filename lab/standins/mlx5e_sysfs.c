// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/standin_mlx5e: attach, detach, and one directory per attached netdev.
 *
 * The files of a netdev are removed with RTNL held, so they must not take it: they
 * read and write single words of the state.
 */
#include <linux/ctype.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mlx5e.h"

struct kobject *standin_root;

static struct standin_port *to_port(struct kobject *kobj)
{
	return container_of(kobj, struct standin_port, kobj);
}

static ssize_t with_netdev(const char *buf, size_t count,
			   int (*action)(struct net_device *dev))
{
	char name[IFNAMSIZ + 1];
	struct net_device *dev;
	int err = -ENODEV;

	if (strscpy(name, skip_spaces(buf), sizeof(name)) < 0)
		return -EINVAL;
	rtnl_lock();
	dev = __dev_get_by_name(current->nsproxy->net_ns, strim(name));
	if (dev)
		err = action(dev);
	rtnl_unlock();
	return err ? err : count;
}

static ssize_t attach_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	ssize_t len;

	rtnl_lock();
	len = standin_list(buf);
	rtnl_unlock();
	return len;
}

static ssize_t attach_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	return with_netdev(buf, count, standin_attach);
}

static ssize_t detach_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	return with_netdev(buf, count, standin_detach);
}

static struct kobj_attribute attach_attr = __ATTR_RW(attach);
static struct kobj_attribute detach_attr = __ATTR_WO(detach);

static struct attribute *root_attrs[] = { &attach_attr.attr, &detach_attr.attr, NULL };
static const struct attribute_group root_group = { .attrs = root_attrs };

static ssize_t trust_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  READ_ONCE(to_port(kobj)->fw->trust) == TRUST_DSCP ? "dscp" : "pcp");
}

static ssize_t dscp2prio_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct standin_fw *fw = to_port(kobj)->fw;
	int i, len = 0;

	for (i = 0; i < DSCPS; i++)
		len += sysfs_emit_at(buf, len, "%u%c", READ_ONCE(fw->dscp2prio[i]),
				     i == DSCPS - 1 ? '\n' : ' ');
	return len;
}

static ssize_t cable_len_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_port(kobj)->cable_len));
}

static ssize_t firmware_dcbx_show(struct kobject *kobj, struct kobj_attribute *attr,
				  char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_port(kobj)->fw->firmware_dcbx));
}

static ssize_t firmware_dcbx_store(struct kobject *kobj, struct kobj_attribute *attr,
				   const char *buf, size_t count)
{
	bool on;
	int err;

	err = kstrtobool(buf, &on);
	if (err)
		return err;
	standin_set_firmware_dcbx(to_port(kobj), on);
	return count;
}

static ssize_t rx_overflow_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct standin_port *port = to_port(kobj);
	int prio, len = 0;

	for (prio = 0; prio < PRIOS; prio++)
		if (READ_ONCE(port->overflow[prio]))
			len += sysfs_emit_at(buf, len, "%d %u\n", prio,
					     READ_ONCE(port->overflow[prio]));
	return len ? len : sysfs_emit(buf, "off\n");
}

static ssize_t rx_overflow_store(struct kobject *kobj, struct kobj_attribute *attr,
				 const char *buf, size_t count)
{
	struct standin_port *port = to_port(kobj);
	unsigned int prio, every;
	char rest;

	if (sysfs_streq(buf, "off")) {
		for (prio = 0; prio < PRIOS; prio++)
			WRITE_ONCE(port->overflow[prio], 0);
		return count;
	}
	if (sscanf(buf, "%u %u %c", &prio, &every, &rest) != 2 || prio >= PRIOS || !every)
		return -EINVAL;
	atomic_set(&port->overflow_seen[prio], 0);
	WRITE_ONCE(port->overflow[prio], every);
	return count;
}

static struct kobj_attribute trust_attr = __ATTR_RO(trust);
static struct kobj_attribute dscp2prio_attr = __ATTR_RO(dscp2prio);
static struct kobj_attribute cable_len_attr = __ATTR_RO(cable_len);
static struct kobj_attribute firmware_dcbx_attr = __ATTR_RW(firmware_dcbx);
static struct kobj_attribute rx_overflow_attr = __ATTR_RW(rx_overflow);

static struct attribute *port_attrs[] = {
	&trust_attr.attr,
	&dscp2prio_attr.attr,
	&cable_len_attr.attr,
	&firmware_dcbx_attr.attr,
	&rx_overflow_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(port);

static void port_release(struct kobject *kobj)
{
	kfree(to_port(kobj));
}

const struct kobj_type standin_port_ktype = {
	.release = port_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = port_groups,
};

int standin_sysfs_init(void)
{
	int err;

	standin_root = kobject_create_and_add("standin_mlx5e", kernel_kobj);
	if (!standin_root)
		return -ENOMEM;
	err = sysfs_create_group(standin_root, &root_group);
	if (err)
		kobject_put(standin_root);
	return err;
}

/* No attach or detach runs after this. */
void standin_sysfs_close(void)
{
	sysfs_remove_group(standin_root, &root_group);
}

void standin_sysfs_exit(void)
{
	kobject_put(standin_root);
}
