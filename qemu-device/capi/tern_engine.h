/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine for QEMU, which is C: the calls of a host, and the functions that
 * it must provide. C++ uses engine/control/device.h.
 *
 * Threads: the engine has none and takes no lock. The host serialises all calls
 * on one engine, except for reading a batch that it has taken
 * (tern_engine_effects_frames(), _frame() and _vectors()). A received frame is
 * delivered to its QP or queue at once; other work that inputs cause waits for
 * tern_engine_run(). The engine collects effects (frames, interrupts), and
 * tern_engine_take_effects() hands them over, so that the host can act on them
 * without its lock.
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
   * host address, or NULL if addr is not RAM. May shorten *len (never to 0).
   * is_write: the device is going to store. Several maps may exist at a time.
   */
  void *(*map)(void *opaque, uint64_t addr, uint64_t *len, bool is_write);
  /* Ends a map. The device stored to its first `written` bytes. */
  void (*unmap)(void *opaque, void *ptr, uint64_t len, bool is_write, uint64_t written);
  /* Monotonic device clock in ns. */
  uint64_t (*now)(void *opaque);
  /* 64 random bits, for the variants of keys. */
  uint64_t (*random)(void *opaque);
  /* The device has stored to len bytes of dm_storage. May be NULL. */
  void (*dm_written)(void *opaque, void *ptr, uint64_t len);
  /* The same for memory passed to tern_engine_set_ram(). May be NULL. */
  void (*ram_written)(void *opaque, void *ptr, uint64_t len);
} TernHostOps;

/* len bytes of DMA address space from addr on, accessible at ptr. */
typedef struct TernRam {
  uint64_t addr;
  uint64_t len;
  void *ptr;
} TernRam;

/* Limit of pieces that tern_engine_set_ram() takes. */
#define TERN_MAX_RAM 4

/*
 * The values of the properties that users set. tern_property() has their names,
 * types, defaults and ranges. A text may be NULL: its default.
 */
typedef struct TernProperties {
  uint64_t dm_size;
  uint64_t uar_size;
  uint64_t max_qp;
  uint64_t max_cq;
  uint64_t max_mr;
  uint64_t max_mw;
  uint64_t tm_tags;
  uint64_t eth_queues;
  uint64_t max_pages;
  uint64_t vectors;
  uint64_t mtu;
  uint64_t speed;
  uint64_t pcap_limit;
  uint64_t events_limit;
  char *mw_type;
  char *congestion;
  char *pcap;
  char *events;
  bool odp;
  bool poll;
} TernProperties;

typedef enum TernPropertyType {
  TERN_PROPERTY_NUMBER, /* uint64_t */
  TERN_PROPERTY_SIZE,   /* uint64_t; users may write K, M and G */
  TERN_PROPERTY_SWITCH, /* bool */
  TERN_PROPERTY_CHOICE, /* char *: one of a few words */
  TERN_PROPERTY_TEXT,   /* char * */
  TERN_NUM_PROPERTY_TYPES,
} TernPropertyType;

typedef struct TernProperty {
  const char *name;
  const char *help; /* with the range of a number */
  TernPropertyType type;
  uint64_t initial; /* default of a number, size or switch */
  const char *text; /* default of a choice or text, or NULL */
  ptrdiff_t offset; /* in TernProperties; negative: the host has the value */
} TernProperty;

/* Returns property i, counted from 0; NULL after the last one. */
const TernProperty *tern_property(size_t i);
/* Returns the property of this name, or NULL. */
const TernProperty *tern_property_named(const char *name);
/*
 * Checks all values. If one is out of range, returns false and writes the
 * property's name and range to error (len bytes, may be NULL if len is 0).
 */
bool tern_properties_check(const TernProperties *p, char *error, size_t len);

typedef struct TernConfig {
  const TernProperties *properties;
  void *dm_storage; /* dm_size bytes of the host, also in BAR4 */
  uint8_t mac[6];
  bool capture; /* also collect looped back and received frames */
} TernConfig;

