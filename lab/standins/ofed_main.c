// SPDX-License-Identifier: GPL-2.0
/*
 * STAND-IN for "the vendor's driver is running": while this module is loaded, what
 * MLNX_OFED and DOCA add to the kernel's interfaces is there: the ecn tree of a
 * netdev, the traffic class of an RDMA device, and the peer-memory registry.
 */
#include <linux/module.h>

#include "ofed.h"

#ifndef STANDIN_OFED_VERSION
#define STANDIN_OFED_VERSION "25.10-1.7.1"
#endif

static int rail_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct net_device *dev = data;

	switch (event) {
	case STANDIN_MLX5E_ATTACHED:
		if (ofed_ecn_add(dev))
			netdev_err(dev, "standin_ofed: no ecn directory\n");
		ofed_tc_netdev_added(dev);
		break;
	case STANDIN_MLX5E_DETACHING:
		ofed_tc_netdev_removing(dev);
		ofed_ecn_remove(dev);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block rail_notifier = { .notifier_call = rail_event };

static int __init ofed_init(void)
{
	int err;

	err = ofed_tc_init();
	if (err)
		return err;
	err = standin_mlx5e_register_notifier(&rail_notifier);
	if (err)
		ofed_tc_exit();
	return err;
}

/* Peers hold a reference to this module, so none is registered here any more. */
static void __exit ofed_exit(void)
{
	standin_mlx5e_unregister_notifier(&rail_notifier);
	ofed_tc_exit();
	ofed_peer_exit();
}

module_init(ofed_init);
module_exit(ofed_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION(STANDIN_OFED_VERSION);
MODULE_DESCRIPTION("STAND-IN: the vendor-only interfaces of MLNX_OFED and DOCA-OFED");
