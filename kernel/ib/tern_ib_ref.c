// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Objects of which the device reports events by number. A number may belong to
 * another object by the time of the event: the generation tells them apart.
 */


#include "tern_ib.h"

/**
 * tern_ref_publish() - make an object that exists in the device visible to events
 * @objects: objects of its type by number
 * @id: its number
 * @ref: its reference count, with the generation; initialized here
 *
 * Return: 0, -ENOMEM, or -EBUSY if the device has given the number twice.
 */
int tern_ref_publish(struct xarray *objects, u32 id, struct tern_ref *ref)
{
	tern_ref_init(ref);
	return xa_insert_irq(objects, id, ref, GFP_KERNEL);
}

/**
 * tern_ref_unpublish() - undo tern_ref_publish()
 * @objects: objects of its type by number
 * @id: its number, which the device has not given to another object yet
 * @ref: its reference count
 *
 * On return no event uses the object.
 */
void tern_ref_unpublish(struct xarray *objects, u32 id, struct tern_ref *ref)
{
	xa_erase_irq(objects, id);
	tern_ref_drain(ref);
}

/**
 * tern_ref_lookup() - find the object that an event names
 * @objects: objects of its type by number
 * @id: number in the event
 * @generation: generation in the event
 *
 * Any context.
 *
 * Return: the object's reference count, with a reference for the caller, or NULL if
 * the object is gone.
 */
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
