/*
 * tern: the worker polls busy send queues, so that their software need not ring.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A doorbell costs the vCPU more than posting does: an exit under KVM, a slow MMIO
 * store under TCG. Polling keeps a host processor busy, so it pays only while no
 * other thread needs that processor. The kernel does not report contention for a
 * processor, but it reports how long this thread waited for one (schedstat).
 */

#include "qemu/osdep.h"
#include "qemu/processor.h"
#include "tern.h"
#include "trace.h"

/* Read schedstat after so many slices and polls, about half a millisecond. */
#define TERN_CONTENTION_LOOKS    16384
/* Judge contention over so much time running or waiting to run. */
#define TERN_CONTENTION_WINDOW   (20 * SCALE_MS)
/* There is contention if the worker waited for more than one part in so many. */
#define TERN_CONTENTION_PART     4
/* Polling then stops for so long; the pause doubles while contention lasts. */
#define TERN_CONTENTION_MIN      (200 * SCALE_MS)
#define TERN_CONTENTION_MAX      (6400LL * SCALE_MS)

void tern_poll_allow(TernState *s)
{
    bool may = s->poll && !s->bql_only && g_get_num_processors() > 1;

    if (may == s->may_poll) {
        return;
    }
    tern_lock(s);
    s->may_poll = may;
    tern_engine_allow_polling(s->engine, may ? 0 : UINT64_MAX);
    /* The worker looks once more at the queues it polled. */
    s->work = true;
    tern_leave_quietly(s);
}

void tern_poll_begin(TernState *s)
{
    s->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    s->contention_pause = TERN_CONTENTION_MIN;
}

void tern_poll_end(TernState *s)
{
    if (s->schedstat >= 0) {
        close(s->schedstat);
    }
}

/* What the kernel says of the worker, as it stands. */
static void tern_poll_read(TernState *s)
{
    char text[64] = "";

    /* Without these figures it never waited. */
    if (s->may_poll && s->schedstat >= 0 &&
        pread(s->schedstat, text, sizeof(text) - 1, 0) > 0) {
        sscanf(text, "%" SCNu64 " %" SCNu64, &s->ran_ns, &s->waited_ns);
    }
}

void tern_poll_wake(TernState *s)
{
    /* Until it was woken and ran it waited, too: that is nobody's fault. */
    tern_poll_read(s);
}

void tern_poll_judge(TernState *s)
{
    uint64_t ran = s->ran_ns, waited = s->waited_ns;

    tern_poll_read(s);
    s->window_ran += s->ran_ns - ran;
    s->window_waited += s->waited_ns - waited;
    if (s->window_ran + s->window_waited < TERN_CONTENTION_WINDOW) {
        return;
    }
    trace_tern_poll_contention(s, s->window_ran, s->window_waited);
    if (s->window_waited > TERN_CONTENTION_WINDOW / TERN_CONTENTION_PART) {
        tern_engine_allow_polling(s->engine,
                                qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                s->contention_pause);
        s->contention_pause = MIN(2 * s->contention_pause, TERN_CONTENTION_MAX);
    } else {
        s->contention_pause = TERN_CONTENTION_MIN;
    }
    s->window_ran = 0;
    s->window_waited = 0;
}

void tern_poll_queues(TernState *s)
{
    do {
        if (++s->looks % TERN_CONTENTION_LOOKS == 0) {
            tern_poll_judge(s);
        }
        if (tern_engine_look(s->engine)) {
            return;
        }
        cpu_relax();
    } while (!tern_is_rung(s) && !qatomic_read(&s->waiters));
}
