/*
 * tern: guest memory by DMA address.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The engine accesses only RAM, of the machine or in another device's BAR. Any
 * other access would be MMIO to another device, from a thread that does not
 * hold the BQL. The same holds for the BAR of a passed-through device.
 *
 * With a vIOMMU a translation may raise an interrupt (a fault), which may
 * call us again (tern.h), and takes the IOMMU's own locks, which are held when
 * its unmap notifiers are called. So while the address space has an IOMMU
 * region, the engine runs only with the BQL held
 * (tern_runner_set_host_only()). The same holds with icount, so that runs
 * repeat.
 *
 * Translating an address, and finding the RAM block of a pointer, cost more
 * than copying a small message. So the engine knows the large pieces of RAM
 * until the address space changes: no bus master, another memory layout, a
 * vIOMMU that translates. It asks us for the rest.
 */

#include "qemu/osdep.h"
#include "qemu/rcu.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "exec/memory.h"
#include "hw/pci/pci.h"
#include "system/cpu-timers.h"
#include "tern.h"
#include "trace.h"

/* A fault may call us again, and even unplug the device. */
static MemoryRegion *tern_translate(TernState *s, uint64_t addr, hwaddr *xlat,
                                    hwaddr *len, bool is_write,
                                    MemTxAttrs attrs)
{
    AddressSpace *as = pci_get_address_space(PCI_DEVICE(s));
    bool may_fault = bql_locked();
    MemoryRegion *mr;

    if (may_fault) {
        s->in_map = true;
    }
    mr = address_space_translate(as, addr, xlat, len, is_write, attrs);
    if (may_fault) {
        s->in_map = false;
        if (s->deferred) {
            qemu_bh_schedule(s->deferred_bh);
        }
    }
    return mr;
}

void *tern_dma_map(void *opaque, uint64_t addr, uint64_t *len, bool is_write)
{
    TernState *s = opaque;
    MemTxAttrs attrs = MEMTXATTRS_UNSPECIFIED;
    hwaddr xlat = 0, l = *len;
    MemoryRegion *mr;

    RCU_READ_LOCK_GUARD();
    /* After exit() the address space does not exist. */
    mr = s->bus_master ? tern_translate(s, addr, &xlat, &l, is_write, attrs)
                       : NULL;
    /*
     * A fault may have ended DMA. Our own device memory is refused as well: the
     * engine accesses it under another name, and no bus carries a copy from a
     * device to itself.
     */
    if (!s->bus_master || !l || mr == &s->dm ||
        !memory_access_is_direct(mr, is_write, attrs)) {
        trace_tern_dma_refused(s, addr, *len, is_write);
        return NULL;
    }
    memory_region_ref(mr);
    *len = l;
    return (uint8_t *)memory_region_get_ram_ptr(mr) + xlat;
}

void tern_dma_unmap(void *opaque, void *ptr, uint64_t len, bool is_write,
                    uint64_t written)
{
    TernState *s = opaque;

    /* Marks the written bytes dirty and drops the code translated from them. */
    address_space_unmap(pci_get_address_space(PCI_DEVICE(s)), ptr, len,
                        is_write && written, written);
}

/* Dirty logs and translated code treat device memory as RAM. */
void tern_dm_written(void *opaque, void *ptr, uint64_t len)
{
    TernState *s = opaque;

    trace_tern_dm_written(s, (uint8_t *)ptr -
                          (uint8_t *)memory_region_get_ram_ptr(&s->dm), len);
    memory_region_ref(&s->dm);
    address_space_unmap(pci_get_address_space(PCI_DEVICE(s)), ptr, len, true,
                        len);
}

void tern_ram_written(void *opaque, void *ptr, uint64_t len)
{
    TernState *s = opaque;
    unsigned i;

    for (i = 0; i < s->num_known; i++) {
        MemoryRegionCache *cache = &s->known[i];
        uint64_t at = (uintptr_t)ptr - (uintptr_t)cache->ptr;

        if (at < cache->len) {
            address_space_cache_invalidate(cache, at, len);
            return;
        }
    }
    g_assert_not_reached();
}

typedef struct TernRamSearch {
    TernState *s;
    struct {
        uint64_t addr;
        uint64_t len;
    } found[TERN_MAX_RAM];      /* the largest first */
    unsigned num;
} TernRamSearch;

