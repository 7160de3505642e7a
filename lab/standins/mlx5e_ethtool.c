// SPDX-License-Identifier: GPL-2.0-only
/*
 * ethtool: global pause, and the counters of the port behind those of the driver.
 *
 * Names as in mlx5e (core/en_stats.c). As there, the pause counters of a priority are
 * listed only while PFC is on for it, and those of global pause only while that is on.
 */
#include <linux/bitops.h>
#include <linux/rtnetlink.h>

#include "mlx5e.h"

/* Duration is shown in microseconds of a port of this speed. */
#define BITS_PER_US	100000ULL	/* 100 Gbit/s */

static const struct {
	const char *format;
	enum prio_counter which;
} traffic_stats[] = {
	{ "rx_prio%d_bytes", RX_BYTES },
	{ "rx_prio%d_packets", RX_PACKETS },
	{ "rx_prio%d_discards", RX_DISCARDS },
	{ "tx_prio%d_bytes", TX_BYTES },
	{ "tx_prio%d_packets", TX_PACKETS },
}, pause_stats[] = {
	{ "rx_%s_pause", RX_PAUSE },
	{ "rx_%s_pause_duration", RX_PAUSE_BITS },
	{ "tx_%s_pause", TX_PAUSE },
	{ "tx_%s_pause_duration", TX_PAUSE_BITS },
	{ "rx_%s_pause_transition", RX_PAUSE_TRANSITION },
};

static const char * const port_stats[PORT_COUNTERS] = {
	[PORT_TX_PACKETS] = "tx_packets_phy",
	[PORT_RX_PACKETS] = "rx_packets_phy",
	[PORT_TX_BYTES] = "tx_bytes_phy",
	[PORT_RX_BYTES] = "rx_bytes_phy",
	[PORT_TX_MAC_CONTROL] = "tx_mac_control_phy",
	[PORT_RX_MAC_CONTROL] = "rx_mac_control_phy",
	[PORT_RX_UNSUPPORTED_OP] = "rx_unsupported_op_phy",
	[PORT_RX_PAUSE_CTRL] = "rx_pause_ctrl_phy",
	[PORT_TX_PAUSE_CTRL] = "tx_pause_ctrl_phy",
	[PORT_RX_DISCARDS] = "rx_discards_phy",
	[PORT_TX_DISCARDS] = "tx_discards_phy",
	[PORT_LINK_DOWN] = "link_down_events_phy",
};

u64 standin_read_prio(struct standin_fw *fw, unsigned int row, enum prio_counter which)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(fw->counters, cpu)->prio[row][which]);
	if (which == RX_PAUSE_BITS || which == TX_PAUSE_BITS)
		sum = div64_u64(sum, BITS_PER_US);
	return sum;
}

u64 standin_read_port(struct standin_fw *fw, enum port_counter which)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(fw->counters, cpu)->port[which]);
	return sum;
}

/* Bit per row of pause counters that is listed. */
static unsigned long pause_rows(const struct standin_fw *fw)
{
	unsigned long rows = fw->pfc_en;

	if (fw->rx_pause || fw->tx_pause)
		rows |= BIT(GLOBAL_PAUSE);
	return rows;
}

static int driver_stats(struct standin_port *port)
{
	int n = 0;

	if (port->driver_ethtool->get_sset_count)
		n = port->driver_ethtool->get_sset_count(port->dev, ETH_SS_STATS);
	return max(n, 0);
}

static int get_sset_count(struct net_device *dev, int set)
{
	struct standin_port *port = standin_port_of(dev);

	if (set != ETH_SS_STATS)
		return port->driver_ethtool->get_sset_count ?
		       port->driver_ethtool->get_sset_count(dev, set) : -EOPNOTSUPP;
	return driver_stats(port) + PORT_COUNTERS + PRIOS * ARRAY_SIZE(traffic_stats) +
	       hweight_long(pause_rows(port->fw)) * ARRAY_SIZE(pause_stats);
}

static void get_strings(struct net_device *dev, u32 set, u8 *data)
{
	struct standin_port *port = standin_port_of(dev);
	unsigned long rows = pause_rows(port->fw);
	char row_name[ETH_GSTRING_LEN];
	unsigned int row, i;

	if (port->driver_ethtool->get_strings)
		port->driver_ethtool->get_strings(dev, set, data);
	if (set != ETH_SS_STATS)
		return;

	data += driver_stats(port) * ETH_GSTRING_LEN;
	for (i = 0; i < PORT_COUNTERS; i++, data += ETH_GSTRING_LEN)
		strscpy(data, port_stats[i], ETH_GSTRING_LEN);
	for (row = 0; row < PRIOS; row++)
		for (i = 0; i < ARRAY_SIZE(traffic_stats); i++, data += ETH_GSTRING_LEN)
			snprintf(data, ETH_GSTRING_LEN, traffic_stats[i].format, row);
	for_each_set_bit(row, &rows, GLOBAL_PAUSE + 1) {
		if (row == GLOBAL_PAUSE)
			strscpy(row_name, "global", sizeof(row_name));
		else
			snprintf(row_name, sizeof(row_name), "prio%u", row);
		for (i = 0; i < ARRAY_SIZE(pause_stats); i++, data += ETH_GSTRING_LEN)
			snprintf(data, ETH_GSTRING_LEN, pause_stats[i].format, row_name);
	}
}

static void get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	struct standin_port *port = standin_port_of(dev);
	unsigned long rows = pause_rows(port->fw);
	unsigned int row, i;

	if (port->driver_ethtool->get_ethtool_stats)
		port->driver_ethtool->get_ethtool_stats(dev, stats, data);

	data += driver_stats(port);
	for (i = 0; i < PORT_COUNTERS; i++)
		*data++ = standin_read_port(port->fw, i);
	for (row = 0; row < PRIOS; row++)
		for (i = 0; i < ARRAY_SIZE(traffic_stats); i++)
			*data++ = standin_read_prio(port->fw, row, traffic_stats[i].which);
	for_each_set_bit(row, &rows, GLOBAL_PAUSE + 1)
		for (i = 0; i < ARRAY_SIZE(pause_stats); i++)
			*data++ = standin_read_prio(port->fw, row, pause_stats[i].which);
}

static void get_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	const struct standin_fw *fw = standin_port_of(dev)->fw;

	pause->autoneg = 0;
	pause->rx_pause = fw->rx_pause;
	pause->tx_pause = fw->tx_pause;
}

/* Unlike PFC, which clears global pause, this leaves the other's bits alone. */
static int set_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct standin_fw *fw = standin_port_of(dev)->fw;

	if (pause->autoneg)
		return -EINVAL;
	fw->rx_pause = pause->rx_pause;
	fw->tx_pause = pause->tx_pause;
	return 0;
}

static void get_pause_stats(struct net_device *dev, struct ethtool_pause_stats *stats)
{
	struct standin_fw *fw = standin_port_of(dev)->fw;

	stats->tx_pause_frames = standin_read_port(fw, PORT_TX_PAUSE_CTRL);
	stats->rx_pause_frames = standin_read_port(fw, PORT_RX_PAUSE_CTRL);
}

void standin_ethtool_fill(struct standin_port *port)
{
	port->ethtool = *port->driver_ethtool;
	port->ethtool.get_sset_count = get_sset_count;
	port->ethtool.get_strings = get_strings;
	port->ethtool.get_ethtool_stats = get_ethtool_stats;
	port->ethtool.get_pauseparam = get_pauseparam;
	port->ethtool.set_pauseparam = set_pauseparam;
	port->ethtool.get_pause_stats = get_pause_stats;
}
