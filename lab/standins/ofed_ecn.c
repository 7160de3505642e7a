// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/net/<netdev>/ecn: congestion control (DCQCN) parameters of a port.
 *
 * The values are registers of the card: they are kept by standin_mlx5e and so
 * survive a reload of this module, as they survive a driver restart.
 */
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "ofed.h"

#define PRIOS	8

/* A file; its register has the place of the entry in the table. */
struct ecn_attr {
	struct attribute attr;
	u32 initial;
	u32 min;
	u32 max;
};

#define ECN(_name, _initial, _min, _max) {			\
	.attr = { .name = _name, .mode = 0644 },		\
	.initial = _initial, .min = _min, .max = _max,		\
}

#define ENABLE							\
	ECN("0", 1, 0, 1), ECN("1", 1, 0, 1), ECN("2", 1, 0, 1),	\
	ECN("3", 1, 0, 1), ECN("4", 1, 0, 1), ECN("5", 1, 0, 1),	\
	ECN("6", 1, 0, 1), ECN("7", 1, 0, 1)

enum {
	NP_ENABLE = 0,
	RP_ENABLE = NP_ENABLE + PRIOS,
	NP_FIRST = RP_ENABLE + PRIOS,
	NP_FILES = 3,
	RP_FIRST = NP_FIRST + NP_FILES,
	RP_FILES = 16,
	FILES = RP_FIRST + RP_FILES
};

/*
 * Initial values: the firmware defaults that `mlxconfig query` shows on ConnectX-5
 * and -6; cnp_dscp and cnp_802p_prio are those NVIDIA documents for RoCE. Limits: the
 * width of the register where it is a flag, a DSCP or a priority, the documented range
 * of the mlxconfig parameter where there is one, otherwise a lab choice.
 */
static struct ecn_attr files[] = {
	/* roce_np/enable, roce_rp/enable */
	ENABLE, ENABLE,
	/* roce_np */
	ECN("cnp_dscp", 48, 0, 63),
	ECN("cnp_802p_prio", 6, 0, 7),
	ECN("min_time_between_cnps", 4, 0, 4095),	/* us */
	/* roce_rp */
	ECN("clamp_tgt_rate", 0, 0, 1),
	ECN("clamp_tgt_rate_after_time_inc", 1, 0, 1),
	ECN("rpg_time_reset", 300, 1, 131071),		/* us */
	ECN("rpg_byte_reset", 32767, 0, 32767),		/* 64 byte units */
	ECN("rpg_threshold", 1, 1, 31),
	ECN("rpg_ai_rate", 5, 1, 400000),		/* Mbit/s */
	ECN("rpg_hai_rate", 50, 1, 400000),		/* Mbit/s */
	ECN("rpg_max_rate", 0, 0, 400000),		/* Mbit/s, 0: line rate */
	ECN("rpg_min_dec_fac", 50, 1, 100),		/* percent */
	ECN("rpg_min_rate", 1, 1, 400000),		/* Mbit/s */
	ECN("rate_to_set_on_first_cnp", 0, 0, 400000),	/* Mbit/s, 0: no change */
	ECN("dce_tcp_g", 1019, 1, 1023),
	ECN("dce_tcp_rtt", 1, 1, 131071),		/* us */
	ECN("rate_reduce_monitor_period", 4, 1, 131071),	/* us */
	ECN("initial_alpha_value", 1023, 1, 1023),
	ECN("rpg_gd", 11, 0, 15),
};

/* A directory of the tree. Only this module holds references to it. */
struct ecn_dir {
	struct kobject kobj;
	u32 *reg;
};

struct ecn_tree {
	struct list_head list;
	struct net_device *dev;
	struct ecn_dir *dirs[5];
	int n;
};

static LIST_HEAD(trees);	/* RTNL */

