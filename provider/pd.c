// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Protection domains, parent domains and thread domains. */

#include <errno.h>
#include <stdlib.h>

#include "tern.h"

struct ibv_pd *tern_alloc_pd(struct ibv_context *ibvctx)
{
	struct ib_uverbs_alloc_pd_resp resp;
	struct ibv_alloc_pd cmd;
	struct tern_pd *pd;
	int err;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	atomic_init(&pd->refs, 1);
	err = ibv_cmd_alloc_pd(ibvctx, &pd->ibvpd, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}

	return &pd->ibvpd;
}

#ifndef TERN_WITHOUT_IMPORT
/*
 * ibv_import_pd(3): a PD consists of its handle alone. An invalid one is
 * detected on first use.
 */
struct ibv_pd *tern_import_pd(struct ibv_context *ibvctx, uint32_t handle)
{
	struct tern_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	atomic_init(&pd->refs, 1);
	pd->ibvpd.context = ibvctx;
	pd->ibvpd.handle = handle;

	return &pd->ibvpd;
}

#endif
void tern_pd_get(struct tern_pd *pd)
{
	atomic_fetch_add_explicit(&pd->refs, 1, memory_order_relaxed);
}

/* Drops a reference. The last one frees a domain, not the kernel's PD. */
void tern_pd_put(struct tern_pd *pd)
{
	/* Pairs with the other users' drops: they no longer use the domain. */
	if (atomic_fetch_sub_explicit(&pd->refs, 1, memory_order_acq_rel) != 1)
		return;

	if (pd->td)
		atomic_fetch_sub_explicit(&pd->td->users, 1,
					  memory_order_release);
	if (pd->base)
		tern_pd_put(pd->base);
	free(pd);
}

#ifndef TERN_WITHOUT_IMPORT
/*
 * ibv_unimport_pd(3). Parent domains and queues may still use the structure;
 * the last of them frees it.
 */
void tern_unimport_pd(struct ibv_pd *ibvpd)
{
	tern_pd_put(to_tern_pd(ibvpd));
}

#endif
static bool tern_pd_busy(struct tern_pd *pd)
{
	return atomic_load_explicit(&pd->refs, memory_order_acquire) > 1;
}

/*
 * ibv_dealloc_pd(3), also of a parent domain, which the kernel does not know:
 * EBUSY while parent domains or queues use it.
 */
int tern_dealloc_pd(struct ibv_pd *ibvpd)
{
	struct tern_pd *pd = to_tern_pd(ibvpd);
	int err;

	if (tern_pd_busy(pd))
		return EBUSY;

	if (!pd->base) {
		err = ibv_cmd_dealloc_pd(ibvpd);
		if (err)
			return err;
	}

	tern_pd_put(pd);
	return 0;
}

/*
 * ibv_alloc_td(3): the objects of a thread domain are used by one thread at a
 * time, and take no locks except for operations on tags.
 */
struct ibv_td *tern_alloc_td(struct ibv_context *ibvctx,
			     struct ibv_td_init_attr *attr)
{
	struct tern_td *td;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}

	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;

	td->ibvtd.context = ibvctx;

	return &td->ibvtd;
}

/* ibv_dealloc_td(3): EBUSY while a parent domain uses it. */
int tern_dealloc_td(struct ibv_td *ibvtd)
{
	struct tern_td *td = to_tern_td(ibvtd);

	if (atomic_load_explicit(&td->users, memory_order_acquire))
		return EBUSY;

	free(td);
	return 0;
}

static int tern_check_parent_domain(struct ibv_context *ibvctx,
				    struct ibv_parent_domain_init_attr *attr)
{
	bool allocators = attr->comp_mask &
			  IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;

	/* Any memory is unprotected enough: the device has no bounce buffers. */
	if (!check_comp_mask(attr->comp_mask,
			     IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
			     IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC))
		return EINVAL;

	if (!attr->pd || attr->pd->context != ibvctx ||
	    (attr->td && attr->td->context != ibvctx) ||
	    (allocators && (!attr->alloc || !attr->free)))
		return EINVAL;

	return 0;
}

/*
 * ibv_alloc_parent_domain(3): another name for the PD, with parameters for the
 * creation of objects. A parent domain may be based on another one, but does
 * not take over its thread domain and allocators.
 */
struct ibv_pd *
tern_alloc_parent_domain(struct ibv_context *ibvctx,
			 struct ibv_parent_domain_init_attr *attr)
{
	struct tern_pd *pd;
	int err;

	err = tern_check_parent_domain(ibvctx, attr);
	if (err) {
		errno = err;
		return NULL;
	}

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	atomic_init(&pd->refs, 1);
	ibv_initialize_parent_domain(&pd->ibvpd, attr->pd);
	pd->base = to_tern_pd(attr->pd);
	tern_pd_get(pd->base);
	if (attr->td) {
		pd->td = to_tern_td(attr->td);
		atomic_fetch_add_explicit(&pd->td->users, 1,
					  memory_order_relaxed);
	}

	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;

	return &pd->ibvpd;
}

/*
 * Asks the allocator of a parent domain for zeroed memory, excluded from
 * fork()'s copy-on-write. Returns 0 with *addr NULL if there is none or it
 * leaves the allocation to the provider, or an errno.
 */
int tern_pd_alloc(struct tern_pd *pd, size_t size, size_t alignment,
		  enum tern_res_type type, void **addr)
{
	void *memory;

	*addr = NULL;
	if (!pd || !pd->alloc)
		return 0;

	memory = pd->alloc(&pd->ibvpd, pd->pd_context, size, alignment,
			   TERN_RESOURCE(type));
	if (memory == IBV_ALLOCATOR_USE_DEFAULT)
		return 0;
	if (!memory)
		return ENOMEM;

	*addr = memory;
	return 0;
}

void tern_pd_free(struct tern_pd *pd, void *addr, enum tern_res_type type)
{
	pd->free(&pd->ibvpd, pd->pd_context, addr, TERN_RESOURCE(type));
}
