/*
 * tern: QEMU's side of the runner.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The runner (tern_runner.h) decides when and in which thread the engine runs,
 * and delivers its effects. This file gives it bottom halves, timers, the net
 * layer or the shared wire, MSI-X and the capture, and passes it frames, link
 * changes and the VM state. The runner's host lock is the BQL.
 */

#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "net/net.h"
#include "system/runstate.h"
#include "tern.h"
#include "trace.h"

/* ---- functions that the runner calls; their locks: tern_runner.h ---- */

static uint64_t tern_now(void *opaque)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static void tern_schedule(void *opaque, TernCall call)
{
    TernState *s = opaque;

    if (call == TERN_CALL_DELIVER) {
        qemu_bh_schedule(s->bh);
    } else if (s->wire) {
        qemu_bh_schedule(s->rx_bh);
    }
}

static void tern_trace(void *opaque, TernEvent event, uint64_t a, uint64_t b)
{
    TernState *s = opaque;

    switch (event) {
    case TERN_EVENT_SLICE:
        trace_tern_worker_slice(s, a);
        break;
    case TERN_EVENT_BLOCKED:
        trace_tern_tx_blocked(s, a);
        break;
    case TERN_EVENT_RESUMED:
        trace_tern_tx_resumed(s);
        break;
    case TERN_EVENT_LOST:
        trace_tern_tx_lost(s, a);
        break;
    case TERN_EVENT_REFUSED:
        trace_tern_rx_waits(s, a);
        break;
    case TERN_EVENT_CONTENTION:
        trace_tern_poll_contention(s, a, b);
        break;
    case TERN_EVENT_LOG_ENDED:
        tern_events_ended(s, a);
        break;
    }
}

static void tern_capture(void *opaque, const TernFrame *frame)
{
    TernState *s = opaque;

    tern_pcap_frame(s->pcap, frame->time, frame->data, frame->len);
}

static void tern_arm(void *opaque, TernTimer timer, uint64_t at)
{
    TernState *s = opaque;

    /* NULL if tern_stop() was called within tern_send(). */
    if (s->timers[timer]) {
        timer_mod_ns(s->timers[timer], MIN(at, INT64_MAX));
    }
}

static void tern_disarm(void *opaque, TernTimer timer)
{
    TernState *s = opaque;

    if (s->timers[timer]) {
        timer_del(s->timers[timer]);
    }
}

static void tern_raise(void *opaque, unsigned vector)
{
    TernState *s = opaque;
    PCIDevice *dev = PCI_DEVICE(s);

    if (vector < s->properties.vectors && msix_enabled(dev)) {
        trace_tern_irq(s, vector);
        msix_notify(dev, vector);
    }
}

/* The net layer has sent the frame that it held. */
static void tern_sent(NetClientState *nc, ssize_t ret)
{
    TernState *s = qemu_get_nic_opaque(nc);

    tern_runner_resumed(s->runner);
}

static TernSent tern_send(void *opaque, const TernFrame *frame)
{
    TernState *s = opaque;

    trace_tern_tx(s, frame->len);
    if (s->wire) {
        return tern_wire_put(s->wire, frame->data, frame->len)
               ? TERN_SENT_TAKEN : TERN_SENT_BLOCKED;
    }
    return qemu_send_packet_async(qemu_get_queue(s->nic), frame->data,
                                  frame->len, tern_sent)
           ? TERN_SENT_TAKEN : TERN_SENT_HELD;
}

static void tern_receive_again(void *opaque)
{
    TernState *s = opaque;

    qemu_flush_queued_packets(qemu_get_queue(s->nic));
}

static const void *tern_next_frame(void *opaque, uint32_t *len)
{
    TernState *s = opaque;
    const void *frame = tern_wire_get(s->wire, len);

    if (frame) {
        trace_tern_rx(s, *len);
    }
    return frame;
}

static bool tern_wait_for_frames(void *opaque)
{
    TernState *s = opaque;

    return tern_wire_idle(s->wire);
}

/* The engine maps guest memory in this thread. */
static void tern_worker_begins(void *opaque)
{
    pthread_setname_np(pthread_self(), "tern");
    rcu_register_thread();
}

static void tern_worker_ends(void *opaque)
{
    rcu_unregister_thread();
}

static const TernRunnerOps tern_runner_ops = {
    .now = tern_now,
    .schedule = tern_schedule,
    .trace = tern_trace,
    .capture = tern_capture,
    .arm = tern_arm,
    .disarm = tern_disarm,
    .raise = tern_raise,
    .send = tern_send,
    .receive_again = tern_receive_again,
    .next_frame = tern_next_frame,
    .wait_for_frames = tern_wait_for_frames,
    .worker_begins = tern_worker_begins,
    .worker_ends = tern_worker_ends,
};

/* ---- functions that call the runner; all with the BQL ---- */

/* Within map() a bottom half runs again later. */

