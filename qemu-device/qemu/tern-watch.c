/*
 * tern: the worker looks at queues whose software then need not ring.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A doorbell costs its processor more than posting does: an exit, or what TCG
 * has instead. Looking costs a processor that does nothing else, and has the work
 * done by a thread that has to be running; so it pays only while nobody else wants
 * that processor. No one tells a thread who else could run, but the kernel tells
 * how long it was made to wait itself.
 */

#include "qemu/osdep.h"
#include "qemu/processor.h"
#include "tern.h"
#include "trace.h"

/* Slices and looks, about half a millisecond of them, between two questions. */
#define TERN_CROWD_LOOKS    16384
/* So much time running or made to wait is a picture: */
#define TERN_CROWD_WINDOW   (20 * SCALE_MS)
/* who waits for a processor for more than this part of it is in a crowd, */
#define TERN_CROWD_PART     4
/* ... and the next try is that much later: longer from each failure to the next. */
#define TERN_CROWD_MIN      (200 * SCALE_MS)
#define TERN_CROWD_MAX      (6400LL * SCALE_MS)

void tern_watch_allow(TernState *s)
{
    bool may = s->watch && !s->bql_only && g_get_num_processors() > 1;

    if (may == s->may_watch) {
        return;
    }
    tern_lock(s);
    s->may_watch = may;
    tern_engine_allow_watch(s->engine, may ? 0 : UINT64_MAX);
    /* What was watched is to be looked at. */
    s->work = true;
    tern_leave_quietly(s);
}

void tern_watch_begin(TernState *s)
{
    s->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    s->crowd_pause = TERN_CROWD_MIN;
}

void tern_watch_end(TernState *s)
{
    if (s->schedstat >= 0) {
        close(s->schedstat);
    }
}

/* What the kernel says of the worker, as it stands. */
static void tern_watch_read(TernState *s)
{
    char text[64] = "";

    /* Without these figures it never waited. */
    if (s->may_watch && s->schedstat >= 0 &&
        pread(s->schedstat, text, sizeof(text) - 1, 0) > 0) {
        sscanf(text, "%" SCNu64 " %" SCNu64, &s->ran_ns, &s->waited_ns);
    }
}

void tern_watch_wake(TernState *s)
{
    /* Until it was woken and ran it waited, too: that is nobody's fault. */
    tern_watch_read(s);
}

void tern_watch_judge(TernState *s)
{
    uint64_t ran = s->ran_ns, waited = s->waited_ns;

    tern_watch_read(s);
    s->window_ran += s->ran_ns - ran;
    s->window_waited += s->waited_ns - waited;
    if (s->window_ran + s->window_waited < TERN_CROWD_WINDOW) {
        return;
    }
    trace_tern_watch(s, s->window_ran, s->window_waited);
    if (s->window_waited > TERN_CROWD_WINDOW / TERN_CROWD_PART) {
        tern_engine_allow_watch(s->engine,
                                qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                s->crowd_pause);
        s->crowd_pause = MIN(2 * s->crowd_pause, TERN_CROWD_MAX);
    } else {
        s->crowd_pause = TERN_CROWD_MIN;
    }
    s->window_ran = 0;
    s->window_waited = 0;
}

void tern_watch(TernState *s)
{
    do {
        if (++s->looks % TERN_CROWD_LOOKS == 0) {
            tern_watch_judge(s);
        }
        if (tern_engine_look(s->engine)) {
            return;
        }
        cpu_relax();
    } while (!tern_is_rung(s) && !qatomic_read(&s->waiters));
}