/* Skips small pieces, some of which are ROM or overlap ROM. */
static bool tern_ram_range(Int128 start, Int128 len, const MemoryRegion *mr,
                           hwaddr offset, void *opaque)
{
    TernRamSearch *search = opaque;
    uint64_t size = int128_get64(len);
    unsigned i;

    if (!memory_region_is_ram((MemoryRegion *)mr) || mr->readonly ||
        mr->ram_device || mr == &search->s->dm || size < 16 * MiB) {
        return false;
    }
    for (i = search->num; i > 0 && search->found[i - 1].len < size; i--) {
        if (i < TERN_MAX_RAM) {
            search->found[i] = search->found[i - 1];
        }
    }
    if (i < TERN_MAX_RAM) {
        search->found[i].addr = int128_get64(start);
        search->found[i].len = size;
        search->num = MIN(search->num + 1, TERN_MAX_RAM);
    }
    return false;
}

/* Replaces the RAM that the engine knows by these pieces. */
static void tern_know_ram(TernState *s, const TernRamSearch *search)
{
    AddressSpace *as = pci_get_address_space(PCI_DEVICE(s));
    MemoryRegionCache old[TERN_MAX_RAM], known[TERN_MAX_RAM] = {};
    TernRam ram[TERN_MAX_RAM];
    unsigned num_old = s->num_known, num = 0, i;

    for (i = 0; i < search->num; i++) {
        MemoryRegionCache *cache = &known[num];
        uint64_t addr = search->found[i].addr;
        int64_t len = address_space_cache_init(cache, as, addr,
                                               search->found[i].len, true);

        if (len <= 0 || !cache->ptr) {
            address_space_cache_destroy(cache);
            continue;
        }
        ram[num++] = (TernRam) { addr, len, cache->ptr };
    }
    tern_runner_lock(s->runner);
    memcpy(old, s->known, sizeof(old));
    memcpy(s->known, known, sizeof(known));
    s->num_known = num;
    tern_engine_set_ram(s->engine, ram, num);
    tern_runner_unlock(s->runner);
    for (i = 0; i < num_old; i++) {
        address_space_cache_destroy(&old[i]);
    }
    trace_tern_dma_ram(s, num);
}

static void tern_find_ram(TernState *s)
{
    AddressSpace *as = pci_get_address_space(PCI_DEVICE(s));
    TernRamSearch search = { .s = s };

    WITH_RCU_READ_LOCK_GUARD() {
        flatview_for_each_range(address_space_to_flatview(as), tern_ram_range,
                                &search);
    }
    tern_know_ram(s, &search);
}

static void tern_add_stale(TernState *s, uint64_t start, uint64_t last)
{
    s->stale_start = MIN(s->stale_start, start);
    s->stale_last = MAX(s->stale_last, last);
}

static void tern_iommu_unmap(IOMMUNotifier *n, IOMMUTLBEntry *tlb)
{
    TernIommu *iommu = container_of(n, TernIommu, notifier);
    TernState *s = iommu->dev;
    uint64_t addr = iommu->offset + tlb->iova;
    /* A mask of all ones means everything; its size does not fit. */
    uint64_t len = tlb->addr_mask + 1 ? tlb->addr_mask + 1 : UINT64_MAX;

    trace_tern_iommu_unmap(s, addr, len);
    if (tern_defer(s, TERN_DEFERRED_LAYOUT)) {
        tern_add_stale(s, addr, addr + MIN(len - 1, UINT64_MAX - addr));
        return;
    }
    tern_runner_lock(s->runner);
    tern_engine_dma_invalidate(s->engine, addr, len);
    tern_runner_unlock_without_delivering(s->runner);
}

static void tern_iommu_add(TernState *s, MemoryRegionSection *section)
{
    Int128 end = int128_sub(int128_add(
        int128_make64(section->offset_within_region), section->size),
        int128_one());
    IOMMUMemoryRegion *iommu_mr = IOMMU_MEMORY_REGION(section->mr);
    int index = memory_region_iommu_attrs_to_index(iommu_mr,
                                                   MEMTXATTRS_UNSPECIFIED);
    TernIommu *iommu = g_new0(TernIommu, 1);
    Error *err = NULL;

    iommu->dev = s;
    iommu->mr = section->mr;
    iommu->offset = section->offset_within_address_space -
                    section->offset_within_region;
    iommu_notifier_init(&iommu->notifier, tern_iommu_unmap,
                        IOMMU_NOTIFIER_UNMAP, section->offset_within_region,
                        int128_get64(end), index);
    /*
     * A guest can enable an IOMMU that takes no notifiers (VT-d with snoop
     * control). We do not need them: with an IOMMU the engine runs with the BQL
     * held, maps nothing for longer than a slice, and knows no RAM.
     */
    iommu->notified = !memory_region_register_iommu_notifier(
        section->mr, &iommu->notifier, &err);
    if (!iommu->notified) {
        trace_tern_iommu_silent(s, error_get_pretty(err));
        error_free(err);
    }
    QLIST_INSERT_HEAD(&s->iommus, iommu, next);
    /* In a fault, which another IOMMU region reports, this is already done. */
    if (!s->in_map) {
        tern_runner_lock(s->runner);
        tern_runner_set_host_only(s->runner, true);
        tern_runner_unlock_without_delivering(s->runner);
    }
}

