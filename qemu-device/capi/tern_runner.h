/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The runner's C interface, for a host written in C. The runner decides when
 * and in which thread the engine runs, and delivers its effects.
 * runner/runner.h describes threads, locks and states; the functions here are
 * its members of the same name.
 *
 * The host serialises all calls, so that there is one host thread at a time (in
 * QEMU: the one that holds the big lock). Lock order: the host's lock, then the
 * engine lock, which is inside the runner.
 */
#ifndef TERN_RUNNER_H
#define TERN_RUNNER_H

#include "tern_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TernRunner TernRunner;

/* A call that the host thread has to make soon. */
typedef enum TernCall {
  TERN_CALL_DELIVER,     /* tern_runner_deliver() */
  TERN_CALL_TAKE_FRAMES, /* tern_runner_take_frames() */
  TERN_NUM_CALLS,
} TernCall;

typedef enum TernTimer {
  TERN_TIMER_ENGINE,   /* the engine's next deadline, or earlier */
  TERN_TIMER_PATIENCE, /* the wire has taken nothing for too long */
  TERN_NUM_TIMERS,
} TernTimer;

typedef enum TernSent {
  TERN_SENT_TAKEN, /* sent, or lost on the way */
  /* Taken, but tern_runner_resumed() is called before the next frame. */
  TERN_SENT_HELD,
  /* Not taken; tern_runner_resumed() is called when there is space. */
  TERN_SENT_BLOCKED,
} TernSent;

typedef enum TernEvent {
  TERN_EVENT_SLICE,   /* of the worker; whether there is more */
  TERN_EVENT_BLOCKED, /* frames of the batch that wait */
  TERN_EVENT_RESUMED,
  TERN_EVENT_LOST,       /* frames */
  TERN_EVENT_REFUSED,    /* a received frame; bytes */
  TERN_EVENT_CONTENTION, /* measured; ns running, ns waiting to run */
  TERN_EVENT_LOG_ENDED,  /* the event log; errno, or 0 at its limit */
} TernEvent;

/*
 * Called by the runner. [host]: in the host thread, without the engine lock,
 * and may call the runner again. [lock]: in any thread, with the engine lock;
 * must neither take the host's lock nor call the runner. [any]: either, or by
 * the worker without a lock.
 */
typedef struct TernRunnerOps {
  /* The device clock in ns. */
  uint64_t (*now)(void *opaque);                 /* [any] */
  void (*schedule)(void *opaque, TernCall call); /* [any] */
  /* [any] */
  void (*trace)(void *opaque, TernEvent event, uint64_t a, uint64_t b);
  void (*capture)(void *opaque, const TernFrame *frame); /* [lock] */
  /*
   * Calls tern_runner_expired() at this time; replaces an earlier one.
   */
  void (*arm)(void *opaque, TernTimer timer, uint64_t at); /* [host] */
  void (*disarm)(void *opaque, TernTimer timer);           /* [host] */
  void (*raise)(void *opaque, unsigned vector);            /* [host] */
  /*
   * With direct_send also [lock], by one thread at a time, and never returns
   * TERN_SENT_HELD.
   */
  TernSent (*send)(void *opaque, const TernFrame *frame); /* [host] */
  /* A frame that was refused may be offered again. */
  void (*receive_again)(void *opaque); /* [host] */
  /*
   * In the host thread: returns the next frame on the wire, valid until the
   * next call, or NULL.
   */
  const void *(*next_frame)(void *opaque, uint32_t *len); /* [lock] */
  /*
   * In the host thread: releases the space of frames taken to the peer. Returns
   * true if no frame has arrived meanwhile; the host then calls
   * tern_runner_take_frames() when one does.
   */
  bool (*wait_for_frames)(void *opaque); /* [lock] */
  /* In the worker's thread. */
  void (*worker_begins)(void *opaque);
  void (*worker_ends)(void *opaque);
} TernRunnerOps;

typedef struct TernRunnerConfig {
  bool poll;           /* the engine may poll busy send queues */
  bool direct_send;    /* send() takes no lock of the host */
  bool running;        /* the machine runs */
  unsigned processors; /* that our threads may use; polling needs two */
} TernRunnerConfig;

