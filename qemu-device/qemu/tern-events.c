/*
 * tern: the file of the event log.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The runner writes the file in a thread of its own. This file opens it,
 * relates the device clock, which stops with the machine, to wall time, and has
 * the last events written when QEMU exits.
 */

#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/notify.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "system/system.h"
#include "tern.h"

static uint64_t tern_events_epoch(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_HOST) -
           qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static void tern_events_exit(Notifier *n, void *data)
{
    TernState *s = container_of(n, TernState, events_exit);

    tern_runner_flush_events(s->runner);
}

bool tern_events_open(TernState *s, Error **errp)
{
    s->events_fd = -1;
    if (!s->properties.events) {
        return true;
    }
    s->events_fd = qemu_create(s->properties.events,
                               O_WRONLY | O_TRUNC | O_BINARY, 0644, errp);
    return s->events_fd >= 0;
}

void tern_events_start(TernState *s)
{
    TernEventFile file = {
        .fd = s->events_fd,
        .limit = s->properties.events_limit,
        .epoch = tern_events_epoch(),
        .clock = TERN_LOG_CLOCK_VIRTUAL,
        .name = DEVICE(s)->id,
    };

    if (s->events_fd < 0) {
        return;
    }
    memcpy(file.mac, s->conf.macaddr.a, sizeof(file.mac));
    s->events_fd = -1;
    if (!tern_runner_log_events(s->runner, &file)) {
        /* Like qemu_thread_create(). */
        error_report("tern: no thread for the event log");
        abort();
    }
    s->events_exit.notify = tern_events_exit;
    qemu_add_exit_notifier(&s->events_exit);
}

void tern_events_sync(TernState *s)
{
    tern_runner_set_event_epoch(s->runner, tern_events_epoch());
}

void tern_events_ended(TernState *s, int error)
{
    if (error) {
        error_report("tern: event log '%s' ends here: %s",
                     s->properties.events, strerror(error));
    } else {
        info_report("tern: event log '%s' is complete: events-limit",
                    s->properties.events);
    }
}

void tern_events_close(TernState *s)
{
    if (s->events_exit.notify) {
        qemu_remove_exit_notifier(&s->events_exit);
        s->events_exit.notify = NULL;
    }
    if (s->events_fd >= 0) {
        close(s->events_fd);
        s->events_fd = -1;
    }
}
