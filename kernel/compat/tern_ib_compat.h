/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Included before every source file of tern_ib.ko in an out-of-tree build:
 * parts of the ib_core of Linux 7.3 that older kernels lack. Not part of the
 * driver.
 */
#ifndef TERN_IB_COMPAT_H
#define TERN_IB_COMPAT_H

#include <linux/uaccess.h>

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* No driver id is assigned: user space finds the provider by PCI ID. */
#ifndef TERN_HAVE_DRIVER_ID
#define RDMA_DRIVER_TERN RDMA_DRIVER_UNKNOWN
#endif

#ifndef TERN_HAVE_UDATA_HELPERS
static inline int tern_compat_udata_in(struct ib_udata *udata, void *req,
				       size_t kernel_size, size_t minimum_size)
{
	int err;

	if (udata->inlen < minimum_size)
		return -EINVAL;

	err = copy_struct_from_user(req, kernel_size, udata->inbuf,
				    udata->inlen);
	return err == -E2BIG ? -EOPNOTSUPP : err;
}

static inline int tern_compat_respond(struct ib_udata *udata, const void *resp,
				      size_t len)
{
	size_t copy_len = min(len, udata->outlen);

	if (copy_to_user(udata->outbuf, resp, copy_len))
		return -EFAULT;
	if (clear_user(udata->outbuf + copy_len, udata->outlen - copy_len))
		return -EFAULT;
	return 0;
}

#define ib_copy_validate_udata_in(udata, req, end_member) \
	tern_compat_udata_in(udata, &(req), sizeof(req), \
			     offsetofend(typeof(req), end_member))
#define ib_respond_udata(udata, resp) \
	tern_compat_respond(udata, &(resp), sizeof(resp))

static inline int ib_is_udata_in_empty(struct ib_udata *udata)
{
	if (!udata || !udata->inlen)
		return 0;
	return tern_compat_udata_in(udata, NULL, 0, 0);
}

static inline int ib_respond_empty_udata(struct ib_udata *udata)
{
	if (udata && udata->outlen && clear_user(udata->outbuf, udata->outlen))
		return -EFAULT;
	return 0;
}

static inline int ib_no_udata_io(struct ib_udata *udata)
{
	return ib_is_udata_in_empty(udata) ?: ib_respond_empty_udata(udata);
}
#endif /* TERN_HAVE_UDATA_HELPERS */

/*
 * Such a kernel does not check whether the driver is robust. The flag that it
 * has in the same place is true as well: without an assigned driver id, user
 * space cannot bind by it.
 */
#ifndef TERN_HAVE_ROBUST_UDATA
#define uverbs_robust_udata uverbs_no_driver_id_binding
#endif

#ifndef TERN_HAVE_UMEM_GET_VA
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device,
					     unsigned long addr, size_t size,
					     int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

/* No attribute describes a queue's buffer: udata has its address. */
#ifndef TERN_HAVE_UMEM_ATTR
#define UVERBS_ATTR_CREATE_QP_BUF_UMEM 0

static inline struct ib_umem *
ib_umem_get_attr_or_va(struct ib_device *device,
		       const struct uverbs_attr_bundle *attrs, u16 attr_id,
		       u64 addr, size_t size, int access)
{
	return ib_umem_get_va(device, addr, size, access);
}

static inline struct ib_umem *
ib_umem_get_cq_buf_or_va(struct ib_device *device,
			 const struct uverbs_attr_bundle *attrs, u64 addr,
			 size_t size, int access)
{
	return ib_umem_get_va(device, addr, size, access);
}
#endif

/* No attribute of the method has this number. */
#ifndef TERN_HAVE_SRQ_BUF_UMEM
#define UVERBS_ATTR_CREATE_SRQ_BUF_UMEM (UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM + 1)
#endif

/*
 * A single operation creates user and kernel CQs. As below, the name followed
 * by a parenthesis is the driver's function, and the bare name is the combined
 * operation. The driver's table has it after create_cq, and the last of two
 * initializers counts.
 */
#ifndef TERN_HAVE_CREATE_USER_CQ
#pragma GCC diagnostic ignored "-Woverride-init"
#define create_user_cq create_cq

int tern_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int tern_create_users_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			 struct uverbs_attr_bundle *attrs);

static inline int tern_create_user_cq(struct ib_cq *ibcq,
				      const struct ib_cq_init_attr *attr,
				      struct uverbs_attr_bundle *attrs)
{
	return attrs ? tern_create_users_cq(ibcq, attr, attrs) :
		       tern_create_cq(ibcq, attr, attrs);
}

#define tern_create_user_cq(...) tern_create_users_cq(__VA_ARGS__)
#endif

/* One operation resizes user and kernel CQs. Kernel users never call it. */
#ifndef TERN_HAVE_RESIZE_USER_CQ
#define resize_user_cq resize_cq

int tern_resize_users_cq(struct ib_cq *ibcq, unsigned int cqe,
			 struct ib_udata *udata);

static inline int tern_resize_user_cq(struct ib_cq *ibcq, int cqe,
				      struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	return cqe < 0 ? -EINVAL : tern_resize_users_cq(ibcq, cqe, udata);
}

#define tern_resize_user_cq(...) tern_resize_users_cq(__VA_ARGS__)
#endif

/*
 * Registration has no DMA hints. The driver's function gets another name, and
 * the operation calls it without hints. The name followed by a parenthesis is
 * the driver's function, the bare name is the operation.
 */
#ifndef TERN_HAVE_DMAH
enum {
	IB_DMAH_CPU_ID_EXISTS,
	IB_DMAH_MEM_TYPE_EXISTS,
	IB_DMAH_PH_EXISTS,
};

