/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The inside of standin_mlx5e: what the files of the module share.
 *
 * Two lifetimes:
 *  - standin_fw is the "card": registers and counters that a driver re-probe does
 *    not touch. It lives from the first attach of a device to the module's unload.
 *  - standin_port is the "driver instance": from attach to detach of one netdev.
 * Both are changed under RTNL only; the packet path reads them locklessly.
 */
#ifndef STANDIN_MLX5E_INTERNAL_H
#define STANDIN_MLX5E_INTERNAL_H

#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/kobject.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/percpu.h>
#include <net/dcbnl.h>

#include "standin_mlx5e.h"

#define PRIOS			8
#define DSCPS			64
#define TCS			8
#define BUFFERS			8
#define GLOBAL_PAUSE		PRIOS	/* row of the 802.3x (not per-priority) pause */
#define DEFAULT_CABLE_LEN	7	/* metres, as mlx5e at every probe */
#define MAX_CABLE_LEN		1000

enum trust_state { TRUST_PCP, TRUST_DSCP };

/* Per-priority counters; the pause ones have a ninth row for global pause. */
enum prio_counter {
	RX_BYTES,
	RX_PACKETS,
	RX_DISCARDS,
	TX_BYTES,
	TX_PACKETS,
	RX_PAUSE,
	RX_PAUSE_BITS,		/* pause time, in bit times of the port */
	TX_PAUSE,
	TX_PAUSE_BITS,
	RX_PAUSE_TRANSITION,
	PRIO_COUNTERS
};

enum port_counter {
	PORT_TX_PACKETS,
	PORT_RX_PACKETS,
	PORT_TX_BYTES,
	PORT_RX_BYTES,
	PORT_TX_MAC_CONTROL,
	PORT_RX_MAC_CONTROL,
	PORT_RX_UNSUPPORTED_OP,
	PORT_RX_PAUSE_CTRL,
	PORT_TX_PAUSE_CTRL,
	PORT_RX_DISCARDS,
	PORT_TX_DISCARDS,
	PORT_LINK_DOWN,
	PORT_COUNTERS
};

struct standin_counters {
	u64 prio[PRIOS + 1][PRIO_COUNTERS];
	u64 port[PORT_COUNTERS];
};

struct standin_fw {
	struct list_head list;
	char key[64];			/* the device below the netdev: its PCI address */
	u8 trust;
	u8 dscp2prio[DSCPS];
	u8 pfc_en;
	bool rx_pause;
	bool tx_pause;
	bool firmware_dcbx;
	u8 prio_tc[TCS];
	u8 tc_group[TCS];
	u8 tc_bw[TCS];
	u8 prio2buffer[PRIOS];
	u32 buffer_size[BUFFERS];	/* bytes */
	u64 maxrate[TCS];		/* kbit/s, 0: no limit */
	u64 rx_paused_until[PRIOS + 1];	/* ns, monotonic */
	struct standin_mlx5e_cc cc;
	struct standin_counters __percpu *counters;
};

struct standin_port {
	struct kobject kobj;		/* owns the memory */
	struct list_head list;
	struct net_device *dev;
	struct standin_fw *fw;
	const struct dcbnl_rtnl_ops *driver_dcbnl;
	const struct ethtool_ops *driver_ethtool;
	struct ethtool_ops ethtool;	/* the driver's own, some members replaced */
	struct packet_type tap;
	struct nf_hook_ops ingress;
	u8 dcbx_cap;
	u8 tc_tsa[TCS];
	unsigned int dscp_apps;
	bool manual_buffer;
	bool carrier;
	struct delayed_work flap;	/* takes the carrier away, and gives it back */
	bool flap_down;
	u32 cable_len;			/* metres */
	u32 overflow[PRIOS];		/* every n-th frame finds no buffer, 0: none */
	atomic_t overflow_seen[PRIOS];
};

static inline void count_prio(struct standin_fw *fw, unsigned int row,
			      enum prio_counter which, u64 n)
{
	this_cpu_add(fw->counters->prio[row][which], n);
}

static inline void count_port(struct standin_fw *fw, enum port_counter which, u64 n)
{
	this_cpu_add(fw->counters->port[which], n);
}

/* mlx5e_main.c */
struct standin_port *standin_port_of(const struct net_device *dev);
int standin_attach(struct net_device *dev);
int standin_detach(struct net_device *dev);
int standin_list(char *buf);

/* mlx5e_sysfs.c */
extern const struct kobj_type standin_port_ktype;
int standin_sysfs_init(void);
void standin_sysfs_close(void);
void standin_sysfs_exit(void);
extern struct kobject *standin_root;

/* mlx5e_dcbnl.c */
extern const struct dcbnl_rtnl_ops standin_dcbnl_ops;
void standin_dcb_factory(struct standin_fw *fw);
void standin_dcb_probe(struct standin_port *port);
void standin_dcb_remove(struct standin_port *port);
void standin_flap(struct work_struct *work);
void standin_set_firmware_dcbx(struct standin_port *port, bool on);

/* mlx5e_buffer.c */
int standin_buffer_pfc(struct standin_port *port, u8 pfc_en, u32 cable_len);
int standin_getbuffer(struct net_device *dev, struct dcbnl_buffer *out);
int standin_setbuffer(struct net_device *dev, struct dcbnl_buffer *in);
void standin_buffer_factory(struct standin_fw *fw);

/* mlx5e_ethtool.c */
void standin_ethtool_fill(struct standin_port *port);
u64 standin_read_prio(struct standin_fw *fw, unsigned int row, enum prio_counter which);
u64 standin_read_port(struct standin_fw *fw, enum port_counter which);

/* mlx5e_traffic.c */
int standin_traffic_start(struct standin_port *port);
void standin_traffic_stop(struct standin_port *port);

#endif
