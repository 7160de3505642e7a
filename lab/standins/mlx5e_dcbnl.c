// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbnl operations with the semantics of mlx5e (drivers/net/ethernet/mellanox/mlx5/
 * core/en_dcbnl.c): what a setting means, what it refuses, what a probe resets. The
 * older CEE operations are not there. All of it runs under RTNL.
 */
#include <linux/math64.h>
#include <linux/rtnetlink.h>

#include "mlx5e.h"

#define FULL_BW			100	/* percent */
#define GROUP_VENDOR		7
#define KBPS_100M		100000ULL
#define KBPS_1G			1000000ULL
#define EVENT_MS		20
#define TRAINING_MS		2000

/* ETS: the card knows groups and percentages; TSA is derived from them. */

/*
 * Groups from the lowest up: ETS classes of 0 % (they share 100 % among themselves),
 * ETS classes with a share, then each strict class in a group of its own. A kind
 * that is absent takes no group. Vendor classes are in the last group.
 */
static void ets_to_card(struct standin_fw *fw, const struct ieee_ets *ets)
{
	int zero = 0, weighted = 0, last_zero = -1;
	u8 weighted_group, strict_group;
	int tc;

	for (tc = 0; tc < TCS; tc++) {
		if (ets->tc_tsa[tc] != IEEE_8021QAZ_TSA_ETS)
			continue;
		weighted++;
		if (!ets->tc_tx_bw[tc]) {
			zero++;
			last_zero = tc;
		}
	}
	weighted_group = zero ? 1 : 0;
	strict_group = (weighted ? 1 : 0) + (zero ? 1 : 0);

	for (tc = 0; tc < TCS; tc++) {
		fw->prio_tc[tc] = ets->prio_tc[tc];
		fw->tc_bw[tc] = FULL_BW;
		if (ets->tc_tsa[tc] == IEEE_8021QAZ_TSA_VENDOR) {
			fw->tc_group[tc] = GROUP_VENDOR;
		} else if (ets->tc_tsa[tc] == IEEE_8021QAZ_TSA_STRICT) {
			fw->tc_group[tc] = strict_group++;
		} else if (ets->tc_tx_bw[tc]) {
			fw->tc_group[tc] = weighted_group;
			fw->tc_bw[tc] = ets->tc_tx_bw[tc];
		} else {
			fw->tc_group[tc] = 0;
			fw->tc_bw[tc] = FULL_BW / zero;
			if (tc == last_zero)
				fw->tc_bw[tc] += FULL_BW % zero;
		}
	}
}

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct standin_port *port = standin_port_of(dev);
	const struct standin_fw *fw = port->fw;
	bool zero_group = false, all_groups_strict = false;
	int tc;

	for (tc = 0; tc < TCS; tc++) {
		if (fw->tc_group[tc] == 1 && fw->tc_bw[tc] < FULL_BW)
			zero_group = true;
		if (fw->tc_group[tc] == GROUP_VENDOR - 1)
			all_groups_strict = true;
	}

	ets->ets_cap = TCS;
	for (tc = 0; tc < TCS; tc++) {
		ets->prio_tc[tc] = fw->prio_tc[tc];
		ets->tc_tx_bw[tc] = zero_group && !fw->tc_group[tc] ? 0 : fw->tc_bw[tc];
		if (ets->tc_tx_bw[tc] < FULL_BW)
			port->tc_tsa[tc] = IEEE_8021QAZ_TSA_ETS;
		else if (fw->tc_group[tc] == GROUP_VENDOR && !all_groups_strict)
			port->tc_tsa[tc] = IEEE_8021QAZ_TSA_VENDOR;
		ets->tc_tsa[tc] = port->tc_tsa[tc];
	}
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct standin_port *port = standin_port_of(dev);
	unsigned int sum = 0;
	bool weighted = false;
	int tc;

	for (tc = 0; tc < TCS; tc++) {
		if (ets->prio_tc[tc] >= TCS) {
			netdev_err(dev, "ETS: priority %d: no traffic class %u\n", tc,
				   ets->prio_tc[tc]);
			return -EINVAL;
		}
		switch (ets->tc_tsa[tc]) {
		case IEEE_8021QAZ_TSA_ETS:
			weighted = true;
			sum += ets->tc_tx_bw[tc];
			break;
		case IEEE_8021QAZ_TSA_STRICT:
		case IEEE_8021QAZ_TSA_VENDOR:
			break;
		default:		/* mlx5e has no shaper for the others */
			return -EINVAL;
		}
	}
	if (weighted && sum != FULL_BW) {
		netdev_err(dev, "ETS: bandwidths add up to %u%%, not 100%%\n", sum);
		return -EINVAL;
	}
	ets_to_card(port->fw, ets);
	memcpy(port->tc_tsa, ets->tc_tsa, sizeof(port->tc_tsa));
	return 0;
}

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	memcpy(rate->tc_maxrate, standin_port_of(dev)->fw->maxrate, sizeof(rate->tc_maxrate));
	return 0;
}

