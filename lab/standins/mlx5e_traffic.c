// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counters, fed by the frames that really pass.
 *
 * Sent frames are seen by a tap between the queueing discipline and the driver.
 * Received frames are seen by a netfilter ingress hook, because that one can drop:
 * MAC control frames end here as they end in a NIC, and `rx_overflow` discards.
 */
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ktime.h>
#include <linux/netfilter_netdev.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/dsfield.h>

#include "mlx5e.h"

#define MAX_TAGS		2
#define OPCODE_PAUSE		0x0001
#define OPCODE_PFC		0x0101
#define BITS_PER_QUANTUM	512
#define MAX_QUANTA		0xffff

/* Where the payload of a frame begins, whatever VLAN tags are in front of it. */
struct frame {
	__be16 proto;
	int offset;		/* from skb->data */
	int l2_len;		/* Ethernet header and tags on the wire */
	bool tagged;
	u8 pcp;
};

static void parse_l2(const struct sk_buff *skb, struct frame *f)
{
	struct vlan_hdr buf;
	const struct vlan_hdr *tag;
	int i;

	f->l2_len = ETH_HLEN;
	f->tagged = skb_vlan_tag_present(skb);
	f->pcp = f->tagged ? skb_vlan_tag_get_prio(skb) : 0;
	if (f->tagged)
		f->l2_len += VLAN_HLEN;

	for (i = 0; i < MAX_TAGS && eth_type_vlan(f->proto); i++) {
		tag = skb_header_pointer(skb, f->offset, sizeof(buf), &buf);
		if (!tag)
			return;
		if (!f->tagged) {
			f->tagged = true;
			f->pcp = (ntohs(tag->h_vlan_TCI) & VLAN_PRIO_MASK) >> VLAN_PRIO_SHIFT;
		}
		f->proto = tag->h_vlan_encapsulated_proto;
		f->offset += VLAN_HLEN;
		f->l2_len += VLAN_HLEN;
	}
}

static int dscp_of(const struct sk_buff *skb, const struct frame *f)
{
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} buf;
	const struct iphdr *v4;
	const struct ipv6hdr *v6;

	if (f->proto == htons(ETH_P_IP)) {
		v4 = skb_header_pointer(skb, f->offset, sizeof(buf.v4), &buf.v4);
		return v4 && v4->version == 4 ? ipv4_get_dsfield(v4) >> 2 : -1;
	}
	if (f->proto == htons(ETH_P_IPV6)) {
		v6 = skb_header_pointer(skb, f->offset, sizeof(buf.v6), &buf.v6);
		return v6 && v6->version == 6 ? ipv6_get_dsfield(v6) >> 2 : -1;
	}
	return -1;
}

static u8 priority_of(const struct standin_fw *fw, const struct sk_buff *skb,
		      const struct frame *f)
{
	int dscp;

	if (READ_ONCE(fw->trust) == TRUST_PCP)
		return f->pcp;
	dscp = dscp_of(skb, f);
	return dscp < 0 ? 0 : READ_ONCE(fw->dscp2prio[dscp]) & 7;
}

/* Bytes of headers that each segment of a merged packet has of its own. */
static int header_len(const struct sk_buff *skb, const struct frame *f)
{
	int len, l4 = f->offset;
	u8 proto;

	if (f->proto == htons(ETH_P_IP)) {
		struct iphdr buf;
		const struct iphdr *ip = skb_header_pointer(skb, l4, sizeof(buf), &buf);

		if (!ip)
			return f->l2_len;
		proto = ip->protocol;
		len = ip->ihl * 4;
	} else if (f->proto == htons(ETH_P_IPV6)) {
		struct ipv6hdr buf;
		const struct ipv6hdr *ip = skb_header_pointer(skb, l4, sizeof(buf), &buf);

		if (!ip)
			return f->l2_len;
		proto = ip->nexthdr;
		len = sizeof(*ip);
	} else {
		return f->l2_len;
	}
	l4 += len;
	if (proto == IPPROTO_TCP) {
		struct tcphdr buf;
		const struct tcphdr *tcp = skb_header_pointer(skb, l4, sizeof(buf), &buf);

		return f->l2_len + len + (tcp ? tcp->doff * 4 : 0);
	}
	return f->l2_len + len + (proto == IPPROTO_UDP ? sizeof(struct udphdr) : 0);
}

/* Frames and bytes on the wire (without FCS) that this packet stands for. */
static u32 wire_size(const struct sk_buff *skb, const struct frame *f, u64 *bytes)
{
	u32 len = skb->len - f->offset + f->l2_len;
	u32 frames = 1, headers;

	*bytes = max_t(u32, len, ETH_ZLEN);
	if (!skb_is_gso(skb))
		return frames;
	headers = header_len(skb, f);
	frames = skb_shinfo(skb)->gso_segs;
	if (!frames && len > headers)
		frames = DIV_ROUND_UP(len - headers, skb_shinfo(skb)->gso_size);
	frames = max(frames, 1U);
	*bytes = len + (u64)(frames - 1) * headers;
	return frames;
}

