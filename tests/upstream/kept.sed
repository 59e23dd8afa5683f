# SPDX-License-Identifier: GPL-2.0-or-later
# What the series lack of the sources of this checkout: features that stay here, and what `sub` of a series puts in their place.
/<not exported>/,/<\/not exported>/d
s/__u32 flags;.*TERN_MODIFY_QP_.*/__u8 reserved_20[4];/
s/reserved_1a0/reserved_160/
s/tern_uresp_alloc_ucontext, clock_offset/tern_uresp_alloc_ucontext, reserved_160/
s/(dmah && access & IB_ACCESS_ON_DEMAND))/dmah)/
s/if (tern_reserved_set(dev, req.reserved_70, sizeof(req.reserved_70)))/if (tern_reserved_set(dev, req.reserved_20, sizeof(req.reserved_20)) ||\n\t    tern_reserved_set(dev, req.reserved_70, sizeof(req.reserved_70)))/
