// SPDX-License-Identifier: GPL-2.0-or-later
#include "protection.h"

namespace guest::protection {

Rules all() {
  Rules rules;
  append(rules, domains(), "ibv_alloc_pd(3); IBTA volume 1, 10.2.3");
  append(rules, processes(), "IBTA volume 1, 10.2.3 and 10.6");
  return rules;
}

}  // namespace guest::protection
