// SPDX-License-Identifier: GPL-2.0-or-later
// Changes to established connections: rate limits, alternate paths.
#pragma once

#include <vector>

#include "tests/storm/flow.h"

namespace tern::storm {

class Changes {
 public:
  Changes(Context& context, const std::vector<ReliableFlow*>& flows) : c_(context), flows_(flows) {}

  // May change something. No data may be lost or come twice by that.
  void next();

 private:
  void limit(const ReliableFlow& flow, bool far);
  void arm(const ReliableFlow& flow);
  void migrate(const ReliableFlow& flow);

  Context& c_;
  const std::vector<ReliableFlow*>& flows_;
};

}  // namespace tern::storm
