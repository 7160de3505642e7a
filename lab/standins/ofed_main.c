// SPDX-License-Identifier: GPL-2.0-only
/*
 * STAND-IN for "the vendor's driver is running": while this module is loaded, what
 * MLNX_OFED and DOCA add to the kernel's interfaces is there: the ecn tree of a
 * netdev, the traffic class of an RDMA device, and the peer-memory registry.
 */
#include <linux/kmod.h>
#include <linux/module.h>

#include "ofed.h"

#ifndef STANDIN_OFED_VERSION
#define STANDIN_OFED_VERSION "25.10-1.7.1"
#endif

static int rail_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct standin_mlx5e_rail *rail = data;

	switch (event) {
	case STANDIN_MLX5E_ATTACHED:
		if (ofed_ecn_add(rail->dev, rail->cc))
			netdev_err(rail->dev, "standin_ofed: no ecn directory\n");
		ofed_tc_netdev_added(rail->dev);
		break;
	case STANDIN_MLX5E_DETACHING:
		ofed_tc_netdev_removing(rail->dev);
		ofed_ecn_remove(rail->dev);
		break;
	}
	return NOTIFY_DONE;
}

/*
 * Found at run time, not linked: `modprobe -r standin_ofed` would otherwise also
 * remove standin_mlx5e, which then has no user left, and the rails' state with it.
 */
static typeof(&standin_mlx5e_register_notifier) register_notifier;
static typeof(&standin_mlx5e_unregister_notifier) unregister_notifier;

static void put_mlx5e(void)
{
	if (register_notifier)
		symbol_put(standin_mlx5e_register_notifier);
	if (unregister_notifier)
		symbol_put(standin_mlx5e_unregister_notifier);
}

static struct notifier_block rail_notifier = { .notifier_call = rail_event };

static int __init ofed_init(void)
{
	int err;

	register_notifier = symbol_request(standin_mlx5e_register_notifier);
	unregister_notifier = symbol_request(standin_mlx5e_unregister_notifier);
	if (!register_notifier || !unregister_notifier) {
		err = -ENOENT;
		goto put;
	}
	err = ofed_tc_init();
	if (err)
		goto put;
	err = register_notifier(&rail_notifier);
	if (err)
		goto tc;
	return 0;

tc:
	ofed_tc_exit();
put:
	put_mlx5e();
	return err;
}

/* Peers hold a reference to this module, so none is registered here any more. */
static void __exit ofed_exit(void)
{
	unregister_notifier(&rail_notifier);
	ofed_tc_exit();
	ofed_peer_exit();
	put_mlx5e();
}

module_init(ofed_init);
module_exit(ofed_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION(STANDIN_OFED_VERSION);
MODULE_DESCRIPTION("STAND-IN: the vendor-only interfaces of MLNX_OFED and DOCA-OFED");
