/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The peer-memory interface of the vendor's ib_core, as far as a stand-in needs it:
 * a client names itself and offers callbacks, of which nobody here calls one.
 */
#ifndef STANDIN_PEER_MEM_H
#define STANDIN_PEER_MEM_H

#include <linux/scatterlist.h>
#include <linux/types.h>

#define IB_PEER_MEMORY_NAME_MAX	64
#define IB_PEER_MEMORY_VER_MAX	16

struct peer_memory_client {
	char name[IB_PEER_MEMORY_NAME_MAX];
	char version[IB_PEER_MEMORY_VER_MAX];
	int (*acquire)(unsigned long addr, size_t size, void *private_data, char *name,
		       void **context);
	int (*get_pages)(unsigned long addr, size_t size, int write, int force,
			 struct sg_table *sg, void *context, u64 core_context);
	int (*dma_map)(struct sg_table *sg, void *context, struct device *dev, int dmasync,
		       int *nmap);
	int (*dma_unmap)(struct sg_table *sg, void *context, struct device *dev);
	void (*put_pages)(struct sg_table *sg, void *context);
	unsigned long (*get_page_size)(void *context);
	void (*release)(void *context);
	void *(*get_context_private_data)(u64 peer_id);
	void (*put_context_private_data)(void *context);
};

typedef int (*invalidate_peer_memory)(void *handle, u64 core_context);

void *ib_register_peer_memory_client(const struct peer_memory_client *client,
				     invalidate_peer_memory *invalidate);
void ib_unregister_peer_memory_client(void *handle);

#endif
