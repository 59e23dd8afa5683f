/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Included before every source file of an out-of-tree build, so that code for
 * Linux 7.3 compiles on older kernels. Not part of the drivers.
 */
#ifndef TERN_COMPAT_H
#define TERN_COMPAT_H

#include <linux/slab.h>

#ifndef kzalloc_obj
#define TERN_SECOND(first, second, ...) second
#define TERN_GFP(...) TERN_SECOND(-, ##__VA_ARGS__, GFP_KERNEL, -)
#define kzalloc_obj(object, ...) \
	kzalloc(sizeof(object), TERN_GFP(__VA_ARGS__))
#define kzalloc_objs(object, count, ...) \
	kcalloc(count, sizeof(object), TERN_GFP(__VA_ARGS__))
#define kvzalloc_objs(object, count, ...) \
	kvcalloc(count, sizeof(object), TERN_GFP(__VA_ARGS__))
#endif

#endif /* TERN_COMPAT_H */
