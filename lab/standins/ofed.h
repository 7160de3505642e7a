/* SPDX-License-Identifier: GPL-2.0-only */
/* The inside of standin_ofed: what the files of the module share. */
#ifndef STANDIN_OFED_INTERNAL_H
#define STANDIN_OFED_INTERNAL_H

#include <linux/netdevice.h>

#include "standin_mlx5e.h"

/* ofed_ecn.c: RTNL held */
int ofed_ecn_add(struct net_device *dev, struct standin_mlx5e_cc *cc);
void ofed_ecn_remove(struct net_device *dev);

/* ofed_tc.c */
int ofed_tc_init(void);
void ofed_tc_exit(void);
void ofed_tc_netdev_added(struct net_device *dev);
void ofed_tc_netdev_removing(struct net_device *dev);

/* ofed_peer.c */
void ofed_peer_exit(void);

#endif
