// SPDX-License-Identifier: GPL-2.0-only
/*
 * STAND-IN for the Ethernet half of an mlx5 NIC: attach, detach, and what of the
 * card's state outlives a driver.
 *
 * While attached, the netdev's dcbnl_ops and ethtool_ops are this module's; the
 * ethtool ones are a copy of the driver's, so link settings or ring sizes stay the
 * driver's. Both pointers are used by the kernel under RTNL only, which is why
 * attach and detach need nothing more than RTNL to be safe.
 */
#include <linux/device.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "mlx5e.h"

static LIST_HEAD(ports);	/* RTNL */
static LIST_HEAD(cards);	/* RTNL */
static RAW_NOTIFIER_HEAD(clients);	/* RTNL */

/* Pause and PFC frames go to this address and must not be filtered by the NIC. */
static const u8 mac_control_address[ETH_ALEN] = { 0x01, 0x80, 0xc2, 0x00, 0x00, 0x01 };

struct standin_port *standin_port_of(const struct net_device *dev)
{
	struct standin_port *port;

	ASSERT_RTNL();
	list_for_each_entry(port, &ports, list)
		if (port->dev == dev)
			return port;
	return NULL;
}

int standin_list(char *buf)
{
	struct standin_port *port;
	int len = 0;

	ASSERT_RTNL();
	list_for_each_entry(port, &ports, list)
		len += sysfs_emit_at(buf, len, "%s\n", netdev_name(port->dev));
	return len;
}

/*
 * The name of the piece of hardware below a netdev. Below a virtio netdev is
 * "virtio3", a number that a PCI re-probe may change, and below that the PCI device.
 */
static const char *card_key(const struct net_device *dev)
{
	const struct device *parent = dev->dev.parent;

	if (!parent)
		return netdev_name(dev);
	if (parent->parent && !strncmp(dev_name(parent), "virtio", 6))
		parent = parent->parent;
	return dev_name(parent);
}

static struct standin_fw *card_get(const struct net_device *dev)
{
	const char *key = card_key(dev);
	struct standin_fw *fw;

	list_for_each_entry(fw, &cards, list)
		if (!strcmp(fw->key, key))
			return fw;

	fw = kzalloc(sizeof(*fw), GFP_KERNEL);
	if (!fw)
		return NULL;
	fw->counters = alloc_percpu(struct standin_counters);
	if (!fw->counters) {
		kfree(fw);
		return NULL;
	}
	strscpy(fw->key, key, sizeof(fw->key));
	fw->rx_pause = true;
	fw->tx_pause = true;
	standin_dcb_factory(fw);
	standin_buffer_factory(fw);
	list_add_tail(&fw->list, &cards);
	return fw;
}

static void tell(struct notifier_block *nb, struct standin_port *port, unsigned long event)
{
	struct standin_mlx5e_rail rail = { .dev = port->dev, .cc = &port->fw->cc };

	nb->notifier_call(nb, event, &rail);
}

static void tell_clients(struct standin_port *port, unsigned long event)
{
	struct standin_mlx5e_rail rail = { .dev = port->dev, .cc = &port->fw->cc };

	raw_notifier_call_chain(&clients, event, &rail);
}

