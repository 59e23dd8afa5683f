/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine's only C surface: what a host (QEMU, a vfio-user server, a test)
 * calls, and what it must provide.
 *
 * Threads: the engine has none and takes no lock. The host serialises all calls
 * on one engine, except tern_engine_effects_*() on a batch already taken. Inputs
 * only enqueue; tern_engine_run() does the work; effects (frames, interrupts,
 * the next deadline) are collected and handed out by tern_engine_take_effects(),
 * so that the host can act on them after it dropped its lock.
 */
#ifndef TERN_ENGINE_H
#define TERN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TernEngine TernEngine;
typedef struct TernEffects TernEffects;

/* Called by the engine inside the calls below, on the calling thread. */
typedef struct TernHostOps {
    /*
     * Makes *len bytes of DMA address space at addr accessible and returns the
     * host address, or NULL when addr is not RAM. May shorten *len (never to 0).
     * is_write: the device is going to store. Concurrent maps are allowed.
     */
    void *(*map)(void *opaque, uint64_t addr, uint64_t *len, bool is_write);
    /* Ends a map; the first written bytes of it were stored to. */
    void (*unmap)(void *opaque, void *ptr, uint64_t len, bool is_write,
                  uint64_t written);
    /* Monotonic device clock in ns. */
    uint64_t (*now)(void *opaque);
    /* 64 random bits: first PSNs of nothing, key variants, tags. */
    uint64_t (*random)(void *opaque);
    /* The device stored to len bytes of dm_storage. NULL: nobody needs to know. */
    void (*dm_written)(void *opaque, void *ptr, uint64_t len);
    /* The same of memory that tern_engine_set_ram() told of. */
    void (*ram_written)(void *opaque, void *ptr, uint64_t len);
} TernHostOps;

/* len bytes of DMA address space from addr on that lie at ptr. */
typedef struct TernRam {
    uint64_t addr;
    uint64_t len;
    void *ptr;
} TernRam;

/* Pieces that tern_engine_set_ram() takes. */
#define TERN_MAX_RAM 4

typedef struct TernConfig {
    uint64_t dm_size;        /* bytes, multiple of 64 KiB; 0: none */
    void *dm_storage;        /* dm_size bytes, the host's; BAR4 shows the same */
    uint64_t uar_bar_size;   /* bytes of BAR2 */
    uint32_t max_qp;
    uint32_t max_cq;
    uint32_t max_mr;
    uint32_t max_mw;
    uint32_t num_vectors;    /* MSI-X vectors, 2..TERN_MAX_VECTORS */
    uint32_t max_mtu;        /* of the wire, 1500..9216 */
    uint32_t link_speed;     /* Mbit/s, as told to software */
    uint8_t mac[6];
    uint8_t mw_type_2a;      /* type 2 windows are 2A, not 2B */
    uint8_t capture;         /* collect what turns round inside, and what comes, too */
    uint64_t max_pages;      /* page list entries of all objects, 8 bytes each; 0: the default */
} TernConfig;

/* NULL: a field is out of range or no memory. */
TernEngine *tern_engine_new(const TernConfig *config, const TernHostOps *ops,
                            void *opaque);
void tern_engine_free(TernEngine *e);

/* BAR0 below the MSI-X table and BAR2. Only 32-bit accesses; size checked by the host. */
uint32_t tern_engine_reg_read(TernEngine *e, uint32_t offset);
void tern_engine_reg_write(TernEngine *e, uint32_t offset, uint32_t value);
uint32_t tern_engine_uar_read(TernEngine *e, uint64_t offset);
void tern_engine_doorbell(TernEngine *e, uint64_t offset, uint32_t value);

/* A frame from the wire, without FCS. The bytes are used only during the call. */
void tern_engine_receive(TernEngine *e, const void *frame, size_t len);
/*
 * Whether the host may hand over a frame. Always: what the Ethernet function has no
 * buffer for is dropped and counted, as adapters do, because holding it back would
 * hold back the RoCE frames behind it too.
 */
bool tern_engine_can_receive(TernEngine *e);

void tern_engine_set_link(TernEngine *e, bool up);
/* Cached mappings of [addr, addr + len) are stale (vIOMMU unmap, new memory layout). */
void tern_engine_dma_invalidate(TernEngine *e, uint64_t addr, uint64_t len);
/*
 * RAM that the engine reads and writes without map() from now on, until the next call
 * tells of other: n pieces that do not overlap, at most TERN_MAX_RAM.
 */
