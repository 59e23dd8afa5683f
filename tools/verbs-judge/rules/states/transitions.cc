// SPDX-License-Identifier: GPL-2.0-or-later
// Each transition of the table, and those that it lacks.
#include <cerrno>

#include "states.h"

namespace guest::states {
namespace {

// Returns whether the device claims that it can change this attribute where it is optional.
bool claims(const Device& dev, const Step& step, int bit) {
  const auto flag = [&dev](unsigned bits) { return (dev.attr().device_cap_flags & bits) != 0; };
  switch (bit) {
    case IBV_QP_ALT_PATH:
    case IBV_QP_PATH_MIG_STATE:
      return flag(IBV_DEVICE_AUTO_PATH_MIG);
    case IBV_QP_CUR_STATE:
      return flag(IBV_DEVICE_CURR_QP_STATE_MOD);
    case IBV_QP_MIN_RNR_TIMER:
      return flag(IBV_DEVICE_RC_RNR_NAK_GEN);
    case IBV_QP_PORT:
      return step.from != IBV_QPS_SQD || flag(IBV_DEVICE_CHANGE_PHY_PORT);
    default:
      return true;
  }
}

// Hardware and Linux are known to refuse some changes of a drained QP, and Linux alternate paths
// of Ethernet.
bool may_refuse(const Step& step, int bit) {
  return (step.from == IBV_QPS_SQD && step.to == IBV_QPS_SQD) || bit == IBV_QP_ALT_PATH;
}

// The resources of a responder that works: devices differ.
bool is_open(const Step& step, int bit) {
  return step.from == IBV_QPS_SQD && bit == IBV_QP_MAX_DEST_RD_ATOMIC;
}

// Linux adds the port to the address of a drained QP, and refuses the port of a UC QP.
bool is_lost(const Step& step, ibv_qp_type type, int bit) {
  return type == IBV_QPT_UC && step.from == IBV_QPS_SQD && bit == IBV_QP_AV;
}

// Attributes that Linux removes from the mask.
int ignored(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_XRC_SEND:
      return IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    case IBV_QPT_XRC_RECV:
      return IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
    default:
      return 0;
  }
}

void check_values(const Subject& subject, int mask) {
  const ibv_qp_attr set = subject.values();
  const ibv_qp_attr got = subject.query();
  for (const Attribute& a : attributes()) {
    if ((mask & a.bit) != 0) {
      require(a.same(set, got), "ibv_query_qp does not return {} as it was set", a.name);
    }
  }
}

void refuse_without(const Subject& subject, const Step& step, int required) {
  for (const Attribute& a : attributes()) {
    if ((required & a.bit) == 0) continue;
    subject.drive(step.from);
    const std::string what = std::format("without {}", a.name);
    require_refused(subject.modify(subject.values(), step.to, required & ~a.bit), EINVAL,
                    what.c_str());
    subject.require_state(step.from, what);
  }
}

void accept_with(const Device& dev, const Subject& subject, const Step& step, int required,
                 int optional) {
  for (const Attribute& a : attributes()) {
    if ((optional & a.bit) == 0 || !claims(dev, step, a.bit) ||
        is_lost(step, subject.type(), a.bit)) {
      continue;
    }
    subject.drive(step.from);
    ibv_qp_attr attr = subject.values();
    attr.cur_qp_state = step.from;
    const int err = subject.modify(attr, step.to, required | a.bit);
    if (err != 0 && is_open(step, a.bit)) {
      chose(std::format("with {}: {}", a.name, errno_name(err)));
    } else if (may_refuse(step, a.bit)) {
      require_usual(err == 0, "with {}: {}", a.name, errno_name(err));
    } else {
      require(err == 0, "with {}: {}", a.name, errno_name(err));
    }
    if (err != 0) continue;
    subject.require_state(step.to, a.name);
    check_values(subject, required | a.bit);
  }
}

void refuse_with(const Device& dev, const Subject& subject, ibv_qp_state from, ibv_qp_state to,
                 int required, int optional) {
  for (const Attribute& a : attributes()) {
    if (((required | optional | ignored(subject.type())) & a.bit) != 0) continue;
    if (a.bit == IBV_QP_CAP && (dev.attr().device_cap_flags & IBV_DEVICE_RESIZE_MAX_WR) != 0) {
      continue;
    }
    subject.drive(from);
    ibv_qp_attr attr = subject.values();
    attr.cur_qp_state = from;
    const std::string what = std::format("with {}", a.name);
    const int err = subject.modify(attr, to, required | a.bit);
    // EOPNOTSUPP of a device that can resize no QP, EINVAL of the table.
    require_refused(err, a.bit == IBV_QP_CAP && err == EOPNOTSUPP ? err : EINVAL, what.c_str());
    subject.require_state(from, what);
  }
}

void take_step(const Env& env, const Step& step, std::size_t column) {
  const Subject subject(env.dev, kColumns.at(column).type);
  const int required = step.required.at(column);
  const int optional = step.optional.at(column);
  subject.drive(step.from);
  const int err = subject.modify(subject.values(), step.to, required);
  if (step.from == IBV_QPS_SQD || step.to == IBV_QPS_SQD) {
    require_usual(err == 0, "{} to {}: {}", state_name(step.from), state_name(step.to),
                  errno_name(err));
    if (err != 0) skip("no {} to {}", state_name(step.from), state_name(step.to));
  }
  require(err == 0, "only with what is required: {}", errno_name(err));
  subject.require_state(step.to, "only with what is required");
  check_values(subject, required);
  refuse_without(subject, step, required);
  accept_with(env.dev, subject, step, required, optional);
  refuse_with(env.dev, subject, step.from, step.to, required, optional);
}

// To RESET or ERR, which takes no attributes.
void leave(const Env& env, ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  const Subject subject(env.dev, type);
  subject.drive(from);
  require_err(to_state(subject.qp(), to), 0, "without attributes");
  subject.require_state(to, "without attributes");
  refuse_with(env.dev, subject, from, to, 0, 0);
  // The QP can be used anew.
  subject.drive(IBV_QPS_RTR);
}

void missing_steps(const Env& env, ibv_qp_type type, ibv_qp_state from) {
  const Subject subject(env.dev, type);
  for (const ibv_qp_state to : kStates) {
    if (has_step(type, from, to)) continue;
    subject.drive(from);
    std::vector<int> masks{0};
    for (const Step& step : steps()) {
      if (step.to == to) {
        std::size_t column = 0;
        while (kColumns.at(column).type != type) column++;
        masks.push_back(step.required.at(column));
      }
    }
    for (const int mask : masks) {
      const std::string what = std::format("{} to {}", state_name(from), state_name(to));
      const int err = subject.modify(subject.values(), to, mask);
      // Figures and tables disagree on a QP in RESET.
      if (from == IBV_QPS_RESET && to == IBV_QPS_ERR) {
        if (!usually_refused(err, EINVAL, what.c_str())) break;
      } else {
        require_refused(err, EINVAL, what.c_str());
      }
      subject.require_state(from, what);
    }
  }
}

void add_leaving(Rules& rules, const Column& column, ibv_qp_state from) {
  for (const ibv_qp_state to : {IBV_QPS_RESET, IBV_QPS_ERR}) {
    if (!has_step(column.type, from, to)) continue;
    rules.push_back(
        {.name = std::format("{}_{}_to_{}", column.name, state_name(from), state_name(to)),
         .says = std::format("a {} QP goes from {} to {}, which takes no attributes", column.name,
                             state_name(from), state_name(to)),
         .run = [type = column.type, from, to](const Env& env) { leave(env, type, from, to); }});
  }
  rules.push_back(
      {.name = std::format("{}_{}_to_others", column.name, state_name(from)),
       .says = std::format("a {} QP in {} is refused each state that the table lacks", column.name,
                           state_name(from)),
       .run = [type = column.type, from](const Env& env) { missing_steps(env, type, from); }});
}

}  // namespace

Rules transitions() {
  Rules rules;
  for (std::size_t i = 0; i < kColumns.size(); i++) {
    const Column& column = kColumns[i];
    const bool has_sqe = column.type == IBV_QPT_UC || column.type == IBV_QPT_UD;
    for (const Step& step : steps()) {
      if (step.from == IBV_QPS_SQE && !has_sqe) continue;
      // The table of Linux has no drained QP of raw packets.
      if (column.type == IBV_QPT_RAW_PACKET && step.required[0] == 0) continue;
      rules.push_back(
          {.name =
               std::format("{}_{}_to_{}", column.name, state_name(step.from), state_name(step.to)),
           .says = std::format(
               "a {} QP goes from {} to {} with each attribute that is required, with those that "
               "are optional, and with no other",
               column.name, state_name(step.from), state_name(step.to)),
           .run = [&step, i](const Env& env) { take_step(env, step, i); }});
    }
    for (const ibv_qp_state from : kStates) {
      if (column.type == IBV_QPT_RAW_PACKET && (from == IBV_QPS_SQD || from == IBV_QPS_SQE)) {
        continue;
      }
      if (from != IBV_QPS_SQE || has_sqe) add_leaving(rules, column, from);
    }
  }
  return rules;
}

}  // namespace guest::states
