/* SPDX-License-Identifier: GPL-2.0-only */
/* What standin_mlx5e offers to other modules (standin_ofed). */
#ifndef STANDIN_MLX5E_H
#define STANDIN_MLX5E_H

#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/types.h>

/*
 * Congestion-control registers of the card. Like the rest of its registers they
 * survive a driver reload; the module that gives them a meaning fills them once.
 */
#define STANDIN_CC_REGISTERS	48

struct standin_mlx5e_cc {
	bool initialised;
	u32 reg[STANDIN_CC_REGISTERS];
};

/* What an event is about. */
struct standin_mlx5e_rail {
	struct net_device *dev;
	struct standin_mlx5e_cc *cc;
};

/* Events; data is a struct standin_mlx5e_rail. Both are sent with RTNL held. */
#define STANDIN_MLX5E_ATTACHED	1
#define STANDIN_MLX5E_DETACHING	2

/* Registering replays ATTACHED for what is attached, unregistering DETACHING. */
int standin_mlx5e_register_notifier(struct notifier_block *nb);
void standin_mlx5e_unregister_notifier(struct notifier_block *nb);

#endif
