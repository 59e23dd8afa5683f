/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tern.ko internals: the devlink health reporter. */
#ifndef TERN_HEALTH_H
#define TERN_HEALTH_H

struct tern_dev;

void tern_health_init(struct tern_dev *tdev);
int tern_health_register(struct tern_dev *tdev);
void tern_health_unregister(struct tern_dev *tdev);
void tern_health_start(struct tern_dev *tdev);
void tern_health_stop(struct tern_dev *tdev);
void tern_health_good(struct tern_dev *tdev);
bool tern_report_due(struct tern_dev *tdev);

#endif /* TERN_HEALTH_H */
