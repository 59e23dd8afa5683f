/*
 * tern: who runs the engine when, and what becomes of its effects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An input (a register write, a doorbell, a frame, a deadline) comes in a
 * thread that holds the BQL. It takes the engine's lock and does up to a slice
 * of work there and then, so that a short message needs no other thread; what
 * is left goes to the worker, slice by slice. Whoever runs the engine collects
 * its effects; a thread with the BQL delivers them: the one that brought the
 * input, or the bottom half. Frames stay in order because they pass through one
 * list, TernState.made and then .out, and one thread at a time.
 */

#include "qemu/osdep.h"
#include "qemu/host-utils.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "net/net.h"
#include "system/runstate.h"
#include "tern.h"
#include "trace.h"

/* Bytes of transport work between two looks at who else wants the lock. */
#define TERN_SLICE          (64 * 1024)
/*
 * The same for the thread that brought the input: a message of 64 KiB and more
 * is done before another thread would have been woken for it.
 */
#define TERN_SLICE_INLINE   (256 * 1024)
/* The same while the peer is slow: admin commands and answers still get on. */
#define TERN_TRICKLE        (4 * 1024)
/* Bytes of frames on their way out: more are not sent under an MMIO access, */
#define TERN_TX_INLINE      (128 * 1024)
/* ... with so many the worker pauses, */
#define TERN_TX_SOFT        (1024 * 1024)
/* ... and frames that would make it more are lost. */
#define TERN_TX_HARD        (16 * 1024 * 1024)
/* A peer that takes nothing for so long is a cable that leads nowhere. */
#define TERN_TX_PATIENCE_NS (1000 * SCALE_MS)
/* A frame that the engine cannot take now is tried again so often. */
#define TERN_RX_RETRY_NS    (250 * SCALE_US)

/* With the lock. */
static bool tern_may_run(const TernState *s)
{
    return s->running && s->awake && !s->stopping;
}

/* With the lock: the worker has something to do and is free to do it. */
static bool tern_worker_may_run(const TernState *s)
{
    return s->work && tern_may_run(s) && !s->bql_only &&
           s->backlog < TERN_TX_SOFT;
}

/* With the lock: the batch's memory goes back to the engine. */
static void tern_free_batches(TernState *s, TernBatchList *list)
{
    TernBatch *batch;

    while ((batch = QSIMPLEQ_FIRST(list))) {
        QSIMPLEQ_REMOVE_HEAD(list, next);
        s->backlog -= batch->bytes;
        tern_engine_effects_free(s->engine, batch->fx);
        g_free(batch);
    }
}

void tern_lock(TernState *s)
{
    assert(bql_locked());
    qatomic_inc(&s->waiters);
    qemu_mutex_lock(&s->lock);
    qatomic_dec(&s->waiters);
    tern_free_batches(s, &s->spent);
}

void tern_unlock(TernState *s)
{
    /* If somebody else waits, their tern_unlock() wakes the worker. */
    if (s->worker_idle && tern_worker_may_run(s)) {
        qemu_cond_signal(&s->wake);
    }
    qemu_mutex_unlock(&s->lock);
}

/*
 * With the lock, any thread: takes the effects made so far out of the engine.
 * True if there is something to deliver.
 */
