// SPDX-License-Identifier: GPL-2.0-only
/*
 * The peer-memory registry of the vendor's ib_core: clients come and go and are
 * listed in /sys/kernel/mm/memory_peers. No memory is ever registered through them,
 * so the counters of a client stay 0.
 */
#include <linux/kernfs.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "ofed.h"
#include "peer_mem.h"

struct peer {
	struct kobject kobj;
	char version[IB_PEER_MEMORY_VER_MAX];
};

static DEFINE_MUTEX(lock);
static struct kobject *peers_dir;	/* there while a client is */
static unsigned int peers;

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", container_of(kobj, struct peer, kobj)->version);
}

static ssize_t zero_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0\n");
}

#define ZERO(_name) static struct kobj_attribute _name##_attr = __ATTR(_name, 0444, zero_show, NULL)

static struct kobj_attribute version_attr = __ATTR_RO(version);
ZERO(num_alloc_mrs);
ZERO(num_dealloc_mrs);
ZERO(num_reg_pages);
ZERO(num_dereg_pages);
ZERO(num_reg_bytes);
ZERO(num_dereg_bytes);
ZERO(num_free_callbacks);

static struct attribute *peer_attrs[] = {
	&version_attr.attr,
	&num_alloc_mrs_attr.attr,
	&num_dealloc_mrs_attr.attr,
	&num_reg_pages_attr.attr,
	&num_dereg_pages_attr.attr,
	&num_reg_bytes_attr.attr,
	&num_dereg_bytes_attr.attr,
	&num_free_callbacks_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(peer);

static void peer_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct peer, kobj));
}

static const struct kobj_type peer_ktype = {
	.release = peer_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = peer_groups,
};

static void put_peers_dir(void)
{
	if (peers)
		return;
	kobject_put(peers_dir);
	peers_dir = NULL;
}

/*
 * /sys/kernel/mm/memory_peers. Newer kernels do not export mm_kobj; the private data
 * of a sysfs directory is its kobject, which for "mm" is never freed.
 */
static struct kobject *get_peers_dir(void)
{
	struct kernfs_node *mm = kernfs_find_and_get_ns(kernel_kobj->sd, "mm", NULL);
	struct kobject *dir = NULL;

	if (mm) {
		dir = kobject_create_and_add("memory_peers", mm->priv);
		kernfs_put(mm);
	}
	return dir;
}

/* Nothing is ever pinned, so there is nothing to invalidate. */
static int invalidate_nothing(void *handle, u64 core_context)
{
	return -EINVAL;
}

void *ib_register_peer_memory_client(const struct peer_memory_client *client,
				     invalidate_peer_memory *invalidate)
{
	struct peer *peer;
	int err = -ENOMEM;

	if (!client->acquire || !client->get_pages || !client->put_pages ||
	    !client->get_page_size || !client->dma_map || !client->dma_unmap)
		return NULL;
	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		return NULL;
	strscpy(peer->version, client->version, sizeof(peer->version));
	kobject_init(&peer->kobj, &peer_ktype);

	mutex_lock(&lock);
	if (!peers_dir)
		peers_dir = get_peers_dir();
	if (peers_dir)
		err = kobject_add(&peer->kobj, peers_dir, "%.*s",
				  IB_PEER_MEMORY_NAME_MAX - 1, client->name);
	if (!err)
		peers++;
	else
		put_peers_dir();
	mutex_unlock(&lock);

	if (err) {
		kobject_put(&peer->kobj);
		return NULL;
	}
	if (invalidate)
		*invalidate = invalidate_nothing;
	return peer;
}
/* The vendor's is a plain EXPORT_SYMBOL; symbol_get() finds GPL-only ones alone. */
EXPORT_SYMBOL_GPL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *handle)
{
	struct peer *peer = handle;

	mutex_lock(&lock);
	kobject_del(&peer->kobj);
	kobject_put(&peer->kobj);
	peers--;
	put_peers_dir();
	mutex_unlock(&lock);
}
EXPORT_SYMBOL_GPL(ib_unregister_peer_memory_client);

void ofed_peer_exit(void)
{
	WARN_ON(peers);
}