/* The runner does not own the engine, which must outlive it. */
TernRunner *tern_runner_new(TernEngine *e, const TernRunnerConfig *config, const TernRunnerOps *ops,
                            void *opaque);
/* Stops the worker if it runs. */
void tern_runner_free(TernRunner *r);
/* Returns false if no thread can be created. */
bool tern_runner_start(TernRunner *r);
/* Ends the worker; inputs do no work afterwards. */
void tern_runner_stop(TernRunner *r);

/*
 * ---- the event log ----
 * A file that is open for writing; the runner owns it from now on.
 */
typedef struct TernEventFile {
  int fd;
  uint64_t limit; /* bytes after which the log ends; 0 for none */
  uint64_t epoch; /* wall time in ns at 0 of the device clock */
  uint8_t clock;  /* TERN_LOG_CLOCK_* of firmware-if/tern_event_log.h */
  uint8_t mac[6];
  const char *name; /* of the adapter, or NULL */
} TernEventFile;

/* Before tern_runner_start(). Returns false without memory or a thread. */
bool tern_runner_log_events(TernRunner *r, const TernEventFile *file);
/* Earlier events are in the file when it returns. No effect without a log. */
void tern_runner_flush_events(TernRunner *r);
/* The same; the device clock has another epoch from here on. */
void tern_runner_set_event_epoch(TernRunner *r, uint64_t epoch);

/* ---- inputs ---- */

void tern_runner_doorbell(TernRunner *r, uint64_t offset, uint32_t value);
/*
 * Returns false if the frame is not taken; receive_again() then asks for it
 * again.
 */
bool tern_runner_receive(TernRunner *r, const void *frame, size_t len);
void tern_runner_take_frames(TernRunner *r);
/* The wire has space again. */
void tern_runner_resumed(TernRunner *r);
void tern_runner_set_link(TernRunner *r, bool up);
/* Mbit/s; 0: as configured. */
void tern_runner_set_speed(TernRunner *r, uint32_t mbps);
void tern_runner_set_running(TernRunner *r, bool running);
/* Called after set_host_only(), once memory can be accessed again. */
void tern_runner_update_polling(TernRunner *r);
/* present is false after a surprise removal: frames are lost. */
void tern_runner_set_present(TernRunner *r, bool present);
/*
 * The state of the device, while the machine is stopped: len bytes that the
 * caller frees with free(). If that fails, returns NULL and writes the reason to
 * error (error_len bytes).
 */
void *tern_runner_save(TernRunner *r, size_t *len, char *error, size_t error_len);
/*
 * Continues from the state of a device with the same properties, before the
 * machine runs. If the state is wrong, returns false, resets the device and
 * writes the reason to error (error_len bytes).
 */
bool tern_runner_load(TernRunner *r, const void *state, size_t len, char *error, size_t error_len);
void tern_runner_deliver(TernRunner *r);
void tern_runner_expired(TernRunner *r, TernTimer timer);

/* ---- for other calls to the engine ---- */

void tern_runner_lock(TernRunner *r);
/* Unlocks after calls that caused neither work nor effects. */
void tern_runner_unlock(TernRunner *r);
/* With the lock: does up to a slice of the work that inputs caused. */
void tern_runner_run(TernRunner *r);
/* Unlocks and delivers the effects. */
void tern_runner_unlock_and_deliver(TernRunner *r);
/* The same for callers that must not deliver anything themselves. */
void tern_runner_unlock_without_delivering(TernRunner *r);

/*
 * With the lock: resets the engine and drops all effects. Returns the number of
 * resets so far.
 */
uint32_t tern_runner_reset(TernRunner *r);
/*
 * With the lock; tern_runner_unlock_without_delivering() must follow. awake:
 * power state D0.
 */
void tern_runner_set_awake(TernRunner *r, bool awake);
/* Likewise. host_only: the engine runs in the host thread only. */
void tern_runner_set_host_only(TernRunner *r, bool host_only);

#ifdef __cplusplus
}
#endif

#endif /* TERN_RUNNER_H */