static bool tern_collect(TernState *s)
{
    TernEffects *fx = tern_engine_take_effects(s->engine);
    const uint64_t *vectors;
    TernBatch *batch;
    uint64_t bytes = 0;
    size_t i, n;

    if (!fx) {
        return false;
    }
    vectors = tern_engine_effects_vectors(fx);
    for (i = 0; i < TERN_VECTOR_WORDS; i++) {
        s->vectors[i] |= vectors[i];
    }
    n = tern_engine_effects_frames(fx);
    for (i = 0; i < n; i++) {
        TernFrame frame = tern_engine_effects_frame(fx, i);

        if (frame.shown) {
            tern_pcap_frame(s->pcap, frame.time, frame.data, frame.len);
        }
        bytes += frame.to_wire ? frame.len : 0;
    }
    if (!bytes || s->backlog + bytes > TERN_TX_HARD) {
        if (bytes) {
            trace_tern_tx_lost(s, n);
        }
        tern_engine_effects_free(s->engine, fx);
        return true;
    }
    batch = g_new(TernBatch, 1);
    *batch = (TernBatch) {
        .fx = fx,
        .bytes = bytes,
        .generation = s->generation,
    };
    QSIMPLEQ_INSERT_TAIL(&s->made, batch, next);
    s->backlog += bytes;
    return true;
}

static void *tern_worker(void *opaque)
{
    TernState *s = opaque;

    rcu_register_thread();
    qemu_mutex_lock(&s->lock);
    while (!s->stopping) {
        if (!tern_worker_may_run(s) || qatomic_read(&s->waiters)) {
            s->worker_idle = true;
            qemu_cond_wait(&s->wake, &s->lock);
            s->worker_idle = false;
            continue;
        }
        s->work = tern_engine_run(s->engine, TERN_SLICE);
        trace_tern_worker_slice(s, s->work);
        /* Deadlines that pass while we work are ours; see tern_finish(). */
        if (tern_collect(s) ||
            (!tern_worker_may_run(s) &&
             tern_engine_next_deadline(s->engine) < s->armed)) {
            qemu_bh_schedule(s->bh);
        }
    }
    qemu_mutex_unlock(&s->lock);
    rcu_unregister_thread();
    return NULL;
}

void tern_run(TernState *s)
{
    if (!tern_may_run(s)) {
        s->work = true;
    } else if (!tern_worker_may_run(s)) {
        s->work = tern_engine_run(s->engine, s->backlog < TERN_TX_SOFT ?
                                             TERN_SLICE_INLINE : TERN_TRICKLE);
    }
}

static void tern_raise(TernState *s)
{
    PCIDevice *dev = PCI_DEVICE(s);
    unsigned vector, i;

    for (i = 0; i < TERN_VECTOR_WORDS; i++) {
        while (s->raise[i]) {
            vector = i * 64 + ctz64(s->raise[i]);
            s->raise[i] &= s->raise[i] - 1;
            if (vector < s->num_vectors && msix_enabled(dev)) {
                trace_tern_irq(s, vector);
                msix_notify(dev, vector);
            }
        }
    }
}

/* The net layer is done with the frame that it had to hold. */
static void tern_sent(NetClientState *nc, ssize_t ret)
{
    TernState *s = qemu_get_nic_opaque(nc);

    trace_tern_tx_resumed(s);
    s->tx_blocked = false;
    s->tx_lost = false;
    timer_del(s->tx_timer);
    qemu_bh_schedule(s->bh);
}

/* The peer has let a second pass; what is queued and what follows is lost. */
static void tern_tx_timer(void *opaque)
{
    TernState *s = opaque;

    s->tx_lost = s->tx_blocked;
    qemu_bh_schedule(s->bh);
}

/* Sends what is left of the first batch. False if there is no need to go on. */
static bool tern_send_batch(TernState *s)
{
    NetClientState *nc = qemu_get_queue(s->nic);
    TernBatch *batch = QSIMPLEQ_FIRST(&s->out);
    size_t n;

    if (!batch || (s->tx_blocked && !s->tx_lost)) {
        return false;
    }
    n = tern_engine_effects_frames(batch->fx);
    while (s->out_frame < n && batch->generation == s->generation) {
        TernFrame frame;

        if (s->tx_lost) {
            trace_tern_tx_lost(s, n - s->out_frame);
            break;
        }
        frame = tern_engine_effects_frame(batch->fx, s->out_frame++);
        if (!frame.to_wire) {
            continue;
        }
        trace_tern_tx(s, frame.len);
        if (!qemu_send_packet_async(nc, frame.data, frame.len, tern_sent)) {
            trace_tern_tx_blocked(s, s->backlog);
            s->tx_blocked = true;
            timer_mod_ns(s->tx_timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                      TERN_TX_PATIENCE_NS);
            return false;
        }
    }
    QSIMPLEQ_REMOVE_HEAD(&s->out, next);
    QSIMPLEQ_INSERT_TAIL(&s->spent, batch, next);
    s->out_frame = 0;
    return true;
}