struct ib_dmah {
	struct ib_device *device;
	u8 valid_fields;
};

struct ib_mr *tern_reg_user_mr_dmah(struct ib_pd *ibpd, u64 start, u64 length,
				    u64 virt, int access, struct ib_dmah *dmah,
				    struct ib_udata *udata);

static inline struct ib_mr *tern_reg_user_mr(struct ib_pd *ibpd, u64 start,
					     u64 length, u64 virt, int access,
					     struct ib_udata *udata)
{
	return tern_reg_user_mr_dmah(ibpd, start, length, virt, access, NULL,
				     udata);
}

#define tern_reg_user_mr(...) tern_reg_user_mr_dmah(__VA_ARGS__)

struct ib_mr *tern_reg_user_mr_dmabuf_dmah(struct ib_pd *ibpd, u64 offset,
					   u64 length, u64 virt, int fd,
					   int access, struct ib_dmah *dmah,
					   struct uverbs_attr_bundle *attrs);

static inline struct ib_mr *
tern_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt,
			int fd, int access, struct uverbs_attr_bundle *attrs)
{
	return tern_reg_user_mr_dmabuf_dmah(ibpd, offset, length, virt, fd,
					    access, NULL, attrs);
}

#define tern_reg_user_mr_dmabuf(...) tern_reg_user_mr_dmabuf_dmah(__VA_ARGS__)
#endif

/* uAPI bits that such a kernel passes to user space but does not define. */
#ifndef TERN_HAVE_ODP_FLUSH
#define IB_ODP_SUPPORT_FLUSH		BIT(6)
#define IB_ODP_SUPPORT_ATOMIC_WRITE	BIT(7)
#endif

/* A pinned dma-buf cannot be revoked: nothing calls the driver back. */
#ifndef TERN_HAVE_DMABUF_REVOCABLE
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>

static inline void ib_umem_dmabuf_revoke_lock(struct ib_umem_dmabuf *dmabuf)
{
	dma_resv_lock(dmabuf->attach->dmabuf->resv, NULL);
}

static inline void ib_umem_dmabuf_revoke_unlock(struct ib_umem_dmabuf *dmabuf)
{
	dma_resv_unlock(dmabuf->attach->dmabuf->resv);
}

static inline struct ib_umem_dmabuf *
ib_umem_dmabuf_get_pinned_revocable_and_lock(struct ib_device *device,
					     unsigned long offset, size_t size,
					     int fd, int access)
{
	struct ib_umem_dmabuf *dmabuf;

	dmabuf = ib_umem_dmabuf_get_pinned(device, offset, size, fd, access);
	if (!IS_ERR(dmabuf))
		ib_umem_dmabuf_revoke_lock(dmabuf);
	return dmabuf;
}

static inline void
ib_umem_dmabuf_set_revoke_locked(struct ib_umem_dmabuf *dmabuf,
				 void (*revoke)(void *priv), void *priv)
{
}
#endif

/* A dma-buf importer's operation has another name. */
#ifndef TERN_HAVE_INVALIDATE_MAPPINGS
#define invalidate_mappings move_notify
#endif

#ifndef TERN_HAVE_CURR_PORT_STATE
static inline enum ib_port_state ib_get_curr_port_state(struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev) ? IB_PORT_ACTIVE :
							       IB_PORT_DOWN;
}
#endif

/*
 * Older tables of ib_core have the rate limit for raw packet QPs only, newer ones
 * for all. The device checks it.
 */
static inline bool tern_compat_modify_qp_is_ok(enum ib_qp_state cur,
					       enum ib_qp_state next,
					       enum ib_qp_type type,
					       enum ib_qp_attr_mask mask)
{
	return ib_modify_qp_is_ok(cur, next, type, mask & ~IB_QP_RATE_LIMIT);
}

#define ib_modify_qp_is_ok tern_compat_modify_qp_is_ok

/*
 * Such a kernel lacks these definitions, which some operations need; Kbuild
 * removes the operations from the driver's tables.
 */
#ifndef TERN_HAVE_MMAP_GET_PFNS
struct pci_dev;
struct p2pdma_provider;

struct phys_vec {
	phys_addr_t paddr;
	size_t len;
};

static inline int pcim_p2pdma_init(struct pci_dev *pdev)
{
	return -EOPNOTSUPP;
}

static inline struct p2pdma_provider *pcim_p2pdma_provider(struct pci_dev *pdev,
							   int bar)
{
	return NULL;
}
#endif

#ifndef TERN_HAVE_PORT_SPEED
struct ib_port_speed_info {
	int rate;
};

static inline int ib_port_attr_to_speed_info(struct ib_port_attr *attr,
					     struct ib_port_speed_info *info)
{
	return -EOPNOTSUPP;
}
#endif

/* Such a kernel has no event for a new speed of the port. */
#ifndef TERN_HAVE_SPEED_EVENT
#define IB_EVENT_DEVICE_SPEED_CHANGE ((enum ib_event_type)-1)

static inline void tern_compat_dispatch_event(const struct ib_event *event)
{
	if (event->event != IB_EVENT_DEVICE_SPEED_CHANGE)
		ib_dispatch_event(event);
}

#define ib_dispatch_event tern_compat_dispatch_event
#endif

/* ib_core does not report port events: tern_ib_port_compat.c does. */
#ifndef TERN_HAVE_PORT_EVENTS
int tern_compat_register_device(struct ib_device *ibdev, const char *name,
				struct device *dma_device);
void tern_compat_unregister_device(struct ib_device *ibdev);

#define ib_register_device tern_compat_register_device
#define ib_unregister_device tern_compat_unregister_device
#endif

#endif /* TERN_IB_COMPAT_H */