/*
 * Returns NULL if a property is out of range, dm_storage or the address is
 * missing, or memory runs out.
 */
TernEngine *tern_engine_new(const TernConfig *config, const TernHostOps *ops, void *opaque);
void tern_engine_free(TernEngine *e);

/*
 * BAR0 below the MSI-X table, and BAR2. The host has checked that an access has
 * 32 bits.
 */
uint32_t tern_engine_reg_read(TernEngine *e, uint32_t offset);
void tern_engine_reg_write(TernEngine *e, uint32_t offset, uint32_t value);
uint32_t tern_engine_uar_read(TernEngine *e, uint64_t offset);
void tern_engine_doorbell(TernEngine *e, uint64_t offset, uint32_t value);

/*
 * Passes a frame from the wire, without FCS. Its bytes are used only during the
 * call. Like other adapters, the Ethernet function drops and counts a frame for
 * which it has no buffer: holding it back would also hold back RoCE frames
 * after it.
 */
void tern_engine_receive(TernEngine *e, const void *frame, size_t len);
/*
 * The same for a burst of frames: it may complete frames only in
 * tern_engine_end_burst(), which must be called before the lock is dropped.
 * Returns the cost of the frame in bytes, at least len. One frame may have many
 * receivers, so the caller bounds a burst by this.
 */
uint64_t tern_engine_receive_more(TernEngine *e, const void *frame, size_t len);
void tern_engine_end_burst(TernEngine *e);

void tern_engine_set_link(TernEngine *e, bool up);
/*
 * Cached mappings of [addr, addr + len) are stale (vIOMMU unmap, new memory
 * layout).
 */
void tern_engine_dma_invalidate(TernEngine *e, uint64_t addr, uint64_t len);
/*
 * Replaces the RAM that the engine accesses without map(): n pieces that do not
 * overlap, at most TERN_MAX_RAM. Nothing may be mapped during the call.
 */
void tern_engine_set_ram(TernEngine *e, const TernRam *ram, size_t n);
/* Same as TERN_CTRL_RESET; for FLR and bus reset. */
void tern_engine_reset(TernEngine *e);

/*
 * Fault injection: Documentation/faults.rst has the grammar. Replaces all
 * rules, or adds or removes some; an empty text removes all. If the text is
 * wrong, returns false, changes nothing, and writes the reason to error (len
 * bytes, may be NULL if len is 0).
 */
bool tern_engine_set_faults(TernEngine *e, const char *text, char *error, size_t len);
/*
 * Writes the rules, and how often each has matched and was applied, to buf,
 * truncated to len bytes including a NUL. Returns the length of the whole text,
 * without the NUL.
 */
size_t tern_engine_get_faults(TernEngine *e, char *buf, size_t len);

typedef enum TernIcrcMode {
  TERN_ICRC_CHECK, /* frames with a wrong ICRC are dropped, counted */
  TERN_ICRC_WARN,  /* ... are counted and accepted */
  TERN_ICRC_OFF,   /* the ICRC is not checked */
} TernIcrcMode;

void tern_engine_set_icrc_mode(TernEngine *e, TernIcrcMode mode);
/* Replaces TernConfig.capture. */
void tern_engine_set_capture(TernEngine *e, bool capture);

/*
 * Runs expired timers, admin commands and about budget bytes of transport work
 * (a packet counts its bytes plus a fixed cost). Returns true if more is left,
 * or if the engine polls queues: software rings no doorbell for them, so the
 * host must keep calling.
 */
bool tern_engine_run(TernEngine *e, uint32_t budget);
/*
 * Allows the engine, from this time of the device clock (ns) on, to poll send
 * and Ethernet transmit queues whose software rings often, so that the software
 * need not ring.
 * UINT64_MAX, the initial value, forbids it. Allow it only if tern_engine_run()
 * is called again soon after it returned true. The call ends the polling of all
 * queues; the next run checks them once more.
 */