/*
 * With the BQL alone. A frame may come back at once (a hub), and find us here:
 * its effects are then delivered by the loop that is already under way.
 */
static void tern_deliver(TernState *s, bool frames)
{
    if (s->delivering || !s->running) {
        return;
    }
    s->delivering = true;
    do {
        tern_raise(s);
    } while (frames && tern_send_batch(s));
    tern_raise(s);
    s->delivering = false;
}

static void tern_finish(TernState *s, bool in_bh)
{
    uint64_t deadline = tern_engine_next_deadline(s->engine);
    /*
     * A deadline that has passed fires at once, again and again, as long as
     * nobody runs the engine: not while nothing may run, and not while the worker
     * is about to, which would have to fight this thread for the lock.
     */
    bool rearm = deadline < s->armed && tern_may_run(s) &&
                 !tern_worker_may_run(s);
    bool frames, throttled, again;
    unsigned i;

    tern_collect(s);
    for (i = 0; i < TERN_VECTOR_WORDS; i++) {
        s->raise[i] |= s->vectors[i];
        s->vectors[i] = 0;
    }
    QSIMPLEQ_CONCAT(&s->out, &s->made);
    if (rearm) {
        s->armed = deadline;
    }
    frames = in_bh || s->backlog <= TERN_TX_INLINE;
    throttled = s->work && s->backlog >= TERN_TX_SOFT;
    again = (s->work && s->bql_only && tern_may_run(s) && !throttled) ||
            (!in_bh && s->rx_waiting && tern_engine_can_receive(s->engine));
    tern_unlock(s);

    if (rearm) {
        timer_mod_ns(s->timer, MIN(deadline, INT64_MAX));
    }
    tern_deliver(s, frames);
    /* A worker that waits for the frames just sent hears of it from the BH. */
    if (again || !frames || (throttled && !QSIMPLEQ_EMPTY(&s->spent))) {
        qemu_bh_schedule(s->bh);
    }
}

void tern_leave(TernState *s)
{
    tern_finish(s, false);
}

void tern_leave_quietly(TernState *s)
{
    bool bh = tern_collect(s);

    bh |= tern_may_run(s) && ((s->work && s->bql_only) ||
          tern_engine_next_deadline(s->engine) < s->armed);
    tern_unlock(s);
    if (bh) {
        qemu_bh_schedule(s->bh);
    }
}

void tern_drop_effects(TernState *s)
{
    TernEffects *fx = tern_engine_take_effects(s->engine);

    if (fx) {
        tern_engine_effects_free(s->engine, fx);
    }
    tern_free_batches(s, &s->made);
    memset(s->vectors, 0, sizeof(s->vectors));
    memset(s->raise, 0, sizeof(s->raise));
    /* Disowns what is in s->out, which tern_deliver() may be working on. */
    s->generation++;
}

static void tern_bh(void *opaque)
{
    TernState *s = opaque;

    tern_lock(s);
    if (s->due) {
        s->armed = UINT64_MAX;
    }
    if (s->due || s->work) {
        s->due = false;
        tern_run(s);
    }
    tern_finish(s, true);
    if (s->rx_waiting) {
        qemu_flush_queued_packets(qemu_get_queue(s->nic));
    }
}

static void tern_timer(void *opaque)
{
    TernState *s = opaque;

    s->due = true;
    qemu_bh_schedule(s->bh);
}

