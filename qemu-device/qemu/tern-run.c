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
/* Bytes, and frames, taken off the shared wire before others may have the BQL. */
#define TERN_RX_SLICE       (128 * 1024)
#define TERN_RX_FRAMES      512
/* How often the worker looks whether the lock was taken, before it sleeps. */
#define TERN_SPINS          200

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

static void tern_acquire(TernState *s)
{
    assert(bql_locked());
    qatomic_inc(&s->waiters);
    qemu_mutex_lock(&s->lock);
    qatomic_dec(&s->waiters);
    tern_free_batches(s, &s->spent);
}

bool tern_is_rung(TernState *s)
{
    return s->bells_out != qatomic_load_acquire(&s->bells_in);
}

/* With the lock: what was rung while the worker was at it. True: something. */
static bool tern_take_bells(TernState *s)
{
    unsigned in = qatomic_load_acquire(&s->bells_in);
    bool some = s->bells_out != in;

    while (s->bells_out != in) {
        TernBell bell = s->bells[s->bells_out % TERN_BELLS];

        qatomic_store_release(&s->bells_out, s->bells_out + 1);
        tern_engine_doorbell(s->engine, bell.offset, bell.value);
    }
    return some;
}

void tern_lock(TernState *s)
{
    tern_acquire(s);
    s->work |= tern_take_bells(s);
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
 * With the lock, any thread, and nothing on its way out: frames need no BQL to
 * go to the shared wire. The first that it has no room for.
 */
static size_t tern_put_frames(TernState *s, const TernEffects *fx, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        TernFrame frame = tern_engine_effects_frame(fx, i);

        if (!frame.to_wire) {
            continue;
        }
        if (!tern_wire_put(s->wire, frame.data, frame.len)) {
            break;
        }
        trace_tern_tx(s, frame.len);
    }
    return i;
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
    size_t i, n, first = 0;
    bool some;

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
    if (bytes && s->wire && !s->backlog) {
        first = tern_put_frames(s, fx, n);
    }
    if (!bytes || first == n || s->backlog + bytes > TERN_TX_HARD) {
        if (bytes && first != n) {
            trace_tern_tx_lost(s, n);
        }
        some = s->vectors[0] || s->vectors[1];
        tern_engine_effects_free(s->engine, fx);
        return some;
    }
    batch = g_new(TernBatch, 1);
    *batch = (TernBatch) {
        .fx = fx,
        .frame = first,
        .bytes = bytes,
        .generation = s->generation,
    };
    QSIMPLEQ_INSERT_TAIL(&s->made, batch, next);
    s->backlog += bytes;
    return true;
}

/* Worker, with the lock: those who wait for it have it for as long as it takes. */
static void tern_let_pass(TernState *s)
{
    unsigned i;

    qemu_mutex_unlock(&s->lock);
    for (i = 0; i < TERN_SPINS && qatomic_read(&s->waiters); i++) {
        cpu_relax();
    }
    qemu_mutex_lock(&s->lock);
}

/* Worker, with the lock: until there is work, and nobody else wants the lock. */
static void tern_rest(TernState *s)
{
    qatomic_set(&s->busy, false);
    /* Pairs with tern_doorbell(): we see its bell, or it sees that we rest. */
    smp_mb();
    s->work |= tern_take_bells(s);
    if (tern_worker_may_run(s) && !qatomic_read(&s->waiters)) {
        return;
    }
    tern_poll_judge(s);
    s->worker_idle = true;
    qemu_cond_wait(&s->wake, &s->lock);
    s->worker_idle = false;
    tern_poll_wake(s);
}

