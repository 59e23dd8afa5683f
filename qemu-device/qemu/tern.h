/*
 * tern: a RoCEv2 host channel adapter, as a PCI Express function.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The engine (tern_engine.h) implements the device, and the runner
 * (tern_runner.h) calls the engine. These files provide a PCI function, guest
 * memory, a wire, interrupts and time:
 *   tern.c       properties, PCI function, registers, reset
 *   tern-dma.c   guest memory by DMA address
 *   tern-faults.c  fault injection
 *   tern-run.c   what the runner needs from QEMU
 *   tern-wire.c  a wire in memory shared with another QEMU
 *   tern-pcap.c  the capture tap
 *   tern-events.c  the file of the event log
 *
 * Locks: the BQL is taken before the engine lock, which belongs to the runner,
 * never after it. The engine is called with the engine lock held and calls back
 * into tern-dma.c, the clock and the random number generator, none of which may
 * take the BQL. The runner calls functions that need the BQL (interrupts, the
 * net layer) without the engine lock, in a thread that holds the BQL. The lock
 * of TernPcap is a leaf.
 *
 * tern_dma_map() can lead back to us, although the engine lock is held: with a
 * vIOMMU it runs with the BQL held, and a fault can be reported by an interrupt,
 * which is a store to an address that the guest has chosen. Any effect of a
 * store may then call us. in_map is set meanwhile: accesses to BARs and frames
 * are dropped, tern_defer() postpones calls that must not be lost, and bottom
 * halves run again later (a reset of another device that waits for its I/O runs
 * them). Timers, descriptors and the monitor do not call us, because no store
 * runs the main loop.
 */

#ifndef HW_TERN_TERN_H
#define HW_TERN_TERN_H

#include "qemu/notify.h"
#include "qemu/queue.h"
#include "qemu/rcu.h"
#include "qemu/thread.h"
#include "qemu/timer.h"
#include "chardev/char-fe.h"
#include "exec/memory.h"
#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "qom/object.h"
#include "system/runstate.h"

/* tern_regs.h needs BIT() and GENMASK() from its includer; BIT() is QEMU's. */
#include "qemu/bitops.h"
#ifndef GENMASK
#define GENMASK(high, low) ((uint32_t)MAKE_64BIT_MASK(low, (high) - (low) + 1))
#endif
#include "tern_event_log.h"
#include "tern_regs.h"
#include "tern_engine.h"
#include "tern_runner.h"

#define TYPE_TERN "tern"
OBJECT_DECLARE_SIMPLE_TYPE(TernState, TERN)

#define TERN_GONE_REGIONS 3     /* one over each BAR */

/* Work that tern_defer() postpones, in the order in which it is done. */
typedef enum TernDeferred {
    TERN_DEFERRED_RESET,
    TERN_DEFERRED_LAYOUT,
    TERN_DEFERRED_VM_STATE,
    TERN_DEFERRED_POWER,
    TERN_NUM_DEFERRED,
} TernDeferred;

typedef struct TernPcap TernPcap;
typedef struct TernWire TernWire;

/* An IOMMU region of the DMA address space and our notifier on it. */
typedef struct TernIommu {
    struct TernState *dev;
    MemoryRegion *mr;
    hwaddr offset;              /* DMA address of the region's address 0 */
    bool notified;              /* the IOMMU supports notifiers */
    IOMMUNotifier notifier;
    QLIST_ENTRY(TernIommu) next;
} TernIommu;

struct TernState {
    PCIDevice parent_obj;

    /* Properties. */
    NICConf conf;
    TernProperties properties;
    CharBackend wire_chr;
    char *mutation;             /* in a test build only */
    char *faults;               /* initial rules; later the engine has them */
    int icrc;                   /* TERN_ICRC_* */
    bool removed;               /* written under the BQL */
    uint32_t port_speed;        /* Mbit/s; 0: as configured; under the BQL */

    /* Created at realize. */
    MemoryRegion regs;
    MemoryRegion uar;
    MemoryRegion dm;
    MemoryRegion gone[TERN_GONE_REGIONS];
    NICState *nic;
    TernWire *wire;             /* NULL: frames go to the nic's peer */
    TernPcap *pcap;
    int events_fd;              /* until passed to the runner */
    Notifier events_exit;
    VMChangeStateEntry *vm_state;
    TernEngine *engine;
    struct rcu_head rcu;        /* delays finalize() after exit() */
    TernRunner *runner;
    QEMUBH *bh;                 /* for TERN_CALL_DELIVER */
    QEMUBH *rx_bh;              /* for TERN_CALL_TAKE_FRAMES */
    QEMUTimer *timers[TERN_NUM_TIMERS];
    QEMUBH *deferred_bh;        /* does what tern_defer() postponed */
    bool started;               /* from realize() to exit() */

    /* During a migration: the state of the engine. */
    uint32_t state_len;
    uint8_t *state;

    /* Under the BQL. */
    bool in_map;                /* translating, with the engine lock */
    unsigned long deferred;     /* bits: TernDeferred */
    bool vm_running;

