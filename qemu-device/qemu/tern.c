/*
 * tern: properties, PCI function, registers, reset.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Register and doorbell accesses go to the engine unchanged; nothing here
 * interprets them.
 */

#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/guest-random.h"
#include "qemu/host-utils.h"
#include "qemu/module.h"
#include "qapi/error.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "hw/pci/pci_bridge.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "hw/qdev-properties-system.h"
#include "hw/resettable.h"
#include "migration/vmstate.h"
#include "tern.h"
#include "trace.h"

/* Power management capability, version 3: D0 and D3hot, state kept in D3hot. */
#define TERN_PM_PMC         0x0003

/*
 * The PCI Express link. 16 lanes of 8 GT/s carry 104 Gbit/s of payload in TLPs
 * of 128 bytes, the largest that we and QEMU's ports have.
 */
#define TERN_LINK_WIDTH     QEMU_PCI_EXP_LNK_X16
#define TERN_LINK_8GT_MBPS  100000ULL

/* ---- registers and doorbells ---- */

/*
 * An access that began before the device was unplugged may end after it, and an
 * access may come from within map().
 */
static bool tern_is_ready(TernState *s)
{
    if (s->in_map) {
        trace_tern_reentered(s);
    }
    return s->started && !s->in_map;
}

/* Whether this is a word: the contract has aligned 32-bit accesses only. */
static bool tern_is_word(TernState *s, const char *region, hwaddr addr,
                         unsigned size)
{
    if (size == 4 && !(addr & 3)) {
        return true;
    }
    trace_tern_bad_access(s, region, addr, size);
    return false;
}

static uint64_t tern_regs_read(void *opaque, hwaddr addr, unsigned size)
{
    TernState *s = opaque;
    uint32_t value;

    if (!tern_is_ready(s) || addr >= TERN_MSIX_TABLE_OFFSET ||
        !tern_is_word(s, "regs", addr, size)) {
        return UINT64_MAX;
    }
    tern_runner_lock(s->runner);
    value = tern_engine_reg_read(s->engine, addr);
    tern_runner_unlock(s->runner);
    trace_tern_reg_read(s, addr, value);
    return value;
}

static void tern_regs_write(void *opaque, hwaddr addr, uint64_t value,
                            unsigned size)
{
    TernState *s = opaque;

    if (!tern_is_ready(s) || addr >= TERN_MSIX_TABLE_OFFSET ||
        !tern_is_word(s, "regs", addr, size)) {
        return;
    }
    trace_tern_reg_write(s, addr, value);
    tern_runner_lock(s->runner);
    tern_engine_reg_write(s->engine, addr, value);
    tern_runner_run(s->runner);
    tern_runner_unlock_and_deliver(s->runner);
}

static uint64_t tern_uar_read(void *opaque, hwaddr addr, unsigned size)
{
    TernState *s = opaque;
    uint32_t value;

    if (!tern_is_ready(s) || !tern_is_word(s, "uar", addr, size)) {
        return UINT64_MAX;
    }
    tern_runner_lock(s->runner);
    value = tern_engine_uar_read(s->engine, addr);
    tern_runner_unlock(s->runner);
    trace_tern_uar_read(s, addr, value);
    return value;
}

static void tern_uar_write(void *opaque, hwaddr addr, uint64_t value,
                           unsigned size)
{
    TernState *s = opaque;

    if (!tern_is_ready(s) || !tern_is_word(s, "uar", addr, size)) {
        return;
    }
    trace_tern_doorbell(s, addr, value);
    tern_runner_doorbell(s->runner, addr, value);
}