static ssize_t ecn_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct ecn_attr *file = container_of(attr, struct ecn_attr, attr);
	struct ecn_dir *dir = container_of(kobj, struct ecn_dir, kobj);

	return sysfs_emit(buf, "%u\n", READ_ONCE(dir->reg[file - files]));
}

static ssize_t ecn_store(struct kobject *kobj, struct attribute *attr, const char *buf,
			 size_t count)
{
	struct ecn_attr *file = container_of(attr, struct ecn_attr, attr);
	struct ecn_dir *dir = container_of(kobj, struct ecn_dir, kobj);
	u32 value;
	int err;

	err = kstrtou32(buf, 0, &value);
	if (err)
		return err;
	if (value < file->min || value > file->max)
		return -EINVAL;
	WRITE_ONCE(dir->reg[file - files], value);
	return count;
}

static void ecn_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct ecn_dir, kobj));
}

static const struct sysfs_ops ecn_ops = { .show = ecn_show, .store = ecn_store };
static const struct kobj_type ecn_ktype = { .release = ecn_release, .sysfs_ops = &ecn_ops };

static struct kobject *add_dir(struct ecn_tree *tree, struct kobject *parent, const char *name,
			       u32 *reg, int first, int n)
{
	struct ecn_dir *dir;
	int err, i;

	dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	if (!dir)
		return ERR_PTR(-ENOMEM);
	dir->reg = reg;
	err = kobject_init_and_add(&dir->kobj, &ecn_ktype, parent, "%s", name);
	for (i = first; !err && i < first + n; i++)
		err = sysfs_create_file(&dir->kobj, &files[i].attr);
	if (err) {
		kobject_put(&dir->kobj);
		return ERR_PTR(err);
	}
	tree->dirs[tree->n++] = dir;
	return &dir->kobj;
}

static int add_protocol(struct ecn_tree *tree, struct kobject *ecn, const char *name, u32 *reg,
			int enable, int first, int n)
{
	struct kobject *kobj;

	kobj = add_dir(tree, ecn, name, reg, first, n);
	if (!IS_ERR(kobj))
		kobj = add_dir(tree, kobj, "enable", reg, enable, PRIOS);
	return PTR_ERR_OR_ZERO(kobj);
}

static void free_tree(struct ecn_tree *tree)
{
	while (tree->n--) {
		kobject_del(&tree->dirs[tree->n]->kobj);
		kobject_put(&tree->dirs[tree->n]->kobj);
	}
	kfree(tree);
}

int ofed_ecn_add(struct net_device *dev, struct standin_mlx5e_cc *cc)
{
	struct ecn_tree *tree;
	struct kobject *ecn;
	int err, i;

	BUILD_BUG_ON(ARRAY_SIZE(files) != FILES || FILES > STANDIN_CC_REGISTERS);
	if (!cc->initialised) {
		for (i = 0; i < FILES; i++)
			cc->reg[i] = files[i].initial;
		cc->initialised = true;
	}
	tree = kzalloc(sizeof(*tree), GFP_KERNEL);
	if (!tree)
		return -ENOMEM;
	tree->dev = dev;
	ecn = add_dir(tree, &dev->dev.kobj, "ecn", cc->reg, 0, 0);
	err = PTR_ERR_OR_ZERO(ecn);
	if (!err)
		err = add_protocol(tree, ecn, "roce_np", cc->reg, NP_ENABLE, NP_FIRST, NP_FILES);
	if (!err)
		err = add_protocol(tree, ecn, "roce_rp", cc->reg, RP_ENABLE, RP_FIRST, RP_FILES);
	if (err) {
		free_tree(tree);
		return err;
	}
	list_add(&tree->list, &trees);
	return 0;
}

void ofed_ecn_remove(struct net_device *dev)
{
	struct ecn_tree *tree;

	list_for_each_entry(tree, &trees, list) {
		if (tree->dev != dev)
			continue;
		list_del(&tree->list);
		free_tree(tree);
		return;
	}
}
