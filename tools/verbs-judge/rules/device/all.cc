// SPDX-License-Identifier: GPL-2.0-or-later
#include "device.h"

namespace guest::device {

Rules all() {
  Rules rules;
  append(rules, query(), "ibv_query_device(3)");
  append(rules, claims(), "ibv_query_device(3), ibv_query_device_ex(3)");
  append(rules, limits(), "ibv_query_device(3)");
  return rules;
}

}  // namespace guest::device