static void *tern_worker(void *opaque)
{
    TernState *s = opaque;

    rcu_register_thread();
    tern_poll_begin(s);
    qemu_mutex_lock(&s->lock);
    while (!s->stopping) {
        if (qatomic_read(&s->waiters)) {
            tern_let_pass(s);
        }
        s->work |= tern_take_bells(s);
        if (!tern_worker_may_run(s) || qatomic_read(&s->waiters)) {
            tern_rest(s);
            continue;
        }
        qatomic_set(&s->busy, true);
        s->work = tern_engine_run(s->engine, TERN_SLICE);
        trace_tern_worker_slice(s, s->work);
        /* Deadlines that pass while we work are ours; see tern_finish(). */
        if (tern_collect(s) ||
            (!tern_worker_may_run(s) &&
             tern_engine_next_deadline(s->engine) < s->armed)) {
            qemu_bh_schedule(s->bh);
        }
        if (tern_worker_may_run(s)) {
            tern_poll_queues(s);
        }
    }
    qemu_mutex_unlock(&s->lock);
    tern_poll_end(s);
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

void tern_doorbell(TernState *s, uint64_t offset, uint32_t value)
{
    unsigned in = s->bells_in;
    bool put = qatomic_read(&s->busy) &&
               in - qatomic_load_acquire(&s->bells_out) < TERN_BELLS;

    if (put) {
        s->bells[in % TERN_BELLS] = (TernBell) { offset, value };
        qatomic_store_release(&s->bells_in, in + 1);
        smp_mb();
        if (qatomic_read(&s->busy)) {
            return;
        }
    }
    tern_acquire(s);
    tern_take_bells(s);
    if (!put) {
        tern_engine_doorbell(s->engine, offset, value);
    }
    tern_run(s);
    tern_leave(s);
}

static void tern_raise(TernState *s)
{
    unsigned vector, i;

    for (i = 0; i < TERN_VECTOR_WORDS; i++) {
        while (s->raise[i]) {
            /* A cast is checked by name: not with each doorbell. */
            PCIDevice *dev = PCI_DEVICE(s);

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

/* False: tern_sent() will be called when there is room. */
static bool tern_send(TernState *s, const TernFrame *frame)
{
    trace_tern_tx(s, frame->len);
    if (s->wire) {
        return tern_wire_put(s->wire, frame->data, frame->len);
    }
    return qemu_send_packet_async(qemu_get_queue(s->nic), frame->data,
                                  frame->len, tern_sent);
}

/* Sends what is left of the first batch. False if there is no need to go on. */
static bool tern_send_batch(TernState *s)
{
    TernBatch *batch = QSIMPLEQ_FIRST(&s->out);
    size_t n;

    if (!batch || (s->tx_blocked && !s->tx_lost)) {
        return false;
    }
    n = tern_engine_effects_frames(batch->fx);
    while (batch->frame < n && batch->generation == s->generation) {
        TernFrame frame;

        if (s->tx_lost) {
            trace_tern_tx_lost(s, n - batch->frame);
            break;
        }
        frame = tern_engine_effects_frame(batch->fx, batch->frame);
        if (frame.to_wire && !tern_send(s, &frame)) {
            /* The net layer keeps the frame that it has no room for. */
            batch->frame += !s->wire;
            trace_tern_tx_blocked(s, s->backlog);
            s->tx_blocked = true;
            timer_mod_ns(s->tx_timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                      TERN_TX_PATIENCE_NS);
            return false;
        }
        batch->frame++;
    }
    QSIMPLEQ_REMOVE_HEAD(&s->out, next);
    QSIMPLEQ_INSERT_TAIL(&s->spent, batch, next);
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

/* What lies on the shared wire. */
static void tern_take_frames(void *opaque)
{
    TernState *s = opaque;
    uint32_t bytes = 0, looks = 0, len;
    const void *frame;
    bool rests = false;

    /* A machine that stands still looks again when it goes on. */
    if (!s->running) {
        return;
    }
    tern_lock(s);
    /* A look that finds nothing counts: the peer may be adding all the time. */
    while (bytes < TERN_RX_SLICE && looks++ < TERN_RX_FRAMES && !rests) {
        frame = tern_wire_get(s->wire, &len);
        if (!frame) {
            rests = tern_wire_rest(s->wire);
            continue;
        }
        bytes += len;
        if (s->awake && !s->removed) {
            trace_tern_rx(s, len);
            tern_engine_receive(s->engine, frame, len);
        }
    }
    if (!rests) {
        /* The other end has the room at once, and we look again. */
        tern_wire_rest(s->wire);
        qemu_bh_schedule(s->rx_bh);
    }
    tern_run(s);
    tern_leave(s);
}

void tern_wire_moved(TernState *s)
{
    if (s->tx_blocked) {
        tern_sent(qemu_get_queue(s->nic), 0);
    }
    tern_take_frames(s);
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
    bool there = s->wire ? tern_wire_is_up(s->wire) : nc->peer != NULL;
    bool up = there && !nc->link_down;

    trace_tern_link(s, up);
    if (!up) {
        /* The frame that is held may never be taken. */
        s->tx_blocked = false;
        s->tx_lost = false;
        qemu_bh_schedule(s->bh);
    }
    tern_lock(s);
    tern_engine_set_link(s->engine, up);
    tern_run(s);
    tern_leave_quietly(s);
}

void tern_wire_changed(TernState *s)
{
    tern_link_changed(qemu_get_queue(s->nic));
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
        if (s->wire) {
            qemu_bh_schedule(s->rx_bh);
        }
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

    if (qemu_chr_fe_backend_connected(&s->wire_chr)) {
        s->wire = tern_wire_open(s, &s->wire_chr);
    }
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
    s->rx_bh = qemu_bh_new_guarded(tern_take_frames, s,
                                   &dev->mem_reentrancy_guard);
    s->nic = qemu_new_nic(&tern_net_info, &s->conf, object_get_typename(
                          OBJECT(s)), dev->id, &dev->mem_reentrancy_guard, s);
    qemu_format_nic_info_str(qemu_get_queue(s->nic), s->conf.macaddr.a);
    s->vm_state = qdev_add_vm_change_state_handler(dev, tern_vm_state, s);
    qemu_cond_init(&s->wake);
    qemu_thread_create(&s->worker, "tern", tern_worker, s,
                       QEMU_THREAD_JOINABLE);
    tern_link_changed(qemu_get_queue(s->nic));
    if (s->wire) {
        tern_wire_start(s->wire);
    }
}

void tern_stop(TernState *s)
{
    tern_lock(s);
    s->stopping = true;
    qemu_cond_signal(&s->wake);
    qemu_mutex_unlock(&s->lock);
    /* It never wants the BQL, which we hold. */
    qemu_thread_join(&s->worker);
    if (s->wire) {
        tern_wire_close(s->wire);
        s->wire = NULL;
    }

    qemu_del_vm_change_state_handler(s->vm_state);
    qemu_del_nic(s->nic);
    qemu_bh_delete(s->bh);
    qemu_bh_delete(s->rx_bh);
    timer_free(s->timer);
    timer_free(s->rx_timer);
    timer_free(s->tx_timer);
    qemu_cond_destroy(&s->wake);

    tern_lock(s);
    tern_drop_effects(s);
    tern_free_batches(s, &s->out);
    qemu_mutex_unlock(&s->lock);
}
