// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/infiniband/<dev>/tc/1/traffic_class: the DS byte of all RoCE v2 packets
 * of a device, whatever the application put into its queue pair.
 *
 * On the card the byte is part of the queue pair. Here every RoCE v2 packet that
 * leaves through the rail has it rewritten; the packet's own checksum (ICRC) leaves
 * the byte out, because switches may change it, so the packet stays valid.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/udp.h>
#include <net/dsfield.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

#include "ofed.h"

#define ROCE_V2_PORT	4791
#define UNSET		(-1)

/* An RDMA device; with ndev, one on a rail, and then it has the directory tc/1. */
struct tc_device {
	struct kobject kobj;		/* tc/1, owns the memory */
	struct list_head list;
	struct ib_device *ibdev;
	struct net_device *ndev;
	struct kobject *tc;
	int tclass;
	struct rcu_head rcu;
};

struct rail {
	struct list_head list;
	struct net_device *dev;
};

static DEFINE_MUTEX(lock);		/* both lists, and the directories */
static LIST_HEAD(rails);
static LIST_HEAD(devices);		/* read under RCU by the packet path */

static ssize_t traffic_class_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	int tclass = READ_ONCE(container_of(kobj, struct tc_device, kobj)->tclass);

	return tclass < 0 ? 0 : sysfs_emit(buf, "Global tclass=%d\n", tclass);
}

/* As in MLNX_OFED, any negative number takes the setting back. */
static ssize_t traffic_class_store(struct kobject *kobj, struct kobj_attribute *attr,
				   const char *buf, size_t count)
{
	int tclass;

	if (kstrtoint(buf, 0, &tclass) || tclass > 0xff)
		return -EINVAL;
	WRITE_ONCE(container_of(kobj, struct tc_device, kobj)->tclass, max(tclass, UNSET));
	return count;
}

static struct kobj_attribute traffic_class_attr = __ATTR_RW(traffic_class);
static struct attribute *tc_attrs[] = { &traffic_class_attr.attr, NULL };
ATTRIBUTE_GROUPS(tc);

static void tc_release(struct kobject *kobj)
{
	struct tc_device *dev = container_of(kobj, struct tc_device, kobj);

	kfree_rcu(dev, rcu);
}

static const struct kobj_type tc_ktype = {
	.release = tc_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = tc_groups,
};

static void show_directory(struct tc_device *dev, struct net_device *ndev)
{
	dev->tc = kobject_create_and_add("tc", &dev->ibdev->dev.kobj);
	if (!dev->tc)
		return;
	if (kobject_add(&dev->kobj, dev->tc, "1")) {
		kobject_put(dev->tc);
		dev->tc = NULL;
		return;
	}
	WRITE_ONCE(dev->ndev, ndev);
}

static void hide_directory(struct tc_device *dev)
{
	if (!dev->tc)
		return;
	WRITE_ONCE(dev->ndev, NULL);
	kobject_del(&dev->kobj);
	kobject_put(dev->tc);
	dev->tc = NULL;
}

static bool is_on(struct ib_device *ibdev, struct net_device *ndev)
{
	struct ib_device *found = ib_device_get_by_netdev(ndev, RDMA_DRIVER_UNKNOWN);

	if (!found)
		return false;
	ib_device_put(found);
	return found == ibdev;
}

static int client_add(struct ib_device *ibdev)
{
	struct tc_device *dev;
	struct rail *rail;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	kobject_init(&dev->kobj, &tc_ktype);
	dev->ibdev = ibdev;
	dev->tclass = UNSET;

	mutex_lock(&lock);
	list_add_rcu(&dev->list, &devices);
	list_for_each_entry(rail, &rails, list)
		if (!dev->tc && is_on(ibdev, rail->dev))
			show_directory(dev, rail->dev);
	mutex_unlock(&lock);
	return 0;
}

static void client_remove(struct ib_device *ibdev, void *unused)
{
	struct tc_device *dev;

	mutex_lock(&lock);
	list_for_each_entry(dev, &devices, list) {
		if (dev->ibdev != ibdev)
			continue;
		hide_directory(dev);
		list_del_rcu(&dev->list);
		kobject_put(&dev->kobj);
		break;
	}
	mutex_unlock(&lock);
}

