// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * STAND-IN for nvidia_peermem: registers its clients with the vendor driver's
 * peer-memory registry, and refuses to load where there is none.
 *
 * The real module decides that when it is compiled: built without the vendor driver,
 * its init is nothing but -EINVAL. This one looks the registry up at run time, so one
 * module does for both kinds of node. Nothing is printed in either case.
 */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/string.h>

#include "peer_mem.h"

#ifndef STANDIN_NVIDIA_VERSION
#define STANDIN_NVIDIA_VERSION "580.95.05"
#endif

#define CLIENT "nv_mem"

static int peerdirect_support;
module_param(peerdirect_support, int, 0444);
MODULE_PARM_DESC(peerdirect_support,
		 "Set level of support for Peer-direct, 0 [default] or 1 [legacy, for example MLNX_OFED 4.9 LTS]");

static int persistent_api_support = 1;
module_param(persistent_api_support, int, 0444);
MODULE_PARM_DESC(persistent_api_support,
		 "Set level of support for persistent APIs, 0 [legacy] or 1 [default]");

static typeof(&ib_register_peer_memory_client) register_client;
static typeof(&ib_unregister_peer_memory_client) unregister_client;
static void *persistent_handle, *legacy_handle;

/* No address belongs to a GPU that is not there. */
static int no_acquire(unsigned long addr, size_t size, void *private_data, char *name,
		      void **context)
{
	return 0;
}

static int no_get_pages(unsigned long addr, size_t size, int write, int force,
			struct sg_table *sg, void *context, u64 core_context)
{
	return -EINVAL;
}

static int no_dma_map(struct sg_table *sg, void *context, struct device *dev, int dmasync,
		      int *nmap)
{
	return -EINVAL;
}

static int no_dma_unmap(struct sg_table *sg, void *context, struct device *dev)
{
	return -EINVAL;
}

static void no_put_pages(struct sg_table *sg, void *context)
{
}

static unsigned long no_page_size(void *context)
{
	return PAGE_SIZE;
}

static void *add_client(const char *name)
{
	struct peer_memory_client client = {
		.version = STANDIN_NVIDIA_VERSION,
		.acquire = no_acquire,
		.get_pages = no_get_pages,
		.dma_map = no_dma_map,
		.dma_unmap = no_dma_unmap,
		.put_pages = no_put_pages,
		.get_page_size = no_page_size,
	};

	strscpy(client.name, name, sizeof(client.name));
	return register_client(&client, NULL);
}

static void put_registry(void)
{
	if (register_client)
		symbol_put(ib_register_peer_memory_client);
	if (unregister_client)
		symbol_put(ib_unregister_peer_memory_client);
}

static void remove_clients(void)
{
	if (legacy_handle)
		unregister_client(legacy_handle);
	if (persistent_handle)
		unregister_client(persistent_handle);
}

static int __init peermem_init(void)
{
	if ((peerdirect_support != 0 && peerdirect_support != 1) ||
	    (persistent_api_support != 0 && persistent_api_support != 1))
		return -EINVAL;

	register_client = symbol_get(ib_register_peer_memory_client);
	unregister_client = symbol_get(ib_unregister_peer_memory_client);
	if (!register_client || !unregister_client)
		goto fail;

	/* In legacy mode there are two clients, and "nv_mem" is the legacy one. */
	if (!persistent_api_support) {
		legacy_handle = add_client(CLIENT);
		if (!legacy_handle)
			goto fail;
	}
	persistent_handle = add_client(persistent_api_support ? CLIENT : CLIENT "_nc");
	if (!persistent_handle)
		goto fail;
	return 0;

fail:
	remove_clients();
	put_registry();
	return -EINVAL;
}

static void __exit peermem_exit(void)
{
	remove_clients();
	put_registry();
}

module_init(peermem_init);
module_exit(peermem_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(STANDIN_NVIDIA_VERSION);
MODULE_DESCRIPTION("STAND-IN: NVIDIA GPU peer memory for RDMA, without a GPU");