void tern_engine_allow_polling(TernEngine *e, uint64_t from);
/*
 * Polls these queues: cheaper than tern_engine_run(), for use between two calls
 * of it. Returns false while tern_engine_run() would only handle inputs and
 * timers, and returns true also once no queue is polled any more.
 */
bool tern_engine_poll(TernEngine *e);

/*
 * Returns the effects collected so far, or NULL if there are none. The caller
 * owns them until tern_engine_effects_free(), which recycles their memory. Both
 * functions must be serialised with the other calls on the engine; the
 * functions that read a batch need not.
 */
TernEffects *tern_engine_take_effects(TernEngine *e);
void tern_engine_effects_free(TernEngine *e, TernEffects *fx);

typedef struct TernFrame {
  TernEffects *batch;  /* that the frame belongs to */
  const uint8_t *data; /* whole Ethernet frame, without FCS */
  uint32_t len;
  bool to_wire; /* false: seen by the capture tap only */
  bool shown;   /* false: not seen by the capture tap */
  /*
   * Device clock in ns when it was created; of a RoCE frame without capture,
   * at most the work of some packets earlier.
   */
  uint64_t time;
} TernFrame;

size_t tern_engine_effects_frames(const TernEffects *fx);
TernFrame tern_engine_effects_frame(const TernEffects *fx, size_t i);
/* Bit v of word v / 64: raise vector v. words: TERN_MAX_VECTORS / 64 = 2. */
const uint64_t *tern_engine_effects_vectors(const TernEffects *fx);

/*
 * Keeps the frames of a batch valid after tern_engine_effects_free(), until
 * release has been called as often as hold: another thread may read a frame in
 * place. The caller of hold owns the batch. Returns false if TERN_MAX_HELD
 * batches of the engine are held already, so that a slow reader cannot take
 * more memory. release may be called by any thread, and after
 * tern_engine_free().
 */
#define TERN_MAX_HELD 32
bool tern_engine_effects_hold(TernEffects *fx);
void tern_engine_effects_release(TernEffects *fx, uint32_t holds);

/*
 * Device clock at which tern_engine_run() is due for a timer, or earlier;
 * UINT64_MAX for none. Call it after each run.
 */
uint64_t tern_engine_next_deadline(const TernEngine *e);

/*
 * Starts the event log: the engine writes events as records of struct
 * tern_log_event (firmware-if/tern_event_log.h) to a ring. Events that find the
 * ring full are lost, and counted. records: a power of two, at least 2; 0 ends
 * the log. Returns false if memory runs out.
 */
bool tern_engine_log_events(TernEngine *e, size_t records);
/*
 * The reader of the log: one thread at a time, which need not be serialised
 * with other calls, except with tern_engine_log_events() and
 * tern_engine_free(). Returns the oldest *n records, which stay there until as
 * many are taken, and the number of lost events that no record has reported
 * yet.
 */
const void *tern_engine_events(const TernEngine *e, size_t *n);
void tern_engine_events_taken(TernEngine *e, size_t n);
uint64_t tern_engine_events_lost(const TernEngine *e);

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
 * The counters of QUERY_COUNTERS, by TERN_CNT_* (TERN_CNT_RDMA_NUM of them) and
 * TERN_ETH_CNT_* (TERN_ETH_CNT_NUM). A reset clears them.
 */
const uint64_t *tern_engine_rdma_counters(const TernEngine *e);
const uint64_t *tern_engine_eth_counters(const TernEngine *e);

/*
 * For tests, in a build of the engine with TERN_MUTATIONS: switches one rule of
 * memory windows off and all others on; "" switches all on. Resets do not
 * change that. Returns false, and changes nothing, if there is no such rule or
 * the build has no mutations.
 */
bool tern_engine_set_mutation(TernEngine *e, const char *rule);
/*
 * Returns the name of rule i, counted from 0; NULL after the last one, and in a
 * build without mutations.
 */
const char *tern_engine_mutation(size_t i);

#ifdef __cplusplus
}
#endif

#endif /* TERN_ENGINE_H */
