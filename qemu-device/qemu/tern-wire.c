/*
 * tern: a wire in memory that two processes share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Two tern devices of one host, each in its own QEMU, pass each other whole
 * Ethernet frames through memory, so that a frame costs neither a system call
 * nor a pass through the net layer. A unix socket (a chardev) joins them; it
 * carries the messages below, with file descriptors.
 *
 * Each side owns a ring: memory that it alone writes. It stores there the
 * frames that it sends, and two indices: head, the bytes it has ever put into
 * its own ring, and tail, the bytes it has ever taken from the other's. Neither
 * wraps. Before a side sleeps it stores the index of the other side at which it
 * wants a notification: a byte on a socket that it gave the other side.
 *
 * The other side is not trusted: its data is read once and checked. A side with
 * an invalid ring is treated as a cut cable. Both sides can change the flags of
 * a descriptor that they share, so nothing here relies on its O_NONBLOCK:
 * notifications are sent and received with MSG_DONTWAIT.
 */

#include "qemu/osdep.h"
#include <sys/mman.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/memfd.h"
#include "qemu/sockets.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "net/eth.h"
#include "tern.h"
#include "trace.h"

/* Frames in flight in one direction; more than RC leaves unacknowledged. */
#define TERN_RING_BYTES     (4 * MiB)
/* Each frame begins with its length, at a multiple of this. */
#define TERN_RING_ALIGN     64
/* Stored as a length: the next frame is at the start of the ring. */
#define TERN_RING_WRAP      UINT32_MAX
#define TERN_WIRE_MAGIC     0x65726977 /* "wire" */
#define TERN_WIRE_VERSION   2
/* A peer may begin sessions at this interval, in ms. */
#define TERN_WIRE_INTERVAL  100
/* Ring space of the longest frame. */
#define TERN_RING_FRAME \
    ROUND_UP(sizeof(uint32_t) + TERN_WIRE_FRAME_MAX, TERN_RING_ALIGN)

QEMU_BUILD_BUG_ON(TERN_RING_BYTES % TERN_RING_ALIGN);

/* Memory of one side. The other maps it too, and only reads it. */
typedef struct TernRing {
    uint64_t head;
    uint8_t pad0[TERN_RING_ALIGN - 8];
    uint64_t tail;
    uint8_t pad1[TERN_RING_ALIGN - 8];
    uint64_t wake_head;         /* notify when the other's head reaches it */
    uint64_t wake_tail;         /* the same for its tail */
    uint8_t pad2[TERN_RING_ALIGN - 16];
    uint8_t data[TERN_RING_BYTES];
} TernRing;

enum {
    TERN_WIRE_HELLO = 1,        /* a new device: the earlier session is over */
    TERN_WIRE_RING = 2,         /* with the ring and a notification socket */
    TERN_WIRE_BYE = 3,          /* the device is removed */
};

typedef struct TernWireMsg {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;
    uint32_t ring_bytes;
    uint32_t rsvd;
} TernWireMsg;

struct TernWire {
    TernState *dev;
    CharBackend *chr;
    TernWireMsg msg;            /* received so far */
    unsigned msg_len;
    QEMUBH *bh;                 /* the session began, or is to end */
    QEMUTimer *timer;           /* handles a message that came too early */
    int64_t next_session;       /* when one may begin, in ms */
    bool disconnect;            /* the other side must be disconnected */
    bool warned;                /* only once: a peer cannot fill the log */

    TernRing *own;              /* NULL: none yet */
    const TernRing *mapped;     /* the other's; NULL: none yet */
    const TernRing *peer;       /* the same until tern_wire_broken() */
    int own_fd;
    int notify_fd;              /* we are notified; while there is own */
    int notify_fd_given;        /* its other end, the peer's */
    int peer_notify_fd;         /* while there is mapped */

    /*
     * Our copies of the indices; memory is written from them and never read
     * back. Sending: see tern_wire_put(). Receiving: the BQL.
     */
    uint64_t head;
    uint64_t peer_tail;         /* a lower bound */
    uint64_t tail;
    uint64_t reported_tail;     /* the other side was notified of */
    uint8_t frame[TERN_WIRE_FRAME_MAX]; /* received, copied once */
};

/* ---- indices ---- */

/* Whether a step from old to now passes `want`. */
static bool tern_passes(uint64_t want, uint64_t old, uint64_t now)
{
    return want - old - 1 < now - old;
}

