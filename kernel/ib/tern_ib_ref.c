// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Objects of which the device reports events by number. A number may belong to
 * another object by the time of the event: the generation tells them apart.
 */

#include "tern_ib.h"

/* Makes an object of the device visible to events. -EBUSY: a number was given twice. */
int tern_ref_publish(struct xarray *objects, u32 id, struct tern_ref *ref)
{
	tern_ref_init(ref);
	return xa_insert_irq(objects, id, ref, GFP_KERNEL);
}

/* On return no event uses the object. The device has not reused @id yet. */
void tern_ref_unpublish(struct xarray *objects, u32 id, struct tern_ref *ref)
{
	xa_erase_irq(objects, id);
	tern_ref_drain(ref);
}

/* Returns the object with a reference, or NULL if it is gone. Any context. */
struct tern_ref *tern_ref_lookup(struct xarray *objects, u32 id, u32 generation)
{
	struct tern_ref *ref;
	unsigned long flags;

	xa_lock_irqsave(objects, flags);
	ref = xa_load(objects, id);
	if (ref && ref->generation != generation)
		ref = NULL;
	if (ref)
		tern_ref_get(ref);
	xa_unlock_irqrestore(objects, flags);

	return ref;
}
