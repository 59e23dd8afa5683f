// SPDX-License-Identifier: GPL-2.0-or-later
#include "connections.h"

namespace guest::connections {

Rules all() {
  Rules rules;
  append(rules, data(), "ibv_post_send(3); IBTA volume 1, 9.4 and 9.7");
  append(rules, queue(), "ibv_create_qp(3), ibv_post_send(3), ibv_wr_post(3)");
  append(rules, local_error(), "ibv_poll_cq(3); IBTA volume 1, 10.10");
  append(rules, remote_error(), "ibv_poll_cq(3); IBTA volume 1, 9.9 and 10.10");
  append(rules, state(), "ibv_modify_qp(3); IBTA volume 1, 10.3.1");
  append(rules, event(), "ibv_req_notify_cq(3), ibv_get_async_event(3)");
  append(rules, flush(), "ibv_wr_post(3); IBTA volume 1, annex A19");
  return rules;
}

}  // namespace guest::connections
