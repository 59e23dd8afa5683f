/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tern.ko internals: devlink. */
#ifndef TERN_DEVLINK_H
#define TERN_DEVLINK_H

struct pci_dev;
struct tern_dev;

/* tern_devlink.c */
struct tern_dev *tern_devlink_alloc(struct pci_dev *pdev);
void tern_devlink_free(struct tern_dev *tdev);
void tern_devlink_lock(struct tern_dev *tdev);
void tern_devlink_unlock(struct tern_dev *tdev);
int tern_devlink_port_register(struct tern_dev *tdev);
void tern_devlink_port_unregister(struct tern_dev *tdev);
int tern_devlink_register(struct tern_dev *tdev);
void tern_devlink_unregister(struct tern_dev *tdev);

#ifndef TERN_WITHOUT_CC
/* tern_cc.c */
int tern_cc_register(struct tern_dev *tdev);
void tern_cc_unregister(struct tern_dev *tdev);

#endif
#endif /* TERN_DEVLINK_H */
