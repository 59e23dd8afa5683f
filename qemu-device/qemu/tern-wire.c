/*
 * tern: a wire in memory that two processes share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Two tern devices of one host, each in its own QEMU, hand each other whole
 * Ethernet frames through memory, so that a frame costs neither a system call
 * nor a pass through the net layer. A unix socket (a chardev) joins them; over
 * it go the messages below, each with the descriptors it needs.
 *
 * Each side owns a ring: memory that it alone writes. There it puts the frames
 * it sends, and how far it has come: head, the bytes it ever put into its own
 * ring, and tail, the bytes it ever took from the other's. Neither wraps. A side
 * that sleeps says at which index of the other's it wants its bell rung, an
 * eventfd.
 *
 * The other side is not trusted: what it writes is read once and checked. A ring
 * that makes no sense is a cable that was cut.
 */

#include "qemu/osdep.h"
#include <sys/mman.h>
#include "qemu/error-report.h"
#include "qemu/event_notifier.h"
#include "qemu/main-loop.h"
#include "qemu/memfd.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "tern.h"
#include "trace.h"

/* Frames under way in one direction; more than what RC has unacknowledged. */
#define TERN_RING_BYTES     (4 * MiB)
/* Each frame begins with its length, at a multiple of this. */
#define TERN_RING_ALIGN     64
/* A length that means: go on at the start of the ring. */
#define TERN_RING_WRAP      UINT32_MAX
#define TERN_WIRE_MAGIC     0x65726977 /* "wire" */
#define TERN_WIRE_VERSION   1

QEMU_BUILD_BUG_ON(TERN_RING_BYTES % TERN_RING_ALIGN);

/* Memory of one side. The other maps it too, and only reads it. */
typedef struct TernRing {
    uint64_t head;
    uint8_t pad0[TERN_RING_ALIGN - 8];
    uint64_t tail;
    uint8_t pad1[TERN_RING_ALIGN - 8];
    uint64_t wake_head;         /* ring when the other's head gets there */
    uint64_t wake_tail;         /* the same of its tail */
    uint8_t pad2[TERN_RING_ALIGN - 16];
    uint8_t data[TERN_RING_BYTES];
} TernRing;

enum {
    TERN_WIRE_HELLO = 1,        /* a new device: what was before is over */
    TERN_WIRE_RING = 2,         /* with the ring's memory and the bell */
    TERN_WIRE_BYE = 3,          /* the device goes */
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
    TernWireMsg msg;            /* what has come of it */
    unsigned msg_len;

    TernRing *own;              /* NULL: none yet */
    const TernRing *mapped;     /* the other's; NULL: none yet */
    const TernRing *peer;       /* the same while the wire is whole */
    int own_fd;
    EventNotifier bell;         /* rung for us */
    EventNotifier peer_bell;

    /*
     * What we believe of the indices; memory is written from here, never read
     * back. Sending: whoever may touch TernBatch lists. Receiving: the BQL.
     */
    uint64_t head;
    uint64_t peer_tail;         /* at least */
    uint64_t tail;
    uint64_t told_tail;         /* the other side has been told of */
    uint8_t frame[TERN_WIRE_FRAME_MAX]; /* received, copied once */
};

/* ---- indices ---- */

/* Whether `want` is passed by a step from old to now. */
static bool tern_passes(uint64_t want, uint64_t old, uint64_t now)
{
    return want - old - 1 < now - old;
}

static void tern_ring_bell(TernWire *w)
{
    trace_tern_wire_bell(w->dev);
    event_notifier_set(&w->peer_bell);
}