/* The register has 8 bits and a unit: 100 Mbit/s below 26 Gbit/s, else 1 Gbit/s. */
static int set_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	struct standin_fw *fw = standin_port_of(dev)->fw;
	u64 rounded[TCS], unit;
	int tc;

	for (tc = 0; tc < TCS; tc++) {
		unit = rate->tc_maxrate[tc] < 26 * KBPS_1G ? KBPS_100M : KBPS_1G;
		if (rate->tc_maxrate[tc] >= 256 * KBPS_1G)
			return -EINVAL;
		rounded[tc] = div64_u64(rate->tc_maxrate[tc], unit) * unit;
		if (rate->tc_maxrate[tc] && !rounded[tc])
			rounded[tc] = unit;
	}
	memcpy(fw->maxrate, rounded, sizeof(rounded));
	return 0;
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct standin_port *port = standin_port_of(dev);
	int prio;

	pfc->pfc_cap = TCS;
	pfc->pfc_en = port->fw->pfc_en;
	pfc->delay = port->cable_len;
	for (prio = 0; prio < PRIOS; prio++) {
		pfc->requests[prio] = standin_read_prio(port->fw, prio, TX_PAUSE);
		pfc->indications[prio] = standin_read_prio(port->fw, prio, RX_PAUSE);
	}
	return 0;
}

/*
 * mlx5_toggle_port_link: the link goes once the firmware's event arrives, after the call has
 * returned, and comes back when it has trained.
 */
void standin_flap(struct work_struct *work)
{
	struct standin_port *port = container_of(to_delayed_work(work), struct standin_port, flap);

	if (port->flap_down) {
		port->flap_down = false;
		netif_carrier_on(port->dev);
	} else if (netif_carrier_ok(port->dev)) {
		port->flap_down = true;
		netif_carrier_off(port->dev);
		schedule_delayed_work(&port->flap, msecs_to_jiffies(TRAINING_MS));
	}
}

static void toggle_link(struct standin_port *port)
{
	unsigned int ms = READ_ONCE(port->flap_down) ? TRAINING_MS : EVENT_MS;

	mod_delayed_work(system_wq, &port->flap, msecs_to_jiffies(ms));
}

/*
 * mlx5e writes PFC with the global-pause bits of the same register at zero, so
 * enabling or changing PFC switches global pause off. A change of cable length alone
 * does not touch it.
 */
static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct standin_port *port = standin_port_of(dev);
	struct standin_fw *fw = port->fw;
	u32 cable_len = port->cable_len;

	if (pfc->delay && pfc->delay < MAX_CABLE_LEN)
		cable_len = pfc->delay;
	if (pfc->pfc_en != fw->pfc_en) {
		WRITE_ONCE(fw->pfc_en, pfc->pfc_en);
		fw->rx_pause = false;
		fw->tx_pause = false;
		toggle_link(port);
	}
	return standin_buffer_pfc(port, pfc->pfc_en, cable_len);
}

static u8 get_dcbx(struct net_device *dev)
{
	return READ_ONCE(standin_port_of(dev)->dcbx_cap);
}

void standin_set_firmware_dcbx(struct standin_port *port, bool on)
{
	u8 cap = DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;

	WRITE_ONCE(port->fw->firmware_dcbx, on);
	WRITE_ONCE(port->dcbx_cap, on ? cap : cap | DCB_CAP_DCBX_HOST);
}