static ssize_t tern_receive(NetClientState *nc, const uint8_t *buf, size_t len)
{
    TernState *s = qemu_get_nic_opaque(nc);

    if (!s->awake || s->removed) {
        return len;
    }
    tern_lock(s);
    /* The net layer offers its frames once more when the VM has stopped. */
    s->rx_waiting = !s->running || !tern_engine_can_receive(s->engine);
    if (s->rx_waiting) {
        tern_unlock(s);
        trace_tern_rx_waits(s, len);
        timer_mod_ns(s->rx_timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                  TERN_RX_RETRY_NS);
        return 0;
    }
    trace_tern_rx(s, len);
    tern_engine_receive(s->engine, buf, len);
    tern_run(s);
    tern_leave(s);
    return len;
}

/* Nothing tells that software has posted a buffer, so we look again. */
static void tern_rx_timer(void *opaque)
{
    TernState *s = opaque;

    if (s->rx_waiting) {
        qemu_flush_queued_packets(qemu_get_queue(s->nic));
    }
}

static void tern_link_changed(NetClientState *nc)
{
    TernState *s = qemu_get_nic_opaque(nc);
    bool up = nc->peer && !nc->link_down;

    trace_tern_link(s, up);
    if (!up) {
        /* The frame that is held may never be taken. */
        s->tx_blocked = false;
        s->tx_lost = false;
    }
    tern_lock(s);
    tern_engine_set_link(s->engine, up);
    tern_run(s);
    tern_leave_quietly(s);
}

static void tern_vm_state(void *opaque, bool running, RunState state)
{
    TernState *s = opaque;

    trace_tern_vm_state(s, running);
    tern_lock(s);
    s->running = running;
    tern_unlock(s);
    tern_pcap_sync(s->pcap);
    if (running) {
        s->due = true;
        qemu_bh_schedule(s->bh);
    }
}

static NetClientInfo tern_net_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .receive = tern_receive,
    .link_status_changed = tern_link_changed,
};

void tern_start(TernState *s)
{
    DeviceState *dev = DEVICE(s);

    QSIMPLEQ_INIT(&s->made);
    QSIMPLEQ_INIT(&s->out);
    QSIMPLEQ_INIT(&s->spent);
    s->armed = UINT64_MAX;
    s->awake = true;
    s->running = runstate_is_running();
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, tern_timer, s);
    s->rx_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, tern_rx_timer, s);
    s->tx_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, tern_tx_timer, s);
    s->bh = qemu_bh_new_guarded(tern_bh, s, &dev->mem_reentrancy_guard);
    s->nic = qemu_new_nic(&tern_net_info, &s->conf, object_get_typename(
                          OBJECT(s)), dev->id, &dev->mem_reentrancy_guard, s);
    qemu_format_nic_info_str(qemu_get_queue(s->nic), s->conf.macaddr.a);
    s->vm_state = qdev_add_vm_change_state_handler(dev, tern_vm_state, s);
    qemu_cond_init(&s->wake);
    qemu_thread_create(&s->worker, "tern", tern_worker, s,
                       QEMU_THREAD_JOINABLE);
    tern_link_changed(qemu_get_queue(s->nic));
}

void tern_stop(TernState *s)
{
    tern_lock(s);
    s->stopping = true;
    qemu_cond_signal(&s->wake);
    qemu_mutex_unlock(&s->lock);
    /* It never wants the BQL, which we hold. */
    qemu_thread_join(&s->worker);

    qemu_del_vm_change_state_handler(s->vm_state);
    qemu_del_nic(s->nic);
    qemu_bh_delete(s->bh);
    timer_free(s->timer);
    timer_free(s->rx_timer);
    timer_free(s->tx_timer);
    qemu_cond_destroy(&s->wake);

    tern_lock(s);
    tern_drop_effects(s);
    tern_free_batches(s, &s->out);
    qemu_mutex_unlock(&s->lock);
}
