/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Included by the file for AF_XDP. */
#ifndef TERN_COMPAT_XSK_H
#define TERN_COMPAT_XSK_H

#include <linux/mm.h>
#include <net/xdp_sock_drv.h>

/* The driver had to fill in the list of buffers. */
#ifndef TERN_HAVE_XSK_ADD_FRAG_HEAD
static inline bool tern_compat_xsk_add_frag(struct xdp_buff *head, struct xdp_buff *xdp)
{
	struct skb_shared_info *sinfo = xdp_get_shared_info_from_buff(head);
	u32 len = xdp->data_end - xdp->data;

	if (!xdp_buff_has_frags(head)) {
		sinfo->nr_frags = 0;
		sinfo->xdp_frags_size = 0;
		xdp_buff_set_frags_flag(head);
	}
	if (sinfo->nr_frags >= MAX_SKB_FRAGS)
		return false;
	skb_frag_fill_page_desc(&sinfo->frags[sinfo->nr_frags++], virt_to_page(xdp->data),
				offset_in_page(xdp->data), len);
	sinfo->xdp_frags_size += len;
	xsk_buff_add_frag(xdp);
	return true;
}

#define xsk_buff_add_frag(head, xdp) tern_compat_xsk_add_frag(head, xdp)
#endif

/* It did not check the metadata, nor report whether a time stamp was requested. */
#ifndef TERN_HAVE_XSK_REQUEST_POOL
#define xsk_tx_metadata_request(pool, pmeta, ops, priv) \
	xsk_tx_metadata_request(*(pmeta), ops, priv)
#endif

#endif /* TERN_COMPAT_XSK_H */