/* Mode 0 hands DCBX to the firmware; any other mode must include the host. */
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	struct standin_port *port = standin_port_of(dev);

	if (mode & DCB_CAP_DCBX_LLD_MANAGED)
		return 1;
	if (!mode) {
		if (!port->fw->firmware_dcbx) {
			WRITE_ONCE(port->fw->firmware_dcbx, true);
			WRITE_ONCE(port->dcbx_cap, port->dcbx_cap & ~DCB_CAP_DCBX_HOST);
		}
		return 0;
	}
	if (!(mode & DCB_CAP_DCBX_HOST))
		return 1;
	WRITE_ONCE(port->fw->firmware_dcbx, false);
	WRITE_ONCE(port->dcbx_cap, mode);
	return 0;
}

/*
 * Trust follows the DSCP entries: the first one switches to DSCP, the removal of the
 * last one back to PCP. The map in the card has 64 places all the time, and a place
 * whose entry is removed holds priority 0, not what it was before.
 */
static struct dcb_app dscp_app(u16 dscp, u8 prio)
{
	return (struct dcb_app) {
		.selector = IEEE_8021QAZ_APP_SEL_DSCP,
		.protocol = dscp,
		.priority = prio,
	};
}

static int set_app(struct net_device *dev, struct dcb_app *app)
{
	struct standin_port *port = standin_port_of(dev);
	struct standin_fw *fw = port->fw;
	struct dcb_app old;
	bool replaces;
	int err;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS ||
	    app->priority >= PRIOS)
		return -EINVAL;

	old = dscp_app(app->protocol, fw->dscp2prio[app->protocol]);
	if (!port->dscp_apps)
		WRITE_ONCE(fw->trust, TRUST_DSCP);
	WRITE_ONCE(fw->dscp2prio[app->protocol], app->priority);

	replaces = !dcb_ieee_delapp(dev, &old);
	err = dcb_ieee_setapp(dev, app);
	if (err)
		return err;
	if (!replaces)
		port->dscp_apps++;
	return 0;
}

static int del_app(struct net_device *dev, struct dcb_app *app)
{
	struct standin_port *port = standin_port_of(dev);
	struct standin_fw *fw = port->fw;
	int err;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS)
		return -EINVAL;
	if (!port->dscp_apps || app->priority != fw->dscp2prio[app->protocol])
		return -ENOENT;
	err = dcb_ieee_delapp(dev, app);
	if (err)
		return err;
	WRITE_ONCE(fw->dscp2prio[app->protocol], 0);
	if (!--port->dscp_apps)
		WRITE_ONCE(fw->trust, TRUST_PCP);
	return 0;
}

const struct dcbnl_rtnl_ops standin_dcbnl_ops = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getmaxrate = get_maxrate,
	.ieee_setmaxrate = set_maxrate,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_setapp = set_app,
	.ieee_delapp = del_app,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
	.dcbnl_getbuffer = standin_getbuffer,
	.dcbnl_setbuffer = standin_setbuffer,
};

void standin_dcb_factory(struct standin_fw *fw)
{
	int dscp;

	fw->trust = TRUST_PCP;
	for (dscp = 0; dscp < DSCPS; dscp++)
		fw->dscp2prio[dscp] = dscp >> 3;
}

/* What the driver does when it finds the card: ETS anew, trust as it was left. */
void standin_dcb_probe(struct standin_port *port)
{
	struct standin_fw *fw = port->fw;
	struct ieee_ets ets = {};
	struct dcb_app app;
	int i;

	for (i = 0; i < TCS; i++) {
		ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
		ets.prio_tc[i] = i < 2 ? !i : i;	/* 0 and 1 exchanged */
	}
	ets_to_card(fw, &ets);
	memcpy(port->tc_tsa, ets.tc_tsa, sizeof(port->tc_tsa));
	WRITE_ONCE(port->cable_len, DEFAULT_CABLE_LEN);
	standin_set_firmware_dcbx(port, fw->firmware_dcbx);

	if (fw->trust != TRUST_DSCP)
		return;
	for (i = 0; i < DSCPS; i++) {
		app = dscp_app(i, fw->dscp2prio[i]);
		dcb_ieee_setapp(port->dev, &app);
	}
	port->dscp_apps = DSCPS;
}

void standin_dcb_remove(struct standin_port *port)
{
	struct dcb_app app;
	int i;

	cancel_delayed_work_sync(&port->flap);
	if (port->flap_down)
		netif_carrier_on(port->dev);
	port->flap_down = false;
	for (i = 0; port->dscp_apps && i < DSCPS; i++) {
		app = dscp_app(i, port->fw->dscp2prio[i]);
		dcb_ieee_delapp(port->dev, &app);
	}
	port->dscp_apps = 0;
}
