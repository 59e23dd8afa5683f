/*
 * tern: a RoCEv2 host channel adapter, as a PCI Express function.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The device itself is the engine behind tern_engine.h; these files give it a
 * PCI function, guest memory, a wire, interrupts, time and a thread:
 *   tern.c       properties, PCI function, registers, reset
 *   tern-dma.c   guest memory by DMA address
 *   tern-faults.c  faults on demand
 *   tern-run.c   who runs the engine when, and what becomes of its effects
 *   tern-poll.c  send queues that the worker polls
 *   tern-wire.c  a wire in memory shared with another QEMU
 *   tern-pcap.c  the capture tap
 *
 * Locks: the BQL is taken before TernState.lock, never after it. The engine is
 * called with TernState.lock held and calls back into tern-dma.c, clock and
 * random numbers, none of which may take the BQL. What may (interrupts, the net
 * layer) happens after the lock is dropped, in a thread that holds the BQL. The
 * lock of TernPcap is a leaf.
 */

#ifndef HW_TERN_TERN_H
#define HW_TERN_TERN_H

#include "qemu/queue.h"
#include "qemu/thread.h"
#include "qemu/timer.h"
#include "chardev/char-fe.h"
#include "exec/memory.h"
#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "qom/object.h"
#include "system/runstate.h"

/* The contract leaves these two to its includer; BIT() is QEMU's. */
#include "qemu/bitops.h"
#ifndef GENMASK
#define GENMASK(high, low) ((uint32_t)MAKE_64BIT_MASK(low, (high) - (low) + 1))
#endif
#include "tern_regs.h"
#include "tern_engine.h"

#define TYPE_TERN "tern"
OBJECT_DECLARE_SIMPLE_TYPE(TernState, TERN)

#define TERN_VECTOR_WORDS (TERN_MAX_VECTORS / 64)

#define TERN_GONE_REGIONS 3     /* one over each BAR */

/* Doorbells that wait for the worker to look; a power of two. */
#define TERN_BELLS      64

typedef struct TernPcap TernPcap;
typedef struct TernWire TernWire;

typedef struct TernBell {
    uint64_t offset;
    uint32_t value;
} TernBell;

/* Effects on their way out; the order of the lists is the order of the wire. */
typedef struct TernBatch {
    TernEffects *fx;
    size_t frame;               /* the next to be sent */
    uint64_t bytes;             /* of its frames for the wire */
    uint32_t generation;        /* of the device that made it */
    QSIMPLEQ_ENTRY(TernBatch) next;
} TernBatch;

typedef QSIMPLEQ_HEAD(, TernBatch) TernBatchList;

/* An IOMMU region of the DMA address space and our notifier on it. */
typedef struct TernIommu {
    struct TernState *dev;
    MemoryRegion *mr;
    hwaddr offset;              /* DMA address of the region's address 0 */
    bool notified;              /* the IOMMU takes notifiers */
    IOMMUNotifier notifier;
    QLIST_ENTRY(TernIommu) next;
} TernIommu;

struct TernState {
    PCIDevice parent_obj;

    /* Properties. */
    NICConf conf;
    uint64_t dm_size;
    uint64_t uar_size;
    uint32_t max_qp;
    uint32_t max_cq;
    uint32_t max_mr;
    uint32_t max_mw;
    uint64_t max_pages;
    uint32_t num_vectors;
    uint32_t mtu;
    uint32_t speed;
    char *mw_type;
    CharBackend wire_chr;
    char *pcap_path;
    uint64_t pcap_limit;
    bool poll;                  /* may poll busy send queues */
    char *mutation;             /* of a test build only */
    char *faults;               /* as created; later the engine has them */
    int icrc;                   /* TERN_ICRC_* */
    bool removed;               /* written under the BQL */