int standin_attach(struct net_device *dev)
{
	struct standin_port *port;
	int err;

	ASSERT_RTNL();
	if (standin_port_of(dev))
		return 0;
	if (dev->type != ARPHRD_ETHER || (dev->flags & IFF_LOOPBACK) || !dev->ethtool_ops)
		return -EINVAL;

	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return -ENOMEM;
	kobject_init(&port->kobj, &standin_port_ktype);
	port->dev = dev;
	port->carrier = netif_carrier_ok(dev);
	INIT_DELAYED_WORK(&port->flap, standin_flap);
	port->fw = card_get(dev);
	if (!port->fw) {
		err = -ENOMEM;
		goto put;
	}
	err = kobject_add(&port->kobj, standin_root, "%s", netdev_name(dev));
	if (err)
		goto put;
	err = dev_mc_add(dev, mac_control_address);
	if (err)
		goto del;
	err = standin_traffic_start(port);
	if (err)
		goto mc;

	port->driver_dcbnl = dev->dcbnl_ops;
	port->driver_ethtool = dev->ethtool_ops;
	standin_ethtool_fill(port);
	list_add_tail(&port->list, &ports);
	dev->ethtool_ops = &port->ethtool;
	dev->dcbnl_ops = &standin_dcbnl_ops;
	standin_dcb_probe(port);
	tell_clients(port, STANDIN_MLX5E_ATTACHED);
	return 0;

mc:
	dev_mc_del(dev, mac_control_address);
del:
	kobject_del(&port->kobj);
put:
	kobject_put(&port->kobj);
	return err;
}

int standin_detach(struct net_device *dev)
{
	struct standin_port *port = standin_port_of(dev);

	if (!port)
		return -ENODEV;

	tell_clients(port, STANDIN_MLX5E_DETACHING);
	standin_dcb_remove(port);
	dev->dcbnl_ops = port->driver_dcbnl;
	if (!WARN_ON_ONCE(dev->ethtool_ops != &port->ethtool))
		dev->ethtool_ops = port->driver_ethtool;
	list_del(&port->list);
	standin_traffic_stop(port);
	dev_mc_del(dev, mac_control_address);
	kobject_del(&port->kobj);
	synchronize_net();
	kobject_put(&port->kobj);
	return 0;
}

int standin_mlx5e_register_notifier(struct notifier_block *nb)
{
	struct standin_port *port;
	int err;

	rtnl_lock();
	err = raw_notifier_chain_register(&clients, nb);
	if (!err)
		list_for_each_entry(port, &ports, list)
			tell(nb, port, STANDIN_MLX5E_ATTACHED);
	rtnl_unlock();
	return err;
}
EXPORT_SYMBOL_GPL(standin_mlx5e_register_notifier);

void standin_mlx5e_unregister_notifier(struct notifier_block *nb)
{
	struct standin_port *port;

	rtnl_lock();
	raw_notifier_chain_unregister(&clients, nb);
	list_for_each_entry(port, &ports, list)
		tell(nb, port, STANDIN_MLX5E_DETACHING);
	rtnl_unlock();
}
EXPORT_SYMBOL_GPL(standin_mlx5e_unregister_notifier);

static int netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct standin_port *port = standin_port_of(dev);

	if (!port)
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UNREGISTER:		/* also sent before a move to another netns */
		standin_detach(dev);
		break;
	case NETDEV_CHANGENAME:
		if (kobject_rename(&port->kobj, netdev_name(dev)))
			netdev_warn(dev, "standin_mlx5e: directory keeps its old name\n");
		break;
	case NETDEV_CHANGE:
		if (port->carrier && !netif_carrier_ok(dev))
			count_port(port->fw, PORT_LINK_DOWN, 1);
		port->carrier = netif_carrier_ok(dev);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = { .notifier_call = netdev_event };

static int __init standin_init(void)
{
	int err;

	err = register_netdevice_notifier(&netdev_notifier);
	if (err)
		return err;
	err = standin_sysfs_init();
	if (err)
		unregister_netdevice_notifier(&netdev_notifier);
	return err;
}

static void __exit standin_exit(void)
{
	struct standin_fw *fw, *next_fw;

	standin_sysfs_close();
	/* Sends NETDEV_UNREGISTER for every netdev, which detaches the attached ones. */
	unregister_netdevice_notifier(&netdev_notifier);
	standin_sysfs_exit();
	list_for_each_entry_safe(fw, next_fw, &cards, list) {
		free_percpu(fw->counters);
		kfree(fw);
	}
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("STAND-IN: the DCB, pause and per-priority counters of an mlx5 NIC on a virtual NIC");
