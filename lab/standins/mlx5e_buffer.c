// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receive buffers: 8 priorities to 8 buffers within a fixed total.
 *
 * As on the card, the firmware owns the layout until the host writes it: then a
 * priority with PFC is moved to buffer 1, the others are in buffer 0. Once the host
 * has written it (until the next probe), its layout stays and is checked like in
 * mlx5e: a buffer with a PFC priority must hold the frames that arrive before the
 * peer has stopped.
 */
#include "mlx5e.h"

/* Sizes as `mlnx_qos` shows them on a ConnectX-5; all numbers in bytes. */
#define TOTAL_SIZE	262016
#define DEFAULT_SIZE	130944
#define CELL		128
#define MAX_MTU		9978		/* of the card, whatever the virtual NIC allows */
#define MIN_SPEED_MBPS	40000		/* mlx5e computes with at least this */

void standin_buffer_factory(struct standin_fw *fw)
{
	fw->buffer_size[0] = DEFAULT_SIZE;
	fw->buffer_size[1] = DEFAULT_SIZE;
}

/* What may still arrive after the pause frame was sent: (301 + 2.16 m) * Gbit/s + 2.72 MTU */
static u32 headroom(const struct net_device *dev, u32 cable_len)
{
	return (301 + 216 * cable_len / 100) * MIN_SPEED_MBPS / 1000 + 272 * dev->mtu / 100;
}

/* 0, or why this layout cannot be lossless where it has to be. */
static int check_layout(const struct net_device *dev, const u8 *prio2buffer, const u32 *size,
			u8 lossless_prios, u32 cable_len)
{
	u32 needed = headroom(dev, cable_len) + MAX_MTU + CELL;
	int prio;
	u32 has;

	for (prio = 0; prio < PRIOS; prio++) {
		if (!(lossless_prios & BIT(prio)))
			continue;
		has = size[prio2buffer[prio]];
		if (!has)
			return -EINVAL;
		if (has < needed) {
			netdev_err(dev, "buffer %u has %u bytes, lossless needs %u\n",
				   prio2buffer[prio], has, needed);
			return -ENOMEM;
		}
	}
	return 0;
}

int standin_buffer_pfc(struct standin_port *port, u8 pfc_en, u32 cable_len)
{
	struct standin_fw *fw = port->fw;
	int prio, err = 0;

	if (port->manual_buffer)
		err = check_layout(port->dev, fw->prio2buffer, fw->buffer_size, pfc_en, cable_len);
	else
		for (prio = 0; prio < PRIOS; prio++)
			fw->prio2buffer[prio] = !!(pfc_en & BIT(prio));
	if (!err)
		WRITE_ONCE(port->cable_len, cable_len);
	return err;
}

int standin_getbuffer(struct net_device *dev, struct dcbnl_buffer *out)
{
	const struct standin_fw *fw = standin_port_of(dev)->fw;

	memcpy(out->prio2buffer, fw->prio2buffer, sizeof(fw->prio2buffer));
	memcpy(out->buffer_size, fw->buffer_size, sizeof(fw->buffer_size));
	out->total_size = TOTAL_SIZE;
	return 0;
}

int standin_setbuffer(struct net_device *dev, struct dcbnl_buffer *in)
{
	struct standin_port *port = standin_port_of(dev);
	struct standin_fw *fw = port->fw;
	u32 size[BUFFERS];
	u64 total = 0;
	int i, err;

	if (!memcmp(in->prio2buffer, fw->prio2buffer, sizeof(fw->prio2buffer)) &&
	    !memcmp(in->buffer_size, fw->buffer_size, sizeof(fw->buffer_size)))
		return 0;

	for (i = 0; i < PRIOS; i++)
		if (in->prio2buffer[i] >= BUFFERS)
			return -EINVAL;
	for (i = 0; i < BUFFERS; i++) {
		size[i] = rounddown(in->buffer_size[i], CELL);
		total += in->buffer_size[i];
	}
	if (total > TOTAL_SIZE)
		return -EINVAL;

	port->manual_buffer = true;
	/* With global pause every buffer in use has to be lossless. */
	err = check_layout(dev, in->prio2buffer, size,
			   fw->rx_pause || fw->tx_pause ? 0xff : fw->pfc_en, port->cable_len);
	if (err)
		return err;
	memcpy(fw->prio2buffer, in->prio2buffer, sizeof(fw->prio2buffer));
	memcpy(fw->buffer_size, size, sizeof(size));
	return 0;
}