    /* Made at realize. */
    MemoryRegion regs;
    MemoryRegion uar;
    MemoryRegion dm;
    MemoryRegion gone[TERN_GONE_REGIONS];
    NICState *nic;
    TernWire *wire;             /* NULL: frames go to the nic's peer */
    TernPcap *pcap;
    VMChangeStateEntry *vm_state;
    QEMUBH *bh;
    QEMUBH *rx_bh;              /* more frames lie on the shared wire */
    QEMUTimer *timer;           /* the engine's next deadline, or earlier */
    QEMUTimer *rx_timer;        /* a received frame waits for a buffer */
    QEMUTimer *tx_timer;        /* the peer takes no frame */
    QemuThread worker;
    bool started;               /* the worker and all the above exist */

    QemuMutex lock;
    unsigned waiters;           /* BQL holders waiting for the lock; atomic */
    bool busy;                  /* the worker is at it and will look for bells */
    /* Rung while it is; put by a BQL holder, taken with the lock. */
    TernBell bells[TERN_BELLS];
    unsigned bells_in;          /* free running */
    unsigned bells_out;

    /* The worker's. */
    int schedstat;              /* its own, of the kernel; -1: there is none */
    uint64_t ran_ns;            /* as that said when the worker asked last */
    uint64_t waited_ns;
    uint64_t window_ran;        /* of these, not judged yet */
    uint64_t window_waited;
    uint64_t contention_pause;  /* ns without polling after contention */
    unsigned looks;

    /* Under the lock. */
    TernEngine *engine;
    QemuCond wake;              /* what the idle worker waits for */
    bool worker_idle;
    bool stopping;              /* the worker shall end */
    bool work;                  /* the engine has more to do at once */
    bool running;               /* the VM runs; written under the BQL too */
    bool awake;                 /* power state D0; written under the BQL too */
    bool bus_master;            /* PCI_COMMAND lets us do DMA */
    bool bql_only;              /* no slice without the BQL: see tern-dma.c */
    bool may_poll;              /* what the engine was told */
    uint64_t armed;             /* when timer fires, UINT64_MAX for never */
    uint32_t generation;        /* resets so far; written under the BQL too */
    uint64_t vectors[TERN_VECTOR_WORDS]; /* to raise, not seen by the BQL yet */
    /* RAM that the engine reaches without asking; written under the BQL too. */
    MemoryRegionCache known[TERN_MAX_RAM];
    unsigned num_known;
    TernBatchList made;         /* not seen by the BQL yet */
    uint64_t backlog;           /* bytes of all batches not recycled yet */

    /* Under the BQL. */
    uint64_t raise[TERN_VECTOR_WORDS];
    TernBatchList out;          /* to be sent */
    TernBatchList spent;        /* sent, to be given back to the engine */
    bool delivering;
    bool due;                   /* the timer fired, the BH has to run */
    bool tx_blocked;            /* the net layer holds a frame of ours */
    bool tx_lost;               /* for so long that we drop what follows */
    bool rx_waiting;            /* the net layer holds a frame for us */

    /* DMA address space, under the BQL. */
    MemoryListener listener;
    QLIST_HEAD(, TernIommu) iommus;
    uint64_t stale_start;       /* of this transaction; empty: start > last */
    uint64_t stale_last;
    bool ram_changed;           /* in this transaction */
};

/* tern-dma.c */

/* TernHostOps.map and .unmap; opaque is the TernState. */
void *tern_dma_map(void *opaque, uint64_t addr, uint64_t *len, bool is_write);
void tern_dma_unmap(void *opaque, void *ptr, uint64_t len, bool is_write,
                    uint64_t written);
/* TernHostOps.dm_written and .ram_written. */
void tern_dm_written(void *opaque, void *ptr, uint64_t len);
void tern_ram_written(void *opaque, void *ptr, uint64_t len);
/* Follows the changes of the DMA address space from now on, until stop. */
void tern_dma_start(TernState *s);
void tern_dma_stop(TernState *s);

/* tern-faults.c; all with the BQL held */