/* Accesses of any size reach us whole, so that invalid ones can read ones. */
static const MemoryRegionOps tern_regs_ops = {
    .read = tern_regs_read,
    .write = tern_regs_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static const MemoryRegionOps tern_uar_ops = {
    .read = tern_uar_read,
    .write = tern_uar_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

/* ---- power and reset ---- */

/* Copies the DMA and power state of config space for threads without BQL. */
static void tern_update_power(TernState *s)
{
    PCIDevice *dev = PCI_DEVICE(s);
    bool bus_master = pci_get_word(dev->config + PCI_COMMAND) &
                      PCI_COMMAND_MASTER;
    bool awake = !(pci_get_word(dev->config + dev->pm_cap + PCI_PM_CTRL) &
                   PCI_PM_CTRL_STATE_MASK);

    if (tern_defer(s, TERN_DEFERRED_POWER) ||
        (bus_master == s->bus_master && awake == s->awake)) {
        return;
    }
    trace_tern_power(s, bus_master, awake);
    tern_runner_lock(s->runner);
    s->bus_master = bus_master;
    s->awake = awake;
    tern_runner_set_awake(s->runner, awake);
    tern_runner_unlock_without_delivering(s->runner);
}

static uint32_t tern_read_config(PCIDevice *dev, uint32_t addr, int len)
{
    return TERN(dev)->removed ? UINT32_MAX
                              : pci_default_read_config(dev, addr, len);
}

static void tern_write_config(PCIDevice *dev, uint32_t addr, uint32_t val,
                              int len)
{
    if (TERN(dev)->removed) {
        return;
    }
    pci_default_write_config(dev, addr, val, len);
    pcie_cap_flr_write_config(dev, addr, val, len);
    tern_update_power(TERN(dev));
}

static void tern_reset(TernState *s)
{
    uint32_t generation;

    if (tern_defer(s, TERN_DEFERRED_RESET)) {
        return;
    }
    tern_runner_lock(s->runner);
    s->bus_master = false;
    s->awake = true;
    generation = tern_runner_reset(s->runner);
    trace_tern_reset(s, generation);
    tern_runner_unlock(s->runner);
}

/* Reset of the machine, the bus or (FLR) the function; config space follows. */
static void tern_reset_hold(Object *obj, ResetType type)
{
    TernState *s = TERN(obj);

    if (s->started) {
        tern_reset(s);
    }
}

/* ---- calls from within map(): see the locks in tern.h ---- */

bool tern_defer(TernState *s, TernDeferred what)
{
    if (s->in_map) {
        trace_tern_reentered(s);
        s->bus_master = false;
        s->deferred |= BIT(what) | BIT(TERN_DEFERRED_POWER);
    }
    return s->in_map;
}

static void tern_do_deferred(void *opaque)
{
    static void (*const calls[TERN_NUM_DEFERRED])(TernState *s) = {
        [TERN_DEFERRED_RESET] = tern_reset,
        [TERN_DEFERRED_LAYOUT] = tern_dma_changed,
        [TERN_DEFERRED_VM_STATE] = tern_vm_changed,
        [TERN_DEFERRED_POWER] = tern_update_power,
    };
    TernState *s = opaque;
    unsigned long deferred = s->deferred;

    s->deferred = 0;
    for (int i = 0; i < TERN_NUM_DEFERRED; i++) {
        /* A call may unplug the device. */
        if (s->started && (deferred & BIT(i))) {
            calls[i](s);
        }
    }
}

/* ---- host functions and properties ---- */

static uint64_t tern_host_now(void *opaque)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static uint64_t tern_host_random(void *opaque)
{
    uint64_t value;

    qemu_guest_getrandom_nofail(&value, sizeof(value));
    return value;
}

static const TernHostOps tern_host_ops = {
    .map = tern_dma_map,
    .unmap = tern_dma_unmap,
    .now = tern_host_now,
    .random = tern_host_random,
    .dm_written = tern_dm_written,
    .ram_written = tern_ram_written,
};

static bool tern_check_properties(TernState *s, Error **errp)
{
    char why[256];

    if (!tern_properties_check(&s->properties, why, sizeof(why))) {
        error_setg(errp, "%s", why);
        return false;
    }
    if (!pci_bus_is_express(pci_get_bus(PCI_DEVICE(s)))) {
        error_setg(errp, "tern needs a PCI Express bus");
        return false;
    }
    if (s->conf.peers.ncs[0] && qemu_chr_fe_backend_connected(&s->wire_chr)) {
        error_setg(errp, "properties 'netdev' and 'wire' exclude each other");
        return false;
    }
    return true;
}

/* ---- a rule switched off, in test builds ---- */

static void tern_refuse_mutation(const char *rule, Error **errp)
{
    g_autoptr(GString) names = g_string_new(NULL);
    const char *name;

    for (size_t i = 0; (name = tern_engine_mutation(i)); i++) {
        g_string_append_printf(names, "%s%s", i ? ", " : "", name);
    }
    error_setg(errp, "property 'mutate' must be empty or one of %s, not '%s'",
               names->str, rule);
}

static bool tern_knows_mutation(const char *rule)
{
    const char *name;

    for (size_t i = 0; *rule && (name = tern_engine_mutation(i)); i++) {
        if (!strcmp(name, rule)) {
            return true;
        }
    }
    return !*rule;
}

static char *tern_get_mutation(Object *obj, Error **errp)
{
    TernState *s = TERN(obj);

    return g_strdup(s->mutation ?: "");
}

/* Allowed while the device works, too. */
static void tern_set_mutation(Object *obj, const char *rule, Error **errp)
{
    TernState *s = TERN(obj);

    if (!tern_knows_mutation(rule)) {
        tern_refuse_mutation(rule, errp);
        return;
    }
    g_free(s->mutation);
    s->mutation = g_strdup(rule);
    if (s->started) {
        tern_runner_lock(s->runner);
        tern_engine_set_mutation(s->engine, rule);
        tern_runner_unlock(s->runner);
    }
}

static bool tern_get_pcap_full(Object *obj, Error **errp)
{
    return tern_pcap_is_full(TERN(obj)->pcap);
}

static void tern_init(Object *obj)
{
    TernState *s = TERN(obj);

    if (tern_engine_mutation(0)) {
        s->mutation = g_strdup(getenv("TERN_MUTATE"));
    }
}

static void tern_free(TernState *s)
{
    tern_runner_free(s->runner);
    s->runner = NULL;
    tern_engine_free(s->engine);
    s->engine = NULL;
}

static void tern_finalize(Object *obj)
{
    TernState *s = TERN(obj);

    tern_free(s);
    g_free(s->mutation);
    g_free(s->faults);
}

/* ---- realize ---- */

/*
 * Device memory is RAM: the CPU accesses it without an exit. Migration knows it
 * by name from realize to exit, because the device after us in the slot may be
 * created before ours is freed.
 */
static bool tern_make_dm(TernState *s, Error **errp)
{
    return !s->properties.dm_size ||
           memory_region_init_ram_nomigrate(&s->dm, OBJECT(s), "tern-dm",
                                            pow2ceil(s->properties.dm_size),
                                            errp);
}

static bool tern_make_engine(TernState *s, Error **errp)
{
    TernConfig config = {
        .properties = &s->properties,
        .dm_storage = s->properties.dm_size ? memory_region_get_ram_ptr(&s->dm)
                                            : NULL,
        .capture = s->properties.pcap != NULL,
    };

    qemu_macaddr_default_if_unset(&s->conf.macaddr);
    memcpy(config.mac, s->conf.macaddr.a, sizeof(config.mac));
    s->engine = tern_engine_new(&config, &tern_host_ops, s);
    if (!s->engine) {
        error_setg(errp, "tern: the engine refuses these properties");
        return false;
    }
    if (s->mutation && !tern_engine_set_mutation(s->engine, s->mutation)) {
        tern_refuse_mutation(s->mutation, errp);
        tern_engine_free(s->engine);
        s->engine = NULL;
        return false;
    }
    return true;
}

/* The lowest speed, at least 8 GT/s, at which the link sustains the port. */
static PCIExpLinkSpeed tern_link_speed(const TernState *s)
{
    PCIExpLinkSpeed speed = QEMU_PCI_EXP_LNK_8GT;
    uint64_t sustained = TERN_LINK_8GT_MBPS;

    while (sustained < s->properties.speed && speed < QEMU_PCI_EXP_LNK_64GT) {
        sustained *= 2;
        speed++;
    }
    return speed;
}

/*
 * A link runs at the speed and width that both ends support. When software
 * reads the port's status, pcie_sync_bridge_lnk() does the same for its end.
 */
static void tern_negotiate_link(PCIDevice *dev, const PCIDevice *port)
{
    uint8_t *status = dev->config + dev->exp.exp_cap + PCI_EXP_LNKSTA;
    uint32_t other = pci_get_long(port->config + port->exp.exp_cap +
                                  PCI_EXP_LNKCAP);
    uint16_t ours = pci_get_word(status);
    uint16_t width = MIN(ours & PCI_EXP_LNKSTA_NLW, other & PCI_EXP_LNKCAP_MLW);
    uint16_t speed = MIN(ours & PCI_EXP_LNKSTA_CLS, other & PCI_EXP_LNKCAP_SLS);

    /* A port whose capability has neither runs at the minimum. */
    width = MAX(width, QEMU_PCI_EXP_LNKSTA_NLW(QEMU_PCI_EXP_LNK_X1));
    speed = MAX(speed, QEMU_PCI_EXP_LNKSTA_CLS(QEMU_PCI_EXP_LNK_2_5GT));
    pci_set_word(status, width | speed);
}

static void tern_init_link(TernState *s)
{
    PCIDevice *dev = PCI_DEVICE(s);
    PCIBus *bus = pci_get_bus(dev);
    uint8_t *cap = dev->config + dev->exp.exp_cap;

    /* On a root bus we are an integrated endpoint, which has no link. */
    if (pci_bus_is_root(bus)) {
        pci_set_long(cap + PCI_EXP_LNKCAP, 0);
        pci_set_word(cap + PCI_EXP_LNKSTA, 0);
        return;
    }
    pcie_cap_fill_link_ep_usp(dev, TERN_LINK_WIDTH, tern_link_speed(s));
    tern_negotiate_link(dev, pci_bridge_get_device(bus));
}

static bool tern_add_capabilities(TernState *s, Error **errp)
{
    PCIDevice *dev = PCI_DEVICE(s);
    int pos;

    if (pcie_endpoint_cap_init(dev, 0) < 0) {
        error_setg(errp, "tern: no room for the PCI Express capability");
        return false;
    }
    tern_init_link(s);
    pcie_cap_flr_init(dev);

    pos = pci_pm_init(dev, 0, errp);
    if (pos < 0) {
        return false;
    }
    pci_set_word(dev->config + pos + PCI_PM_PMC, TERN_PM_PMC);
    pci_set_word(dev->config + pos + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET);
    pci_set_word(dev->wmask + pos + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);

    if (msix_init(dev, s->properties.vectors, &s->regs, TERN_BAR_REGS,
                  TERN_MSIX_TABLE_OFFSET, &s->regs, TERN_BAR_REGS,
                  TERN_MSIX_PBA_OFFSET, 0, errp)) {
        return false;
    }
    for (unsigned i = 0; i < s->properties.vectors; i++) {
        msix_vector_use(dev, i);
    }
    return true;
}

static void tern_add_bars(TernState *s)
{
    PCIDevice *dev = PCI_DEVICE(s);

    pci_register_bar(dev, TERN_BAR_REGS, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->regs);
    pci_register_bar(dev, TERN_BAR_UAR, PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64, &s->uar);
    if (s->properties.dm_size) {
        pci_register_bar(dev, TERN_BAR_DM, PCI_BASE_ADDRESS_SPACE_MEMORY |
                         PCI_BASE_ADDRESS_MEM_TYPE_64 |
                         PCI_BASE_ADDRESS_MEM_PREFETCH, &s->dm);
    }
}

static void tern_realize(PCIDevice *dev, Error **errp)
{
    TernState *s = TERN(dev);

    tern_free(s);
    if (!tern_check_properties(s, errp)) {
        return;
    }
    if (s->properties.pcap) {
        s->pcap = tern_pcap_open(s->properties.pcap, s->properties.pcap_limit,
                                 errp);
        if (!s->pcap) {
            return;
        }
    }
    memory_region_init_io(&s->regs, OBJECT(s), &tern_regs_ops, s, "tern-regs",
                          TERN_BAR_REGS_SIZE);
    memory_region_init_io(&s->uar, OBJECT(s), &tern_uar_ops, s, "tern-uar",
                          s->properties.uar_size);
    if (!tern_events_open(s, errp) || !tern_make_dm(s, errp) ||
        !tern_make_engine(s, errp)) {
        goto close_files;
    }
    if (!tern_faults_apply(s, errp) || !tern_add_capabilities(s, errp)) {
        goto free_engine;
    }
    tern_add_bars(s);
    tern_faults_start(s);

    s->deferred_bh = qemu_bh_new_guarded(tern_do_deferred, s,
                                         &DEVICE(s)->mem_reentrancy_guard);
    tern_start(s);
    s->started = true;
    tern_dma_start(s);
    if (s->properties.dm_size) {
        vmstate_register_ram(&s->dm, DEVICE(s));
    }
    return;

free_engine:
    tern_engine_free(s->engine);
    s->engine = NULL;
close_files:
    tern_events_close(s);
    tern_pcap_close(s->pcap);
    s->pcap = NULL;
}

/* Ends all that needs the engine lock to end. */
static void tern_halt(TernState *s)
{
    /* The worker never wants the BQL, which we hold. */
    tern_runner_stop(s->runner);
    tern_dma_forget(s);
    tern_stop(s);
    qemu_bh_delete(s->deferred_bh);
    s->deferred_bh = NULL;
    tern_events_close(s);
    tern_pcap_close(s->pcap);
    s->pcap = NULL;
}

static void tern_release(struct rcu_head *rcu)
{
    TernState *s = container_of(rcu, TernState, rcu);

    if (s->deferred_bh) {
        tern_halt(s);
    }
    object_unref(OBJECT(s));
}

/*
 * An interrupt, ours or one that reports an IOMMU fault, can be a store to the
 * register that unplugs us. The runner is then on the stack, so it lives until
 * the BQL is released; within map() it also continues until then.
 */
static void tern_exit(PCIDevice *dev)
{
    TernState *s = TERN(dev);

    object_ref(OBJECT(s));
    call_rcu1(&s->rcu, tern_release);
    s->started = false;
    if (s->properties.dm_size) {
        vmstate_unregister_ram(&s->dm, DEVICE(s));
    }
    /*
     * Do not notify the engine: the worker must not conclude that there is no
     * IOMMU any more, and translate without the BQL.
     */
    tern_dma_stop(s);
    if (s->in_map) {
        s->bus_master = false;
    } else {
        tern_halt(s);
    }
    tern_faults_stop(s);
    pcie_cap_exit(dev);
    msix_unuse_all_vectors(dev);
    msix_uninit(dev, &s->regs, &s->regs);
}

/* ---- migration ---- */

static int tern_post_save(void *opaque)
{
    TernState *s = opaque;

    free(s->state);
    s->state = NULL;
    s->state_len = 0;
    return 0;
}

/*
 * The machine is stopped, and the runner has delivered what it could. The state
 * of the engine is one buffer: the engine checks its version.
 */
static int tern_pre_save(void *opaque)
{
    TernState *s = opaque;
    size_t len = 0;
    char why[256];

    if (s->removed) {
        error_report("tern: a device that was removed cannot migrate");
        return -EBUSY;
    }
    s->state = tern_runner_save(s->runner, &len, why, sizeof(why));
    if (!s->state) {
        error_report("tern: %s", why);
        return -EINVAL;
    }
    s->state_len = len;
    if (s->state_len != len) {
        tern_post_save(s);
        return -EFBIG;
    }
    return 0;
}

static bool tern_load_settings(TernState *s, char *why, size_t size)
{
    if (s->icrc < TERN_ICRC_CHECK || s->icrc > TERN_ICRC_OFF ||
        s->port_speed > s->properties.speed) {
        snprintf(why, size, "the ICRC mode or the port's speed is wrong");
        return false;
    }
    tern_runner_lock(s->runner);
    tern_engine_set_icrc_mode(s->engine, s->icrc);
    tern_runner_unlock(s->runner);
    /* The engine's state has the same speed: software gets no event. */
    tern_runner_set_speed(s->runner, s->port_speed);
    return true;
}

/* Config space and MSI-X are those of the source by now. */
static int tern_post_load(void *opaque, int version_id)
{
    TernState *s = opaque;
    char why[256];
    bool ok;

    tern_update_power(s);
    ok = tern_load_settings(s, why, sizeof(why)) &&
         tern_runner_load(s->runner, s->state, s->state_len, why, sizeof(why));
    g_free(s->state);
    s->state = NULL;
    s->state_len = 0;
    if (!ok) {
        error_report("tern: %s", why);
        return -EINVAL;
    }
    return 0;
}

static const VMStateDescription vmstate_tern = {
    .name = TYPE_TERN,
    .version_id = 2,
    .minimum_version_id = 2,
    .pre_save = tern_pre_save,
    .post_save = tern_post_save,
    .post_load = tern_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_PCI_DEVICE(parent_obj, TernState),
        VMSTATE_MSIX(parent_obj, TernState),
        VMSTATE_INT32(icrc, TernState),
        VMSTATE_UINT32(port_speed, TernState),
        VMSTATE_UINT32(state_len, TernState),
        VMSTATE_VBUFFER_ALLOC_UINT32(state, TernState, 1, NULL, state_len),
        VMSTATE_END_OF_LIST()
    },
};

/* ---- class ---- */

static const Property tern_own_properties[] = {
    DEFINE_NIC_PROPERTIES(TernState, conf),
    DEFINE_PROP_CHR("wire", TernState, wire_chr),
};

/* Makes a property of a row of the engine's table. */
static Property tern_make_property(const TernProperty *row)
{
    static const PropertyInfo *const infos[TERN_NUM_PROPERTY_TYPES] = {
        [TERN_PROPERTY_NUMBER] = &qdev_prop_uint64,
        [TERN_PROPERTY_SIZE] = &qdev_prop_size,
        [TERN_PROPERTY_SWITCH] = &qdev_prop_bool,
        [TERN_PROPERTY_CHOICE] = &qdev_prop_string,
        [TERN_PROPERTY_TEXT] = &qdev_prop_string,
    };

    return (Property) {
        .name = row->name,
        .info = infos[row->type],
        .offset = offsetof(TernState, properties) + row->offset,
        .set_default = row->type <= TERN_PROPERTY_SWITCH,
        .defval.u = row->initial,
    };
}

/* Makes QEMU's own properties, and those of the engine's table. */
static void tern_add_properties(ObjectClass *klass)
{
    GArray *properties = g_array_new(false, false, sizeof(Property));
    const TernProperty *row;

    g_array_append_vals(properties, tern_own_properties,
                        ARRAY_SIZE(tern_own_properties));
    for (size_t i = 0; (row = tern_property(i)); i++) {
        if (row->offset >= 0) {
            Property property = tern_make_property(row);

            g_array_append_val(properties, property);
        }
    }
    /* They live as long as the class: for ever. */
    device_class_set_props_n(DEVICE_CLASS(klass), (Property *)properties->data,
                             properties->len);
    g_array_free(properties, false);

    object_class_property_set_description(klass, "netdev",
        "the wire: ID of a -netdev; without one there is no link");
    object_class_property_set_description(klass, "wire",
        "instead: ID of a -chardev, a unix socket whose other end is the wire "
        "of a tern device on the same host");
    for (size_t i = 0; (row = tern_property(i)); i++) {
        ObjectProperty *property = object_class_property_find(klass, row->name);

        object_class_property_set_description(klass, row->name, row->help);
        if (row->text) {
            object_property_set_default_str(property, row->text);
        }
    }
}

static void tern_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    pc->realize = tern_realize;
    pc->exit = tern_exit;
    pc->config_read = tern_read_config;
    pc->config_write = tern_write_config;
    pc->vendor_id = TERN_PCI_VENDOR_ID;
    pc->device_id = TERN_PCI_DEVICE_ID;
    pc->revision = TERN_PCI_REVISION;
    pc->class_id = TERN_PCI_CLASS >> 8;
    rc->phases.hold = tern_reset_hold;
    dc->desc = "tern RoCEv2 host channel adapter";
    dc->vmsd = &vmstate_tern;
    object_class_property_add_bool(klass, "pcap-full", tern_get_pcap_full, NULL);
    object_class_property_set_description(klass, "pcap-full",
        "the capture has ended because of pcap-limit (read only)");
    if (tern_engine_mutation(0)) {
        object_class_property_add_str(klass, "mutate", tern_get_mutation,
                                      tern_set_mutation);
        object_class_property_set_description(klass, "mutate",
            "rule of memory windows that is switched off, for tests; the "
            "default is $TERN_MUTATE");
    }
    tern_faults_class_init(klass);
    tern_add_properties(klass);
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
}

static const TypeInfo tern_type = {
    .name = TYPE_TERN,
    .parent = TYPE_PCI_DEVICE,
    .instance_size = sizeof(TernState),
    .instance_init = tern_init,
    .instance_finalize = tern_finalize,
    .class_init = tern_class_init,
    .interfaces = (InterfaceInfo[]) {
        { INTERFACE_PCIE_DEVICE },
        { }
    },
};

static void tern_register_types(void)
{
    type_register_static(&tern_type);
}

type_init(tern_register_types)