/* Maybe without the BQL: tern_wire_rang() sees to the rest. */
static void tern_wire_broken(TernWire *w)
{
    trace_tern_wire_broken(w->dev);
    w->peer = NULL;
    event_notifier_set(&w->bell);
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
        tern_ring_bell(w);
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
    if (*len == TERN_RING_WRAP && TERN_RING_BYTES - at <= there) {
        there -= TERN_RING_BYTES - at;
        w->tail += TERN_RING_BYTES - at;
        at = 0;
        if (!there) {
            return NULL;
        }
        *len = qatomic_read((uint32_t *)&w->peer->data[at]);
    }
    if (*len > TERN_WIRE_FRAME_MAX) {
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

bool tern_wire_rest(TernWire *w)
{
    if (!w->peer) {
        return true;
    }
    qatomic_store_release(&w->own->tail, w->tail);
    qatomic_set(&w->own->wake_head, w->tail + 1);
    smp_mb();
    if (tern_passes(qatomic_read(&w->peer->wake_tail), w->told_tail, w->tail)) {
        tern_ring_bell(w);
    }
    w->told_tail = w->tail;
    return qatomic_load_acquire(&w->peer->head) == w->tail;
}

bool tern_wire_is_up(const TernWire *w)
{
    return w->peer != NULL;
}

/* ---- sessions; all with the BQL ---- */

static void tern_wire_say(TernWire *w, unsigned kind, int *fds, int num)
{
    TernWireMsg msg = {
        .magic = TERN_WIRE_MAGIC,
        .version = TERN_WIRE_VERSION,
        .kind = kind,
        .ring_bytes = TERN_RING_BYTES,
    };

    trace_tern_wire_say(w->dev, kind);
    if (num && qemu_chr_fe_set_msgfds(w->chr, fds, num) < 0) {
        warn_report("tern: the chardev of a wire must be a unix socket");
        return;
    }
    qemu_chr_fe_write_all(w->chr, (uint8_t *)&msg, sizeof(msg));
}

static void tern_wire_forget_peer(TernWire *w)
{
    const TernRing *mapped = w->mapped;

    tern_lock(w->dev);
    w->mapped = w->peer = NULL;
    tern_unlock(w->dev);
    if (mapped) {
        munmap((void *)mapped, sizeof(*mapped));
        close(event_notifier_get_fd(&w->peer_bell));
    }
}

/* Ends the session. */
static void tern_wire_forget(TernWire *w)
{
    tern_wire_forget_peer(w);
    if (w->own) {
        qemu_memfd_free(w->own, sizeof(*w->own), w->own_fd);
        w->own = NULL;
    }
}

/* Begins ours of a session. False: the wire stays cut. */
static bool tern_wire_offer(TernWire *w)
{
    Error *err = NULL;
    int fds[2];

    w->own = qemu_memfd_alloc("tern-wire", sizeof(*w->own),
                              F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
                              &w->own_fd, &err);
    if (!w->own) {
        warn_report_err(err);
        return false;
    }
    w->head = w->peer_tail = 0;
    w->own->wake_head = 1;
    fds[0] = w->own_fd;
    fds[1] = event_notifier_get_wfd(&w->bell);
    tern_wire_say(w, TERN_WIRE_RING, fds, ARRAY_SIZE(fds));
    return true;
}

/* Memory that is large enough, and stays so: else a look at it could kill us. */
static const TernRing *tern_wire_map(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *p;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 ||
        st.st_size < sizeof(TernRing)) {
        return NULL;
    }
    p = mmap(NULL, sizeof(TernRing), PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The other's part of a session. Takes the descriptors. */
static void tern_wire_accept(TernWire *w, const int fds[2])
{
    const TernRing *ring = tern_wire_map(fds[0]);

    close(fds[0]);
    tern_wire_forget_peer(w);
    if (!ring || (!w->own && !tern_wire_offer(w))) {
        warn_report("tern: the other end of the wire offers no ring");
        close(fds[1]);
        if (ring) {
            munmap((void *)ring, sizeof(*ring));
        }
        return;
    }
    /* Nobody can make us wait. */
    g_unix_set_fd_nonblocking(fds[1], true, NULL);
    event_notifier_init_fd(&w->peer_bell, fds[1]);
    tern_lock(w->dev);
    w->tail = w->told_tail = 0;
    qatomic_set(&w->own->tail, 0);
    w->mapped = w->peer = ring;
    tern_unlock(w->dev);
    trace_tern_wire_up(w->dev);
    /* What is there already has rung no bell that we heard. */
    event_notifier_set(&w->bell);
}

static void tern_wire_take(TernWire *w)
{
    int fds[2], num;

    if (w->msg.magic != TERN_WIRE_MAGIC ||
        w->msg.version != TERN_WIRE_VERSION ||
        w->msg.ring_bytes != TERN_RING_BYTES) {
        warn_report("tern: the other end of the wire speaks another language");
        qemu_chr_fe_disconnect(w->chr);
        return;
    }
    trace_tern_wire_take(w->dev, w->msg.kind);
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

    return sizeof(w->msg) - w->msg_len;
}

static void tern_wire_read(void *opaque, const uint8_t *buf, int size)
{
    TernWire *w = opaque;

    memcpy((uint8_t *)&w->msg + w->msg_len, buf, size);
    w->msg_len += size;
    if (w->msg_len == sizeof(w->msg)) {
        w->msg_len = 0;
        tern_wire_take(w);
    }
}

static void tern_wire_event(void *opaque, QEMUChrEvent event)
{
    TernWire *w = opaque;

    if (event == CHR_EVENT_OPENED) {
        w->msg_len = 0;
        tern_wire_say(w, TERN_WIRE_HELLO, NULL, 0);
    } else if (event == CHR_EVENT_CLOSED) {
        tern_wire_forget(w);
        tern_wire_changed(w->dev);
    }
}

static void tern_wire_rang(EventNotifier *bell)
{
    TernWire *w = container_of(bell, TernWire, bell);

    event_notifier_test_and_clear(bell);
    if (w->mapped && !w->peer) {
        tern_wire_forget(w);
        warn_report("tern: the other end of the wire breaks its rules");
        tern_wire_changed(w->dev);
        return;
    }
    tern_wire_moved(w->dev);
}

TernWire *tern_wire_open(TernState *s, CharBackend *chr, Error **errp)
{
    TernWire *w = g_new0(TernWire, 1);
    int ret = event_notifier_init(&w->bell, 0);

    if (ret < 0) {
        error_setg_errno(errp, -ret, "tern: no descriptor for the wire");
        g_free(w);
        return NULL;
    }
    w->dev = s;
    w->chr = chr;
    event_notifier_set_handler(&w->bell, tern_wire_rang);
    return w;
}

void tern_wire_start(TernWire *w)
{
    qemu_chr_fe_set_handlers(w->chr, tern_wire_can_read, tern_wire_read,
                             tern_wire_event, NULL, w, NULL, true);
}

void tern_wire_close(TernWire *w)
{
    tern_wire_say(w, TERN_WIRE_BYE, NULL, 0);
    qemu_chr_fe_set_handlers(w->chr, NULL, NULL, NULL, NULL, NULL, NULL, true);
    event_notifier_set_handler(&w->bell, NULL);
    tern_wire_forget(w);
    event_notifier_cleanup(&w->bell);
    g_free(w);
}