    /* Under the engine lock; written under the BQL too. */
    bool awake;                 /* power state D0 */
    bool bus_master;            /* PCI_COMMAND lets us do DMA */
    /* RAM that the engine accesses without tern_dma_map(). */
    MemoryRegionCache known[TERN_MAX_RAM];
    unsigned num_known;

    /* DMA address space, under the BQL. */
    MemoryListener listener;
    QLIST_HEAD(, TernIommu) iommus;
    uint64_t stale_start;       /* invalidate pending; empty: start > last */
    uint64_t stale_last;
    bool ram_changed;           /* update of known RAM pending */
};

/* tern.c */

/*
 * Functions that need the engine lock call it first. Returns false if the
 * caller may take the lock. Otherwise the device stops DMA at once, and the
 * caller returns: it is called again once the lock is free. With the BQL.
 */
bool tern_defer(TernState *s, TernDeferred what);

/* tern-dma.c */

/* TernHostOps.map and .unmap; opaque is the TernState. */
void *tern_dma_map(void *opaque, uint64_t addr, uint64_t *len, bool is_write);
void tern_dma_unmap(void *opaque, void *ptr, uint64_t len, bool is_write,
                    uint64_t written);
/* TernHostOps.dm_written and .ram_written. */
void tern_dm_written(void *opaque, void *ptr, uint64_t len);
void tern_ram_written(void *opaque, void *ptr, uint64_t len);
/* Tracks changes of the DMA address space until tern_dma_stop(). */
void tern_dma_start(TernState *s);
void tern_dma_stop(TernState *s);
/* Notifies the engine of changes; with the BQL held. */
void tern_dma_changed(TernState *s);
/* The engine knows no RAM any more; after tern_dma_stop(). */
void tern_dma_forget(TernState *s);

/* tern-faults.c; all with the BQL held */

void tern_faults_class_init(ObjectClass *klass);
/* Sets the initial rules of a new engine. Returns false on error. */
bool tern_faults_apply(TernState *s, Error **errp);
/* Called once the BARs exist, and before they are destroyed. */
void tern_faults_start(TernState *s);
void tern_faults_stop(TernState *s);

/* tern-run.c; all with the BQL held */

/* The machine was started or stopped (TernState.vm_running). */
void tern_vm_changed(TernState *s);
/* The shared wire came up or went down. */
void tern_wire_changed(TernState *s);
/* The shared wire has frames, or space again. */
void tern_wire_moved(TernState *s);

/* Creates the runner, the net client and the timers, and starts the worker. */
void tern_start(TernState *s);
/* Reverts tern_start() after tern_runner_stop(); engine and runner stay. */
void tern_stop(TernState *s);

/* tern-wire.c */

#define TERN_WIRE_FRAME_MAX 10240   /* bytes */

/* Creates a wire to a peer that is reached through a unix socket. */
TernWire *tern_wire_open(TernState *s, CharBackend *chr);
/* Connects the wire. */
void tern_wire_start(TernWire *w);
void tern_wire_close(TernWire *w);
bool tern_wire_is_up(const TernWire *w);
/*
 * Sends a frame. Returns false if it does not fit; tern_wire_moved() is called
 * when there is space. While the link is down the frame is lost. Called by one
 * thread at a time, which holds the BQL or the engine lock.
 */
bool tern_wire_put(TernWire *w, const void *data, uint32_t len);
/* Returns the next frame, valid until the next call, or NULL. With the BQL. */
const void *tern_wire_get(TernWire *w, uint32_t *len);
/*
 * Releases the space of frames taken to the peer. Returns true if no frame has
 * arrived meanwhile; tern_wire_moved() is then called when one does. With the
 * BQL.
 */
bool tern_wire_idle(TernWire *w);

/* tern-pcap.c */

/*
 * Creates a capture file (nanosecond pcap, Ethernet) of at most limit bytes; 0
 * for no limit. Returns NULL and sets *errp on failure. The file is complete
 * 100 ms after a frame, at VM stop and at exit.
 */
TernPcap *tern_pcap_open(const char *path, uint64_t limit, Error **errp);
/* The limit was reached: the file is complete and closed. Any thread. */
bool tern_pcap_is_full(TernPcap *p);
/* Adds a frame; time is the device clock in ns. Any thread. */
void tern_pcap_frame(TernPcap *p, uint64_t time, const void *data, size_t len);
/* Writes buffered frames, and relates the device clock to wall time. */
void tern_pcap_sync(TernPcap *p);
void tern_pcap_close(TernPcap *p);

/*
 * tern-events.c; with the BQL held. Without the property "events" these do
 * nothing.
 */

/* Creates the file. Returns false and sets *errp on failure. */
bool tern_events_open(TernState *s, Error **errp);
/* Gives the file to the runner, before the worker starts. */
void tern_events_start(TernState *s);
/* Writes the events so far, and relates the device clock to wall time. */
void tern_events_sync(TernState *s);
/* The runner has closed the file; any thread. error: errno, 0 at the limit. */
void tern_events_ended(TernState *s, int error);
/* After tern_runner_stop(), or if the device was not realized. */
void tern_events_close(TernState *s);

#endif /* HW_TERN_TERN_H */