void tern_engine_set_ram(TernEngine *e, const TernRam *ram, size_t n);
/* Same as TERN_CTRL_RESET; for FLR and bus reset. */
void tern_engine_reset(TernEngine *e);

/*
 * Faults on demand: Documentation/faults.rst has the grammar. Replaces all rules,
 * the empty text by none. False: the text is wrong, nothing has changed, and error
 * (len bytes, may be NULL when len is 0) says why.
 */
bool tern_engine_set_faults(TernEngine *e, const char *text, char *error,
                            size_t len);
/*
 * Writes the rules with what each has matched and done to buf, as much as fits in
 * len bytes with a NUL at the end; returns the length of the whole, without NUL.
 */
size_t tern_engine_get_faults(TernEngine *e, char *buf, size_t len);

typedef enum TernIcrcMode {
    TERN_ICRC_CHECK,         /* frames with a wrong ICRC are dropped and counted */
    TERN_ICRC_WARN,          /* ... are counted, and taken */
    TERN_ICRC_OFF,           /* nobody looks */
} TernIcrcMode;

void tern_engine_set_icrc_mode(TernEngine *e, TernIcrcMode mode);

/*
 * Does up to budget bytes of transport work (a packet counts its bytes plus a
 * fixed cost), expired timers and admin commands. True when more is left, or while
 * the engine polls send queues: their software rings no doorbell, so the host keeps
 * calling.
 */
bool tern_engine_run(TernEngine *e, uint32_t budget);
/*
 * Allow the engine, from this time of the device clock (ns), to poll send queues
 * whose software rings often, so that the software need not ring. UINT64_MAX, the
 * initial value, forbids it. Allow it only if tern_engine_run() is called again soon
 * after it returned true. Queues that are polled at the moment stop being polled; the
 * next run looks at them once more.
 */
void tern_engine_allow_polling(TernEngine *e, uint64_t from);
/*
 * Look at the polled queues: cheaper than tern_engine_run(), for use between two
 * calls of it. False: tern_engine_run() has nothing to do but inputs and timers.
 */
bool tern_engine_look(TernEngine *e);

/*
 * The effects collected so far, or NULL when there are none; the caller owns
 * them until tern_engine_effects_free(), which recycles their memory and must be
 * serialised with the other calls. The others need no serialisation.
 */
TernEffects *tern_engine_take_effects(TernEngine *e);
void tern_engine_effects_free(TernEngine *e, TernEffects *fx);

typedef struct TernFrame {
    const uint8_t *data;     /* whole Ethernet frame, without FCS */
    uint32_t len;
    bool to_wire;            /* false: seen by the capture tap only */
    bool shown;              /* false: not seen by the capture tap */
    uint64_t time;           /* device clock when it was made, ns */
} TernFrame;

size_t tern_engine_effects_frames(const TernEffects *fx);
TernFrame tern_engine_effects_frame(const TernEffects *fx, size_t i);
/* Bit v of word v / 64: raise vector v. words: TERN_MAX_VECTORS / 64 = 2. */
const uint64_t *tern_engine_effects_vectors(const TernEffects *fx);

/* Device clock of the next expiry, UINT64_MAX for none. Ask after each run. */
uint64_t tern_engine_next_deadline(const TernEngine *e);

/* Statistics for traces and the monitor. */
typedef struct TernEngineInfo {
    uint32_t live_qps;
    uint32_t live_keys;
    uint64_t page_entries;
    uint64_t tx_packets;
    uint64_t rx_packets;
} TernEngineInfo;
void tern_engine_info(const TernEngine *e, TernEngineInfo *info);

/*
 * For tests, in a build of the engine with TERN_MUTATIONS: switches one rule of
 * memory windows off and every other on; "" switches all on. It outlives resets.
 * False, and nothing changes: no such rule, or a build without.
 */
bool tern_engine_set_mutation(TernEngine *e, const char *rule);
/* Name of rule i, counted from 0; NULL past the last one, and in a build without. */
const char *tern_engine_mutation(size_t i);

#ifdef __cplusplus
}
#endif

#endif /* TERN_ENGINE_H */
