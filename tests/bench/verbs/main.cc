// SPDX-License-Identifier: GPL-2.0-or-later
// verbs_bench: measures the performance of a device; prints lines of JSON.
//
//   verbs_bench [OPTION...] loop          both ends in this thread
//   verbs_bench [OPTION...] across HOST   with `serve` on HOST
//   verbs_bench [OPTION...] serve
//   verbs_bench [OPTION...] memory|limits
//
// OPTION: -d DEV, -g GID_INDEX, -t SECONDS, -o FIGURE (only this one, as write-bandwidth/65536)
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "clock.h"
#include "measure.h"

namespace guest::bench {
namespace {

constexpr const char* kPort = "18555";

int usage() {
  std::fputs(
      "usage: verbs_bench [-d DEV] [-g GID_INDEX] [-t SECONDS] [-o FIGURE] loop|across "
      "HOST|serve|memory|limits\n",
      stderr);
  return 2;
}

int run(const Scene& scene, int gid_index, const std::string& host) {
  const Device dev(scene.device, gid_index);
  tick_ns();
  if (scene.path == "serve") {
    serve(dev, kPort);
  } else if (scene.path == "memory") {
    measure_memory(dev, scene);
  } else if (scene.path == "limits") {
    measure_limits(dev, scene);
  } else {
    const auto peer = scene.path == "loop" ? local_peer(dev) : remote_peer(host, kPort);
    measure_messages(dev, *peer, scene);
  }
  return 0;
}

int main_of(int argc, char** argv) {
  Scene scene;
  scene.device = "tern0";
  int gid_index = -1;
  for (int c; (c = getopt(argc, argv, "d:g:t:o:")) != -1;) {
    switch (c) {
      case 'd':
        scene.device = optarg;
        break;
      case 'g':
        gid_index = std::atoi(optarg);
        break;
      case 't':
        scene.seconds = std::atof(optarg);
        break;
      case 'o':
        scene.only = optarg;
        break;
      default:
        return usage();
    }
  }
  const std::string word = optind < argc ? argv[optind] : "";
  const bool across = word == "across";
  if ((word != "loop" && word != "serve" && word != "memory" && word != "limits" && !across) ||
      argc - optind != (across ? 2 : 1)) {
    return usage();
  }
  scene.path = word;
  return run(scene, gid_index, across ? argv[optind + 1] : "");
}

}  // namespace
}  // namespace guest::bench

int main(int argc, char** argv) {
  try {
    return guest::bench::main_of(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "verbs_bench: %s\n", e.what());
    return 1;
  }
}
