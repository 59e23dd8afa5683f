/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Included by the file with error recovery. pci_restore_state() had no effect
 * unless pci_save_state() was called since the last one. The declaration did
 * not change, so there is no test for it: an extra pci_save_state() does no
 * harm.
 */
#ifndef TERN_COMPAT_PCI_H
#define TERN_COMPAT_PCI_H

#include <linux/pci.h>

static inline void tern_compat_restore_state(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
}

#define pci_restore_state(pdev) tern_compat_restore_state(pdev)

#endif /* TERN_COMPAT_PCI_H */