static void tern_iommu_del(TernState *s, MemoryRegionSection *section)
{
    TernIommu *iommu;

    QLIST_FOREACH(iommu, &s->iommus, next) {
        if (iommu->mr == section->mr &&
            iommu->notifier.start == section->offset_within_region) {
            if (iommu->notified) {
                memory_region_unregister_iommu_notifier(iommu->mr,
                                                        &iommu->notifier);
            }
            QLIST_REMOVE(iommu, next);
            g_free(iommu);
            return;
        }
    }
}

static void tern_region_add(MemoryListener *listener,
                            MemoryRegionSection *section)
{
    TernState *s = container_of(listener, TernState, listener);

    if (memory_region_is_iommu(section->mr)) {
        tern_iommu_add(s, section);
    }
    s->ram_changed |= memory_region_is_ram(section->mr);
}

static void tern_region_del(MemoryListener *listener,
                            MemoryRegionSection *section)
{
    TernState *s = container_of(listener, TernState, listener);
    uint64_t start = section->offset_within_address_space;
    uint64_t last = start + int128_get64(int128_sub(section->size,
                                                    int128_one()));

    if (memory_region_is_iommu(section->mr)) {
        tern_iommu_del(s, section);
    } else if (!memory_region_is_ram(section->mr)) {
        return;
    }
    s->ram_changed |= memory_region_is_ram(section->mr);
    tern_add_stale(s, start, last);
}

static void tern_invalidate(TernState *s)
{
    bool bql_only = icount_enabled() || !QLIST_EMPTY(&s->iommus);
    uint64_t start = s->stale_start, len;

    len = s->stale_last - start == UINT64_MAX ? UINT64_MAX
                                              : s->stale_last - start + 1;
    s->stale_start = UINT64_MAX;
    s->stale_last = 0;
    tern_runner_lock(s->runner);
    tern_runner_set_host_only(s->runner, bql_only);
    trace_tern_dma_layout(s, start, len, bql_only);
    tern_engine_dma_invalidate(s->engine, start, len);
    tern_runner_unlock_without_delivering(s->runner);
}

void tern_dma_changed(TernState *s)
{
    if (tern_defer(s, TERN_DEFERRED_LAYOUT)) {
        return;
    }
    if (s->ram_changed) {
        s->ram_changed = false;
        tern_find_ram(s);
    }
    if (s->stale_start <= s->stale_last) {
        tern_invalidate(s);
    }
    tern_runner_update_polling(s->runner);
}

/*
 * The address space takes effect only now. Earlier, the worker could map again
 * what region_del() invalidates, and there may have been no memory in which to
 * notify software.
 */
static void tern_commit(MemoryListener *listener)
{
    TernState *s = container_of(listener, TernState, listener);

    if (s->started) {
        tern_dma_changed(s);
    }
}

void tern_dma_start(TernState *s)
{
    QLIST_INIT(&s->iommus);
    s->stale_start = UINT64_MAX;
    s->stale_last = 0;
    tern_runner_lock(s->runner);
    tern_runner_set_host_only(s->runner, icount_enabled());
    tern_runner_unlock_without_delivering(s->runner);
    tern_runner_update_polling(s->runner);
    s->listener = (MemoryListener) {
        .name = "tern",
        .region_add = tern_region_add,
        .region_del = tern_region_del,
        .commit = tern_commit,
    };
    memory_listener_register(&s->listener,
                             pci_get_address_space(PCI_DEVICE(s)));
}

void tern_dma_stop(TernState *s)
{
    memory_listener_unregister(&s->listener);
}

void tern_dma_forget(TernState *s)
{
    TernRamSearch none = { .s = s };

    tern_know_ram(s, &none);
}