static void tern_bh(void *opaque)
{
    TernState *s = opaque;

    if (s->in_map) {
        qemu_bh_schedule(s->bh);
        return;
    }
    tern_runner_deliver(s->runner);
}

static void tern_rx_bh(void *opaque)
{
    TernState *s = opaque;

    if (s->in_map) {
        qemu_bh_schedule(s->rx_bh);
        return;
    }
    tern_runner_take_frames(s->runner);
}

static void tern_engine_expired(void *opaque)
{
    TernState *s = opaque;

    tern_runner_expired(s->runner, TERN_TIMER_ENGINE);
}

static void tern_patience_expired(void *opaque)
{
    TernState *s = opaque;

    tern_runner_expired(s->runner, TERN_TIMER_PATIENCE);
}

static ssize_t tern_receive(NetClientState *nc, const uint8_t *buf, size_t len)
{
    TernState *s = qemu_get_nic_opaque(nc);

    if (s->in_map) {
        trace_tern_reentered(s);
        return len;
    }
    if (!tern_runner_receive(s->runner, buf, len)) {
        return 0;
    }
    trace_tern_rx(s, len);
    return len;
}

static void tern_link_changed(NetClientState *nc)
{
    TernState *s = qemu_get_nic_opaque(nc);
    bool there = s->wire ? tern_wire_is_up(s->wire) : nc->peer != NULL;
    bool up = there && !nc->link_down;

    trace_tern_link(s, up);
    tern_runner_set_link(s->runner, up);
}

void tern_wire_changed(TernState *s)
{
    tern_link_changed(qemu_get_queue(s->nic));
}

void tern_wire_moved(TernState *s)
{
    tern_runner_resumed(s->runner);
    tern_runner_take_frames(s->runner);
}

void tern_vm_changed(TernState *s)
{
    if (tern_defer(s, TERN_DEFERRED_VM_STATE)) {
        return;
    }
    trace_tern_vm_state(s, s->vm_running);
    tern_runner_set_running(s->runner, s->vm_running);
    tern_pcap_sync(s->pcap);
    tern_events_sync(s);
}

static void tern_vm_state(void *opaque, bool running, RunState state)
{
    TernState *s = opaque;

    s->vm_running = running;
    tern_vm_changed(s);
}

/* ---- life cycle ---- */

static NetClientInfo tern_net_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .receive = tern_receive,
    .link_status_changed = tern_link_changed,
};

void tern_start(TernState *s)
{
    static QEMUTimerCB *const expired[TERN_NUM_TIMERS] = {
        [TERN_TIMER_ENGINE] = tern_engine_expired,
        [TERN_TIMER_PATIENCE] = tern_patience_expired,
    };
    TernRunnerConfig config = {
        .poll = s->properties.poll,
        .direct_send = qemu_chr_fe_backend_connected(&s->wire_chr),
        .running = runstate_is_running(),
        .processors = g_get_num_processors(),
    };
    DeviceState *dev = DEVICE(s);
    int i;

    if (config.direct_send) {
        s->wire = tern_wire_open(s, &s->wire_chr);
    }
    s->awake = true;
    for (i = 0; i < TERN_NUM_TIMERS; i++) {
        s->timers[i] = timer_new_ns(QEMU_CLOCK_VIRTUAL, expired[i], s);
    }
    s->bh = qemu_bh_new_guarded(tern_bh, s, &dev->mem_reentrancy_guard);
    s->rx_bh = qemu_bh_new_guarded(tern_rx_bh, s, &dev->mem_reentrancy_guard);
    s->runner = tern_runner_new(s->engine, &config, &tern_runner_ops, s);
    tern_events_start(s);
    tern_runner_set_present(s->runner, !s->removed);
    s->nic = qemu_new_nic(&tern_net_info, &s->conf, object_get_typename(
                          OBJECT(s)), dev->id, &dev->mem_reentrancy_guard, s);
    qemu_format_nic_info_str(qemu_get_queue(s->nic), s->conf.macaddr.a);
    s->vm_state = qdev_add_vm_change_state_handler(dev, tern_vm_state, s);
    if (!tern_runner_start(s->runner)) {
        /* Like qemu_thread_create(). */
        error_report("tern: no thread for the worker");
        abort();
    }
    tern_link_changed(qemu_get_queue(s->nic));
    if (s->wire) {
        tern_wire_start(s->wire);
    }
}

void tern_stop(TernState *s)
{
    int i;

    if (s->wire) {
        tern_wire_close(s->wire);
        s->wire = NULL;
    }
    qemu_del_vm_change_state_handler(s->vm_state);
    qemu_del_nic(s->nic);
    qemu_bh_delete(s->bh);
    qemu_bh_delete(s->rx_bh);
    s->bh = s->rx_bh = NULL;
    for (i = 0; i < TERN_NUM_TIMERS; i++) {
        timer_free(s->timers[i]);
        s->timers[i] = NULL;
    }
}