static struct ib_client client = {
	.name = "standin_ofed",
	.add = client_add,
	.remove = client_remove,
	.no_kverbs_req = 1,
};

void ofed_tc_netdev_added(struct net_device *ndev)
{
	struct rail *rail = kzalloc(sizeof(*rail), GFP_KERNEL);
	struct tc_device *dev;

	if (!rail)
		return;
	rail->dev = ndev;
	mutex_lock(&lock);
	list_add(&rail->list, &rails);
	list_for_each_entry(dev, &devices, list)
		if (!dev->tc && is_on(dev->ibdev, ndev))
			show_directory(dev, ndev);
	mutex_unlock(&lock);
}

void ofed_tc_netdev_removing(struct net_device *ndev)
{
	struct rail *rail, *next;
	struct tc_device *dev;

	mutex_lock(&lock);
	list_for_each_entry_safe(rail, next, &rails, list) {
		if (rail->dev != ndev)
			continue;
		list_del(&rail->list);
		kfree(rail);
	}
	list_for_each_entry(dev, &devices, list)
		if (dev->ndev == ndev)
			hide_directory(dev);
	mutex_unlock(&lock);
}

/* The DS byte for packets that leave through this netdev, or UNSET. */
static int tclass_of(const struct net_device *out)
{
	struct tc_device *dev;
	int tclass;

	list_for_each_entry_rcu(dev, &devices, list) {
		tclass = READ_ONCE(dev->tclass);
		if (tclass != UNSET && READ_ONCE(dev->ndev) == out)
			return tclass;
	}
	return UNSET;
}

static bool is_roce(const struct sk_buff *skb, int offset)
{
	const struct udphdr *udp;
	struct udphdr buf;

	udp = skb_header_pointer(skb, offset, sizeof(buf), &buf);
	return udp && udp->dest == htons(ROCE_V2_PORT);
}

static unsigned int mark_v4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct iphdr *ip = ip_hdr(skb);
	int tclass;

	if (ip->protocol != IPPROTO_UDP || ip_is_fragment(ip) ||
	    !is_roce(skb, skb_network_offset(skb) + ip_hdrlen(skb)))
		return NF_ACCEPT;
	tclass = tclass_of(state->out);
	if (tclass != UNSET &&
	    !skb_ensure_writable(skb, skb_network_offset(skb) + sizeof(struct iphdr)))
		ipv4_change_dsfield(ip_hdr(skb), 0, tclass);	/* and the checksum */
	return NF_ACCEPT;
}

static unsigned int mark_v6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	int tclass;

	if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP ||
	    !is_roce(skb, skb_network_offset(skb) + sizeof(struct ipv6hdr)))
		return NF_ACCEPT;
	tclass = tclass_of(state->out);
	if (tclass != UNSET &&
	    !skb_ensure_writable(skb, skb_network_offset(skb) + sizeof(struct ipv6hdr)))
		ipv6_change_dsfield(ipv6_hdr(skb), 0, tclass);
	return NF_ACCEPT;
}

static const struct nf_hook_ops hooks[] = {
	{
		.hook = mark_v4,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_POST_ROUTING,
		.priority = NF_IP_PRI_LAST,
	},
	{
		.hook = mark_v6,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_POST_ROUTING,
		.priority = NF_IP6_PRI_LAST,
	},
};

static int __net_init netns_init(struct net *net)
{
	return nf_register_net_hooks(net, hooks, ARRAY_SIZE(hooks));
}

static void __net_exit netns_exit(struct net *net)
{
	nf_unregister_net_hooks(net, hooks, ARRAY_SIZE(hooks));
}

static struct pernet_operations netns_ops = { .init = netns_init, .exit = netns_exit };

int ofed_tc_init(void)
{
	int err;

	err = ib_register_client(&client);
	if (err)
		return err;
	err = register_pernet_subsys(&netns_ops);
	if (err)
		ib_unregister_client(&client);
	return err;
}

void ofed_tc_exit(void)
{
	unregister_pernet_subsys(&netns_ops);
	synchronize_net();
	ib_unregister_client(&client);
}
