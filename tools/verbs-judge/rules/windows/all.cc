// SPDX-License-Identifier: GPL-2.0-or-later
#include "suite.h"

namespace guest::windows {

Rules all() {
  Rules rules;
  add_type1(rules);
  add_type2(rules);
  add_access(rules);
  add_binds(rules);
  add_invalidations(rules);
  add_ends(rules);
  add_memory(rules);
  return rules;
}

}  // namespace guest::windows
