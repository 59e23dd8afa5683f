// SPDX-License-Identifier: GPL-2.0-or-later
// Flows as filters of Linux's flower classifier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flow.h"

namespace guest::steering {

class Message;

// The filters at the ingress of an interface, which has the qdisc clsact.
class Flower {
 public:
  // All frames go on to the interface `sink`, so that the stack does not answer them.
  Flower(const char* ingress, const char* sink);
  ~Flower();
  Flower(const Flower&) = delete;
  Flower& operator=(const Flower&) = delete;

  // Replaces all filters. A frame gets the number of the flow that takes it, from 1 on, as its
  // mark.
  void install(std::span<const Flow> flows);

 private:
  void clear();
  void add(std::uint16_t preference, const Message& keys, std::uint32_t mark);
  void request(Message& message);

  int fd_;
  std::uint32_t ingress_;
  std::uint32_t sink_;
};

}  // namespace guest::steering