void tern_faults_class_init(ObjectClass *klass);
/* Gives the new engine its rules. */
bool tern_faults_apply(TernState *s, Error **errp);
/* When the BARs exist, and before they go. */
void tern_faults_start(TernState *s);
void tern_faults_stop(TernState *s);

/* tern-poll.c */

/* With the BQL, without the lock: whether queues may be polled may have changed. */
void tern_poll_allow(TernState *s);

/* By the worker, with the lock */

/* Poll until there is other work to do. */
void tern_poll_queues(TernState *s);
/* While it works and before it sleeps: stop polling if there is contention. */
void tern_poll_judge(TernState *s);
/* After it slept. */
void tern_poll_wake(TernState *s);
/* Without the lock: when the worker begins, and when it ends. */
void tern_poll_begin(TernState *s);
void tern_poll_end(TernState *s);

/* tern-run.c; all with the BQL held, but for the first */

/* With the lock: a doorbell waits for the worker. */
bool tern_is_rung(TernState *s);

/* A doorbell: taken by the worker if that is at work, else there and then. */
void tern_doorbell(TernState *s, uint64_t offset, uint32_t value);
/* Takes the lock before the worker's next slice. */
void tern_lock(TernState *s);
/* Drops it and lets the worker go on if there is work. */
void tern_unlock(TernState *s);
/* With the lock: does what the inputs so far ask for, within bounds. */
void tern_run(TernState *s);
/* Drops the lock and delivers what the engine made, or has the BH do it. */
void tern_leave(TernState *s);
/* With the lock: the same for callers from which nothing may be delivered. */
void tern_leave_quietly(TernState *s);
/* With the lock, after a reset: forgets everything on its way out. */
void tern_drop_effects(TernState *s);

/* The shared wire is whole or cut; there are frames or there is room on it. */
void tern_wire_changed(TernState *s);
void tern_wire_moved(TernState *s);

/* Makes the net client, the timers and the worker. */
void tern_start(TernState *s);
/* Undoes it; no call into the engine comes from here afterwards. */
void tern_stop(TernState *s);

/* tern-wire.c */

#define TERN_WIRE_FRAME_MAX 10240   /* bytes */

/* A wire whose other end is found through a unix socket; start() looks for it. */
TernWire *tern_wire_open(TernState *s, CharBackend *chr);
void tern_wire_start(TernWire *w);
void tern_wire_close(TernWire *w);
bool tern_wire_is_up(const TernWire *w);
/*
 * False: there is no room for the frame, and tern_wire_moved() will be called.
 * On a wire that is cut it is lost. By one thread at a time, which has the BQL
 * or TernState.lock.
 */
bool tern_wire_put(TernWire *w, const void *data, uint32_t len);
/* The next frame, until the next call; NULL: there is none. With the BQL. */
const void *tern_wire_get(TernWire *w, uint32_t *len);
/*
 * Gives room to the other end. True: nothing has come meanwhile, and
 * tern_wire_moved() will be called when it does. With the BQL.
 */
bool tern_wire_rest(TernWire *w);

/* tern-pcap.c */

/*
 * Creates a capture file (nanosecond pcap, Ethernet) of at most limit bytes, 0
 * for any number. NULL and *errp if that fails. The file is whole 100 ms after
 * a frame, at VM stop and at exit.
 */
TernPcap *tern_pcap_open(const char *path, uint64_t limit, Error **errp);
/* The limit was reached: the file is whole and closed. Any thread. */
bool tern_pcap_is_full(TernPcap *p);
/* Adds a frame; time is the device clock in ns. Any thread. */
void tern_pcap_frame(TernPcap *p, uint64_t time, const void *data, size_t len);
/* Writes out what is held back, and compares device clock and wall time. */
void tern_pcap_sync(TernPcap *p);
void tern_pcap_close(TernPcap *p);

#endif /* HW_TERN_TERN_H */
