/*
 * tern: faults on demand, set at creation or while the machine runs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The engine applies rules and the ICRC mode. Surprise removal is done here: a
 * region over each BAR and the config space read ones, and the function loses
 * power. Putting the adapter back gives a function after power-on: its BARs are
 * not programmed, so software does not find it before the bus is scanned again.
 */

#include "qemu/osdep.h"
#include "qemu/host-utils.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/pci/pci.h"
#include "tern.h"
#include "trace.h"

/* ---- rules ---- */

static char *tern_get_faults(Object *obj, Error **errp)
{
    TernState *s = TERN(obj);
    char *text;
    size_t len;

    if (!s->started) {
        return g_strdup(s->faults ?: "");
    }
    tern_runner_lock(s->runner);
    len = tern_engine_get_faults(s->engine, NULL, 0);
    text = g_malloc(len + 1);
    tern_engine_get_faults(s->engine, text, len + 1);
    tern_runner_unlock(s->runner);
    return text;
}

/* With the lock, or before any other thread knows the engine. */
static bool tern_apply_faults(TernState *s, const char *text, Error **errp)
{
    char why[256];

    if (tern_engine_set_faults(s->engine, text, why, sizeof(why))) {
        return true;
    }
    error_setg(errp, "property 'faults': %s", why);
    return false;
}

static void tern_set_faults(Object *obj, const char *text, Error **errp)
{
    TernState *s = TERN(obj);

    if (!s->started) {
        g_free(s->faults);
        s->faults = g_strdup(text);
        return;
    }
    tern_runner_lock(s->runner);
    if (tern_apply_faults(s, text, errp)) {
        trace_tern_faults(s, text);
    }
    tern_runner_run(s->runner);
    tern_runner_unlock_and_deliver(s->runner);
}

/* ---- ICRC ---- */

static const QEnumLookup tern_icrc_lookup = {
    .array = (const char *const[]) {
        [TERN_ICRC_CHECK] = "check",
        [TERN_ICRC_WARN] = "warn",
        [TERN_ICRC_OFF] = "off",
    },
    .size = TERN_ICRC_OFF + 1,
};

static int tern_get_icrc(Object *obj, Error **errp)
{
    return TERN(obj)->icrc;
}

static void tern_set_icrc(Object *obj, int mode, Error **errp)
{
    TernState *s = TERN(obj);

    s->icrc = mode;
    if (s->started) {
        tern_runner_lock(s->runner);
        tern_engine_set_icrc_mode(s->engine, s->icrc);
        tern_runner_unlock(s->runner);
    }
}

/* ---- surprise removal ---- */

static uint64_t tern_gone_read(void *opaque, hwaddr addr, unsigned size)
{
    return UINT64_MAX;
}

static void tern_gone_write(void *opaque, hwaddr addr, uint64_t value,
                            unsigned size)
{
}

static const MemoryRegionOps tern_gone_ops = {
    .read = tern_gone_read,
    .write = tern_gone_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

/* Shows or hides the regions that read ones. */
static void tern_update_gone(TernState *s)
{
    memory_region_transaction_begin();
    for (int i = 0; i < TERN_GONE_REGIONS; i++) {
        memory_region_set_enabled(&s->gone[i], s->removed);
    }
    memory_region_transaction_commit();
}

static bool tern_get_removed(Object *obj, Error **errp)
{
    return TERN(obj)->removed;
}

static void tern_set_removed(Object *obj, bool removed, Error **errp)
{
    TernState *s = TERN(obj);

    if (removed == s->removed) {
        return;
    }
    s->removed = removed;
    if (!s->started) {
        return;
    }
    trace_tern_removed(s, removed);
    tern_runner_set_present(s->runner, !removed);
    if (removed) {
        /* Power is lost. The BARs' addresses are kept: they read ones. */
        device_cold_reset(DEVICE(s));
    } else {
        pci_device_reset(PCI_DEVICE(s));
    }
    tern_update_gone(s);
}

/* ---- speed of the port ---- */

static void tern_get_port_speed(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    TernState *s = TERN(obj);
    uint32_t mbps = s->port_speed ?: s->properties.speed;

    visit_type_uint32(v, name, &mbps, errp);
}

static void tern_set_port_speed(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    TernState *s = TERN(obj);
    uint32_t mbps;

    if (!visit_type_uint32(v, name, &mbps, errp)) {
        return;
    }
    if (!s->started || mbps == 0 || mbps > s->properties.speed) {
        error_setg(errp, "'%s' must be 1 to %" PRIu64 ", at run time", name,
                   s->properties.speed);
        return;
    }
    s->port_speed = mbps;
    tern_runner_set_speed(s->runner, mbps);
}

/* ---- life cycle ---- */

/* Covers @bar until tern_faults_stop(); visible only while removed. */
static void tern_add_gone(TernState *s, int i, MemoryRegion *bar)
{
    memory_region_init_io(&s->gone[i], OBJECT(s), &tern_gone_ops, s,
                          "tern-gone", memory_region_size(bar));
    memory_region_set_enabled(&s->gone[i], false);
    memory_region_add_subregion_overlap(bar, 0, &s->gone[i], 1);
}

bool tern_faults_apply(TernState *s, Error **errp)
{
    tern_engine_set_icrc_mode(s->engine, s->icrc);
    return !s->faults || tern_apply_faults(s, s->faults, errp);
}

void tern_faults_start(TernState *s)
{
    tern_add_gone(s, 0, &s->regs);
    tern_add_gone(s, 1, &s->uar);
    if (s->properties.dm_size) {
        tern_add_gone(s, 2, &s->dm);
    }
    tern_update_gone(s);
}

void tern_faults_stop(TernState *s)
{
    memory_region_del_subregion(&s->regs, &s->gone[0]);
    memory_region_del_subregion(&s->uar, &s->gone[1]);
    if (s->properties.dm_size) {
        memory_region_del_subregion(&s->dm, &s->gone[2]);
    }
}

void tern_faults_class_init(ObjectClass *klass)
{
    object_class_property_add_str(klass, "faults", tern_get_faults,
                                  tern_set_faults);
    object_class_property_add_enum(klass, "icrc", "TernIcrc", &tern_icrc_lookup,
                                   tern_get_icrc, tern_set_icrc);
    object_class_property_add(klass, "port-speed", "uint32",
                              tern_get_port_speed, tern_set_port_speed, NULL,
                              NULL);
    object_class_property_set_description(klass, "port-speed",
        "speed that the port reports, in Mbit/s, up to 'speed' (only at run "
        "time)");
    object_class_property_add_bool(klass, "removed", tern_get_removed,
                                   tern_set_removed);
    object_class_property_set_description(klass, "removed",
        "surprise removal: the function reads ones and does nothing (also at "
        "run time)");
}
