// SPDX-License-Identifier: GPL-2.0-or-later
// On-demand paging beside pinned memory.
#include <algorithm>
#include <vector>

#include "clock.h"
#include "measure.h"
#include "pages.h"

namespace guest::bench {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kFirstTouch = std::size_t{1} << 30;
constexpr std::uint32_t kMessage = 1 << 20;
constexpr std::uint32_t kPresent = 1 << 16;
constexpr std::uint32_t kInFlight = 8;
constexpr int kOnDemand = kAllAccess | IBV_ACCESS_ON_DEMAND;

MrPtr reg(const Device& dev, const Pages& pages, int access) {
  MrPtr mr(ibv_reg_mr(dev.pd(), pages.at(), pages.length(), static_cast<unsigned>(access)));
  if (!mr) fail_errno("ibv_reg_mr");
  return mr;
}

// Both ends of a connection in one thread; the memory written is any region of the PD.
class Writer {
 public:
  Writer(const Device& dev, std::uint32_t size)
      : end_(dev, {.part = Part::kNothing, .size = size, .buffers = kInFlight}),
        peer_(local_peer(dev)) {
    peer_->begin(end_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { peer_->finish(); }

  // Writes one message after the other until `total` bytes are there.
  void write(std::uint64_t to, std::uint32_t rkey, std::size_t total) {
    const std::uint32_t size = end_.job().size;
    std::size_t posted = 0;
    std::size_t done = 0;
    while (done < total) {
      for (; posted < total && posted - done < std::size_t{kInFlight} * size; posted += size) {
        ibv_sge sge{};
        ibv_send_wr wr = end_.request(IBV_WR_RDMA_WRITE,
                                      static_cast<std::uint32_t>(posted / size % kInFlight), sge);
        wr.wr.rdma = {.remote_addr = to + posted, .rkey = rkey};
        wr.send_flags = IBV_SEND_SIGNALED;
        end_.post(wr);
      }
      ibv_wc wcs[kInFlight];
      done += static_cast<std::size_t>(end_.poll(wcs, kInFlight)) * size;
    }
  }

 private:
  End end_;
  std::unique_ptr<Peer> peer_;
};

// A WRITE of a page that the process has and the device does not; then the page is taken away from
// both, and from the process only.
void faults(const Device& dev, const Scene& scene) {
  constexpr std::size_t kPages = 256;
  Writer writer(dev, 8);
  std::vector<std::uint64_t> fault;
  std::vector<std::uint64_t> taken;
  std::vector<std::uint64_t> alone;
  const auto take = [](const Pages& pages, std::vector<std::uint64_t>& times) {
    for (std::size_t p = 0; p < kPages; ++p) {
      const std::uint64_t first = ticks();
      if (::madvise(pages.at(p * kPage), kPage, MADV_DONTNEED) != 0) fail_errno("madvise");
      times.push_back(ticks() - first);
    }
  };
  const std::uint64_t begin = ticks();
  do {
    const Pages pages(kPages * kPage);
    const MrPtr mr = reg(dev, pages, kOnDemand);
    for (std::size_t p = 0; p < kPages; ++p) {
      const std::uint64_t first = ticks();
      writer.write(pages.address(p * kPage), mr->rkey, 8);
      fault.push_back(ticks() - first);
    }
    take(pages, taken);
    take(Pages(kPages * kPage), alone);
  } while (seconds_since(begin) < scene.seconds);
  report_times(scene, "fault", kPage, fault, 1);
  report_times(scene, "dont-need-on-demand", kPage, taken, 1);
  report_times(scene, "dont-need", kPage, alone, 1);
}

// Registers memory that nobody has touched, fills it by WRITEs, and deregisters it.
void first_touch(const Device& dev, const Scene& scene, const char* what, int access) {
  Writer writer(dev, kMessage);
  const Pages pages(kFirstTouch, MAP_NORESERVE);
  const std::uint64_t first = ticks();
  {
    const MrPtr mr = reg(dev, pages, access);
    writer.write(pages.address(), mr->rkey, kFirstTouch);
  }
  report(scene, what, kFirstTouch, seconds_since(first) * 1e6, "us");
}

// Messages to pages that are present, alternately to a pinned region and to one on demand.
void present(const Device& dev, const Scene& scene) {
  constexpr int kRounds = 20;
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const Pages pages(kBytes);
  Writer writer(dev, kPresent);
  const MrPtr pinned = reg(dev, pages, kAllAccess);
  const MrPtr on_demand = reg(dev, pages, kOnDemand);
  writer.write(pages.address(), on_demand->rkey, kBytes);
  std::vector<double> pinned_rates;
  std::vector<double> on_demand_rates;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [mr, rates] :
         {std::pair(&pinned, &pinned_rates), std::pair(&on_demand, &on_demand_rates)}) {
      const std::uint64_t first = ticks();
      writer.write(pages.address(), (*mr)->rkey, kBytes);
      rates->push_back(static_cast<double>(kBytes) / seconds_since(first) / 1e9);
    }
  }
  for (const auto& [what, rates] :
       {std::pair("write-pinned", &pinned_rates), std::pair("write-on-demand", &on_demand_rates)}) {
    std::ranges::sort(*rates);
    report(scene, what, kPresent, (*rates)[kRounds / 2], "GB/s");
  }
}

}  // namespace

void measure_on_demand(const Device& dev, const Scene& scene) {
  ibv_device_attr_ex attr{};
  if (ibv_query_device_ex(dev.context(), nullptr, &attr) != 0 ||
      !(attr.odp_caps.general_caps & IBV_ODP_SUPPORT) ||
      !(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE)) {
    return;
  }
  measure_registration(dev, scene, kOnDemand, "-on-demand");
  faults(dev, scene);
  first_touch(dev, scene, "first-touch-pinned", kAllAccess);
  first_touch(dev, scene, "first-touch-on-demand", kOnDemand);
  present(dev, scene);
}

}  // namespace guest::bench