/* One pause of a priority (or of the port) for so many quanta; 0 ends it. */
static void count_pause(struct standin_fw *fw, unsigned int row, u16 quanta, bool rx)
{
	u64 bits = (u64)quanta * BITS_PER_QUANTUM;
	u64 now;

	count_prio(fw, row, rx ? RX_PAUSE : TX_PAUSE, 1);
	count_prio(fw, row, rx ? RX_PAUSE_BITS : TX_PAUSE_BITS, bits);
	if (!rx)
		return;
	now = ktime_get_ns();
	if (quanta && now >= READ_ONCE(fw->rx_paused_until[row]))
		count_prio(fw, row, RX_PAUSE_TRANSITION, 1);
	WRITE_ONCE(fw->rx_paused_until[row], now + bits / 100);	/* at 100 Gbit/s */
}

static void count_mac_control(struct standin_fw *fw, const struct sk_buff *skb, int offset,
			      bool rx)
{
	struct {
		__be16 opcode;
		__be16 arg;		/* PFC: priorities; pause: quanta */
		__be16 quanta[PRIOS];
	} __packed buf;
	const typeof(buf) *mac;
	int prio;

	count_port(fw, rx ? PORT_RX_MAC_CONTROL : PORT_TX_MAC_CONTROL, 1);
	mac = skb_header_pointer(skb, offset, sizeof(buf), &buf);
	if (mac && mac->opcode == htons(OPCODE_PFC)) {
		for (prio = 0; prio < PRIOS; prio++)
			if (ntohs(mac->arg) & BIT(prio))
				count_pause(fw, prio, ntohs(mac->quanta[prio]), rx);
	} else if (mac && mac->opcode == htons(OPCODE_PAUSE)) {
		count_port(fw, rx ? PORT_RX_PAUSE_CTRL : PORT_TX_PAUSE_CTRL, 1);
		count_pause(fw, GLOBAL_PAUSE, ntohs(mac->arg), rx);
	} else if (rx) {
		count_port(fw, PORT_RX_UNSUPPORTED_OP, 1);
	}
}

/* Whether one of these frames is the n-th of its priority and finds no buffer. */
static bool overflows(struct standin_port *port, u8 prio, u32 frames)
{
	u32 every = READ_ONCE(port->overflow[prio]);
	u32 seen;

	if (!every)
		return false;
	seen = atomic_add_return(frames, &port->overflow_seen[prio]);
	return seen / every != (seen - frames) / every;
}

static unsigned int ingress(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct standin_port *port = priv;
	struct standin_fw *fw = port->fw;
	struct frame f = { .proto = skb->protocol };
	u32 frames;
	u64 bytes;
	u8 prio;

	parse_l2(skb, &f);
	frames = wire_size(skb, &f, &bytes);
	count_port(fw, PORT_RX_PACKETS, frames);
	count_port(fw, PORT_RX_BYTES, bytes);
	if (f.proto == htons(ETH_P_PAUSE)) {
		count_mac_control(fw, skb, f.offset, true);
		return NF_DROP;
	}

	prio = priority_of(fw, skb, &f);
	count_prio(fw, prio, RX_PACKETS, frames);
	count_prio(fw, prio, RX_BYTES, bytes);
	if (!overflows(port, prio, frames))
		return NF_ACCEPT;
	if (READ_ONCE(fw->pfc_en) & BIT(prio)) {
		count_pause(fw, prio, MAX_QUANTA, false);
		return NF_ACCEPT;
	}
	count_prio(fw, prio, RX_DISCARDS, frames);
	count_port(fw, PORT_RX_DISCARDS, frames);
	return NF_DROP;
}

static int tap(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
	       struct net_device *orig_dev)
{
	struct standin_port *port = type->af_packet_priv;
	struct standin_fw *fw = port->fw;
	struct frame f = { .offset = ETH_HLEN };
	struct ethhdr buf, *eth;
	u32 frames;
	u64 bytes;
	u8 prio;

	if (skb->pkt_type != PACKET_OUTGOING)
		goto out;
	eth = skb_header_pointer(skb, 0, sizeof(buf), &buf);
	if (!eth)
		goto out;
	f.proto = eth->h_proto;
	parse_l2(skb, &f);
	frames = wire_size(skb, &f, &bytes);
	count_port(fw, PORT_TX_PACKETS, frames);
	count_port(fw, PORT_TX_BYTES, bytes);
	if (f.proto == htons(ETH_P_PAUSE)) {
		count_mac_control(fw, skb, f.offset, false);
		goto out;
	}
	prio = priority_of(fw, skb, &f);
	count_prio(fw, prio, TX_PACKETS, frames);
	count_prio(fw, prio, TX_BYTES, bytes);
out:
	consume_skb(skb);
	return 0;
}

int standin_traffic_start(struct standin_port *port)
{
	int err;

	port->ingress = (struct nf_hook_ops) {
		.hook = ingress,
		.pf = NFPROTO_NETDEV,
		.hooknum = NF_NETDEV_INGRESS,
		.priority = INT_MIN,	/* a NIC is in front of every other filter */
		.dev = port->dev,
		.priv = port,
	};
	err = nf_register_net_hook(dev_net(port->dev), &port->ingress);
	if (err)
		return err;
	port->tap = (struct packet_type) {
		.type = htons(ETH_P_ALL),
		.dev = port->dev,
		.func = tap,
		.af_packet_priv = port,
	};
	dev_add_pack(&port->tap);
	return 0;
}

/* The caller waits for the packets that are still in the hooks. */
void standin_traffic_stop(struct standin_port *port)
{
	__dev_remove_pack(&port->tap);
	nf_unregister_net_hook(dev_net(port->dev), &port->ingress);
}