/* A full socket means that notifications are still unread. */
static void tern_notify(TernWire *w)
{
    trace_tern_wire_notify(w->dev);
    send(w->peer_notify_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Possibly without the BQL: tern_wire_bh() ends the session. */
static void tern_wire_broken(TernWire *w)
{
    trace_tern_wire_broken(w->dev);
    qatomic_set(&w->peer, NULL);
    qemu_bh_schedule(w->bh);
}

static bool tern_has_room(TernWire *w, uint64_t need)
{
    if (w->head + need - w->peer_tail <= TERN_RING_BYTES) {
        return true;
    }
    w->peer_tail = qatomic_load_acquire(&w->peer->tail);
    if (w->head - w->peer_tail > TERN_RING_BYTES) {
        tern_wire_broken(w);
        return false;
    }
    return w->head + need - w->peer_tail <= TERN_RING_BYTES;
}

bool tern_wire_put(TernWire *w, const void *data, uint32_t len)
{
    uint64_t at, need, skip, old;

    if (!w->peer || len > TERN_WIRE_FRAME_MAX) {
        return true; /* lost */
    }
    at = w->head % TERN_RING_BYTES;
    need = ROUND_UP(sizeof(len) + len, TERN_RING_ALIGN);
    skip = at + need > TERN_RING_BYTES ? TERN_RING_BYTES - at : 0;
    if (!tern_has_room(w, skip + need)) {
        if (!w->peer) {
            return true;
        }
        qatomic_set(&w->own->wake_tail, w->head - TERN_RING_BYTES / 2);
        smp_mb();
        if (!tern_has_room(w, skip + need)) {
            return !w->peer;
        }
    }
    if (skip) {
        *(uint32_t *)&w->own->data[at] = TERN_RING_WRAP;
        at = 0;
    }
    *(uint32_t *)&w->own->data[at] = len;
    memcpy(&w->own->data[at + sizeof(len)], data, len);
    old = w->head;
    w->head += skip + need;
    qatomic_store_release(&w->own->head, w->head);
    smp_mb();
    if (tern_passes(qatomic_read(&w->peer->wake_head), old, w->head)) {
        tern_notify(w);
    }
    return true;
}

const void *tern_wire_get(TernWire *w, uint32_t *len)
{
    uint64_t there, at, size;

    if (!w->peer) {
        return NULL;
    }
    there = qatomic_load_acquire(&w->peer->head) - w->tail;
    if (!there) {
        return NULL;
    }
    if (there > TERN_RING_BYTES) {
        goto broken;
    }
    at = w->tail % TERN_RING_BYTES;
    *len = qatomic_read((uint32_t *)&w->peer->data[at]);
    if (*len == TERN_RING_WRAP && TERN_RING_BYTES - at <= there &&
        TERN_RING_BYTES - at < TERN_RING_FRAME) {
        there -= TERN_RING_BYTES - at;
        w->tail += TERN_RING_BYTES - at;
        at = 0;
        if (!there) {
            return NULL;
        }
        *len = qatomic_read((uint32_t *)&w->peer->data[at]);
    }
    if (*len < ETH_HLEN || *len > TERN_WIRE_FRAME_MAX) {
        goto broken;
    }
    size = ROUND_UP(sizeof(*len) + *len, TERN_RING_ALIGN);
    if (size > there || at + size > TERN_RING_BYTES) {
        goto broken;
    }
    memcpy(w->frame, &w->peer->data[at + sizeof(*len)], *len);
    w->tail += size;
    return w->frame;

broken:
    tern_wire_broken(w);
    return NULL;
}

bool tern_wire_idle(TernWire *w)
{
    if (!w->peer) {
        return true;
    }
    qatomic_store_release(&w->own->tail, w->tail);
    qatomic_set(&w->own->wake_head, w->tail + 1);
    smp_mb();
    if (tern_passes(qatomic_read(&w->peer->wake_tail), w->reported_tail,
                    w->tail)) {
        tern_notify(w);
    }
    w->reported_tail = w->tail;
    return qatomic_load_acquire(&w->peer->head) == w->tail;
}

bool tern_wire_is_up(const TernWire *w)
{
    return qatomic_read(&w->peer) != NULL;
}

/* ---- sessions; all with the BQL ---- */

static void tern_wire_warn(TernWire *w, const char *what)
{
    if (!w->warned) {
        w->warned = true;
        warn_report("tern: the other end of the wire %s", what);
    }
}

/* In the BH: the callbacks of a chardev do not expect it to be closed. */
static void tern_wire_disconnect(TernWire *w, const char *why)
{
    tern_wire_warn(w, why);
    w->disconnect = true;
    qemu_bh_schedule(w->bh);
}

/*
 * A well-behaved peer leaves few messages unread, so the socket's buffer is
 * large enough. A peer that lets it fill up is disconnected.
 */
static void tern_wire_send(TernWire *w, unsigned kind, int *fds, int num)
{
    TernWireMsg msg = {
        .magic = TERN_WIRE_MAGIC,
        .version = TERN_WIRE_VERSION,
        .kind = kind,
        .ring_bytes = TERN_RING_BYTES,
    };
    int ret;

    trace_tern_wire_send(w->dev, kind);
    /* Also with none: descriptors of a failed message may be left. */
    if (qemu_chr_fe_set_msgfds(w->chr, fds, num) < 0 && num) {
        warn_report("tern: the chardev of a wire must be a unix socket");
        return;
    }
    ret = qemu_chr_fe_write(w->chr, (uint8_t *)&msg, sizeof(msg));
    if (ret >= 0 ? ret < sizeof(msg) : errno == EAGAIN) {
        tern_wire_disconnect(w, "reads no answers");
    }
}

static void tern_wire_forget_peer(TernWire *w)
{
    const TernRing *mapped = w->mapped;

    tern_runner_lock(w->dev->runner);
    w->mapped = NULL;
    qatomic_set(&w->peer, NULL);
    tern_runner_unlock(w->dev->runner);
    if (mapped) {
        munmap((void *)mapped, sizeof(*mapped));
        close(w->peer_notify_fd);
    }
}

/* Ends the session. */
static void tern_wire_forget(TernWire *w)
{
    tern_wire_forget_peer(w);
    if (w->own) {
        qemu_set_fd_handler(w->notify_fd, NULL, NULL, NULL);
        close(w->notify_fd);
        close(w->notify_fd_given);
        qemu_memfd_free(w->own, sizeof(*w->own), w->own_fd);
        w->own = NULL;
    }
}

static void tern_wire_notified(void *opaque);

/* Begins our part of a session. Returns false if the link stays down. */
static bool tern_wire_offer(TernWire *w)
{
    Error *err = NULL;
    int pair[2], fds[2];

    if (qemu_socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
        warn_report("tern: no descriptor for the wire");
        return false;
    }
    w->own = qemu_memfd_alloc("tern-wire", sizeof(*w->own),
                              F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
                              &w->own_fd, &err);
    if (!w->own) {
        warn_report_err(err);
        close(pair[0]);
        close(pair[1]);
        return false;
    }
    w->notify_fd = pair[0];
    w->notify_fd_given = pair[1];
    qemu_set_fd_handler(w->notify_fd, tern_wire_notified, NULL, w);
    w->head = w->peer_tail = 0;
    w->own->wake_head = 1;
    fds[0] = w->own_fd;
    fds[1] = w->notify_fd_given;
    tern_wire_send(w, TERN_WIRE_RING, fds, ARRAY_SIZE(fds));
    return true;
}

/*
 * Accepts only memory that is large enough and cannot shrink: otherwise reading
 * it could kill us. So could huge pages, which run out when the other side
 * punches holes.
 */
static const TernRing *tern_wire_map(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct statfs fs;
    struct stat st;
    void *p;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(fd, &fs) < 0 ||
        fs.f_type != TMPFS_MAGIC || fstat(fd, &st) < 0 ||
        st.st_size < sizeof(TernRing)) {
        return NULL;
    }
    p = mmap(NULL, sizeof(TernRing), PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Only this kind of file guarantees that send() never waits. */
static bool tern_is_notify_socket(int fd)
{
    int domain, type;
    socklen_t len = sizeof(int);

    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
           domain == AF_UNIX &&
           !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) &&
           type == SOCK_STREAM;
}

/* The other side's part of a session. Takes the descriptors. */
static void tern_wire_accept(TernWire *w, const int fds[2])
{
    bool can_notify = tern_is_notify_socket(fds[1]);
    const TernRing *ring = can_notify ? tern_wire_map(fds[0]) : NULL;

    close(fds[0]);
    tern_wire_forget_peer(w);
    if (!ring || (!w->own && !tern_wire_offer(w))) {
        tern_wire_warn(w, can_notify ? "offers no ring"
                                     : "offers no notification socket");
        close(fds[1]);
        if (ring) {
            munmap((void *)ring, sizeof(*ring));
        }
        return;
    }
    w->peer_notify_fd = fds[1];
    tern_runner_lock(w->dev->runner);
    w->tail = w->reported_tail = 0;
    qatomic_set(&w->own->tail, 0);
    w->mapped = ring;
    qatomic_set(&w->peer, ring);
    tern_runner_unlock(w->dev->runner);
    trace_tern_wire_up(w->dev);
    /* Frames may wait whose notification was sent earlier. */
    qemu_bh_schedule(w->bh);
}

static void tern_wire_handle(TernWire *w)
{
    int fds[2], num;

    if (w->msg.magic != TERN_WIRE_MAGIC ||
        w->msg.version != TERN_WIRE_VERSION ||
        w->msg.ring_bytes != TERN_RING_BYTES) {
        tern_wire_disconnect(w, "speaks another protocol");
        return;
    }
    trace_tern_wire_handle(w->dev, w->msg.kind);
    switch (w->msg.kind) {
    case TERN_WIRE_HELLO:
        tern_wire_forget(w);
        tern_wire_offer(w);
        break;
    case TERN_WIRE_RING:
        num = qemu_chr_fe_get_msgfds(w->chr, fds, ARRAY_SIZE(fds));
        if (num == ARRAY_SIZE(fds)) {
            tern_wire_accept(w, fds);
        } else if (num == 1) {
            close(fds[0]);
        }
        break;
    case TERN_WIRE_BYE:
        tern_wire_forget(w);
        break;
    }
    tern_wire_changed(w->dev);
}

static int tern_wire_can_read(void *opaque)
{
    TernWire *w = opaque;

    return w->disconnect ? 0 : sizeof(w->msg) - w->msg_len;
}

/*
 * Handles the message that was received. One that begins a session costs memory
 * and descriptors: if it comes too early, it waits, and no other is read.
 */
static void tern_wire_received(TernWire *w)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    if (w->msg.kind == TERN_WIRE_HELLO ||
        (w->msg.kind == TERN_WIRE_RING && !w->own)) {
        if (now < w->next_session) {
            timer_mod(w->timer, w->next_session);
            return;
        }
        w->next_session = now + TERN_WIRE_INTERVAL;
    }
    w->msg_len = 0;
    tern_wire_handle(w);
}

static void tern_wire_due(void *opaque)
{
    TernWire *w = opaque;

    tern_wire_received(w);
    qemu_chr_fe_accept_input(w->chr);
}

static void tern_wire_read(void *opaque, const uint8_t *buf, int size)
{
    TernWire *w = opaque;

    memcpy((uint8_t *)&w->msg + w->msg_len, buf, size);
    w->msg_len += size;
    if (w->msg_len == sizeof(w->msg)) {
        tern_wire_received(w);
    }
}

static void tern_wire_event(void *opaque, QEMUChrEvent event)
{
    TernWire *w = opaque;

    if (event == CHR_EVENT_OPENED) {
        timer_del(w->timer);
        w->msg_len = 0;
        w->disconnect = false;
        tern_wire_send(w, TERN_WIRE_HELLO, NULL, 0);
    } else if (event == CHR_EVENT_CLOSED) {
        timer_del(w->timer);
        tern_wire_forget(w);
        tern_wire_changed(w->dev);
    }
}

static void tern_wire_bh(void *opaque)
{
    TernWire *w = opaque;

    if (w->dev->in_map) {
        qemu_bh_schedule(w->bh);
    } else if (w->disconnect) {
        w->disconnect = false;
        tern_wire_forget(w);
        qemu_chr_fe_disconnect(w->chr);
        tern_wire_changed(w->dev);
    } else if (w->mapped && !tern_wire_is_up(w)) {
        tern_wire_warn(w, "breaks its rules");
        tern_wire_forget(w);
        tern_wire_changed(w->dev);
    } else if (w->mapped) {
        tern_wire_moved(w->dev);
    }
}

static void tern_wire_notified(void *opaque)
{
    TernWire *w = opaque;
    uint8_t bytes[256];
    ssize_t n = recv(w->notify_fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        /* Shut down: the socket would stay readable. */
        tern_wire_warn(w, "breaks its rules");
        tern_wire_forget(w);
        tern_wire_changed(w->dev);
        return;
    }
    tern_wire_bh(w);
}

TernWire *tern_wire_open(TernState *s, CharBackend *chr)
{
    TernWire *w = g_new0(TernWire, 1);

    w->dev = s;
    w->chr = chr;
    w->bh = qemu_bh_new_guarded(tern_wire_bh, w,
                                &DEVICE(s)->mem_reentrancy_guard);
    w->timer = timer_new_ms(QEMU_CLOCK_REALTIME, tern_wire_due, w);
    return w;
}

void tern_wire_start(TernWire *w)
{
    qemu_chr_fe_set_handlers(w->chr, tern_wire_can_read, tern_wire_read,
                             tern_wire_event, NULL, w, NULL, true);
}

void tern_wire_close(TernWire *w)
{
    tern_wire_send(w, TERN_WIRE_BYE, NULL, 0);
    qemu_chr_fe_set_handlers(w->chr, NULL, NULL, NULL, NULL, NULL, NULL, true);
    tern_wire_forget(w);
    qemu_bh_delete(w->bh);
    timer_free(w->timer);
    g_free(w);
}
