/*
 * tern: the capture tap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A filter on the netdev does not see frames that are looped back in the
 * device, so the device writes a capture of its own. Whole records are written
 * soon, so that the file can be read while QEMU runs and after it was killed.
 */

#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/notify.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "system/system.h"
#include "tern.h"

#define TERN_PCAP_BUFFER    (256 * 1024)
#define TERN_PCAP_SNAPLEN   (64 * 1024)
#define TERN_PCAP_FLUSH_MS  100

/* The pcap file format, in the byte order of the writer. */
typedef struct TernPcapHeader {
    uint32_t magic;
    uint16_t major;
    uint16_t minor;
    int32_t zone;
    uint32_t accuracy;
    uint32_t snaplen;
    uint32_t link_type;
} TernPcapHeader;

typedef struct TernPcapRecord {
    uint32_t sec;
    uint32_t nsec;
    uint32_t caplen;
    uint32_t len;
} TernPcapRecord;

#define TERN_PCAP_MAGIC_NSEC    0xa1b23c4d
#define TERN_PCAP_ETHERNET      1

struct TernPcap {
    QemuMutex lock;
    char *path;
    int fd;                     /* -1 once nothing more is written */
    bool full;                  /* the limit was reached */
    uint64_t room;              /* bytes that the file may still grow by */
    int64_t epoch;              /* wall time at device clock 0 */
    size_t used;
    bool flush_due;             /* the timer is armed */
    QEMUTimer *timer;           /* real time: runs while the VM is stopped */
    Notifier exit;
    uint8_t buffer[TERN_PCAP_BUFFER];
};

/* With the lock: stops writing. */
static void tern_pcap_end(TernPcap *p)
{
    close(p->fd);
    p->fd = -1;
}

/* With the lock. */
static void tern_pcap_flush(TernPcap *p)
{
    if (p->fd >= 0 && p->used &&
        qemu_write_full(p->fd, p->buffer, p->used) != p->used) {
        error_report("tern: capture file '%s' ends here: %s", p->path,
                     strerror(errno));
        tern_pcap_end(p);
    }
    p->used = 0;
}

/* With the lock: a frame did not fit, so the capture takes no other. */
static void tern_pcap_fill_up(TernPcap *p)
{
    tern_pcap_flush(p);
    if (p->fd < 0) {
        return;
    }
    info_report("tern: capture file '%s' is complete: pcap-limit", p->path);
    tern_pcap_end(p);
    p->full = true;
}

static void tern_pcap_timer(void *opaque)
{
    TernPcap *p = opaque;

    QEMU_LOCK_GUARD(&p->lock);
    p->flush_due = false;
    tern_pcap_flush(p);
}

static void tern_pcap_exit(Notifier *n, void *data)
{
    TernPcap *p = container_of(n, TernPcap, exit);

    QEMU_LOCK_GUARD(&p->lock);
    tern_pcap_flush(p);
}

void tern_pcap_sync(TernPcap *p)
{
    if (!p) {
        return;
    }
    QEMU_LOCK_GUARD(&p->lock);
    p->epoch = qemu_clock_get_ns(QEMU_CLOCK_HOST) -
               qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    tern_pcap_flush(p);
}

void tern_pcap_frame(TernPcap *p, uint64_t time, const void *data, size_t len)
{
    TernPcapRecord rec;
    uint64_t wall;
    size_t size;

    if (!p) {
        return;
    }
    QEMU_LOCK_GUARD(&p->lock);
    if (p->fd < 0) {
        return;
    }
    wall = time + p->epoch;
    rec.sec = wall / NANOSECONDS_PER_SECOND;
    rec.nsec = wall % NANOSECONDS_PER_SECOND;
    rec.caplen = MIN(len, TERN_PCAP_SNAPLEN);
    rec.len = len;
    size = sizeof(rec) + rec.caplen;
    if (size > p->room) {
        tern_pcap_fill_up(p);
        return;
    }
    p->room -= size;
    if (size > TERN_PCAP_BUFFER - p->used) {
        tern_pcap_flush(p);
    }
    memcpy(p->buffer + p->used, &rec, sizeof(rec));
    memcpy(p->buffer + p->used + sizeof(rec), data, rec.caplen);
    p->used += size;
    if (!p->flush_due) {
        p->flush_due = true;
        timer_mod(p->timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) +
                            TERN_PCAP_FLUSH_MS);
    }
}

bool tern_pcap_is_full(TernPcap *p)
{
    if (!p) {
        return false;
    }
    QEMU_LOCK_GUARD(&p->lock);
    return p->full;
}

TernPcap *tern_pcap_open(const char *path, uint64_t limit, Error **errp)
{
    const TernPcapHeader header = {
        .magic = TERN_PCAP_MAGIC_NSEC,
        .major = 2,
        .minor = 4,
        .snaplen = TERN_PCAP_SNAPLEN,
        .link_type = TERN_PCAP_ETHERNET,
    };
    TernPcap *p;
    int fd;

    /* The table of properties has this minimum. */
    assert(!limit || limit >= sizeof(header));
    fd = qemu_create(path, O_WRONLY | O_TRUNC | O_BINARY, 0644, errp);
    if (fd < 0) {
        return NULL;
    }
    if (qemu_write_full(fd, &header, sizeof(header)) != sizeof(header)) {
        error_setg_file_open(errp, errno, path);
        close(fd);
        return NULL;
    }

    p = g_new0(TernPcap, 1);
    qemu_mutex_init(&p->lock);
    p->path = g_strdup(path);
    p->fd = fd;
    p->room = limit ? limit - sizeof(header) : UINT64_MAX;
    p->timer = timer_new_ms(QEMU_CLOCK_REALTIME, tern_pcap_timer, p);
    p->exit.notify = tern_pcap_exit;
    qemu_add_exit_notifier(&p->exit);
    tern_pcap_sync(p);
    return p;
}

void tern_pcap_close(TernPcap *p)
{
    if (!p) {
        return;
    }
    qemu_remove_exit_notifier(&p->exit);
    timer_free(p->timer);
    WITH_QEMU_LOCK_GUARD(&p->lock) {
        tern_pcap_flush(p);
    }
    if (p->fd >= 0) {
        close(p->fd);
    }
    qemu_mutex_destroy(&p->lock);
    g_free(p->path);
    g_free(p);
}
