// SPDX-License-Identifier: GPL-2.0-or-later
// Methods of uverbs: a valid request by a table, then some of it changed.
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/tern-abi.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "raw.h"

namespace guest::uverbsfuzz {
namespace {

enum class Kind { kValue, kOut, kHandle, kNew, kFile, kDriverIn, kDriverOut, kAddress };

// kValue: `bytes` wide, mostly `value`. kOut: a response of `bytes`. kHandle, kNew: of the type
// `value`. kAddress: a value that is an address of the process.
struct Spec {
  unsigned id;
  Kind kind;
  std::uint16_t bytes = 0;
  std::uint64_t value = 0;
};

struct MethodId {
  std::uint16_t object;
  std::uint16_t method;
};
struct MethodSpec : MethodId {
  std::vector<Spec> attrs;
};

using enum Kind;

constexpr std::uint64_t kAccess = 0xf;  // local write, remote read, write and atomics

#define DESTROY(type)                                                \
  MethodSpec({UVERBS_OBJECT_##type, UVERBS_METHOD_##type##_DESTROY}, \
             {{UVERBS_ATTR_DESTROY_##type##_HANDLE, kHandle, 0, UVERBS_OBJECT_##type}})

const std::vector<MethodSpec> kQueueMethods = {
    {{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE},
     {{UVERBS_ATTR_CREATE_CQ_HANDLE, kNew, 0, UVERBS_OBJECT_CQ},
      {UVERBS_ATTR_CREATE_CQ_CQE, kValue, 4, 1},
      {UVERBS_ATTR_CREATE_CQ_USER_HANDLE, kValue, 8, 7},
      {UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, kValue, 4, 0},
      {UVERBS_ATTR_CREATE_CQ_RESP_CQE, kOut, 4},
      {UVERBS_ATTR_UHW_IN, kDriverIn},
      {UVERBS_ATTR_UHW_OUT, kDriverOut, sizeof(tern_uresp_create_cq)}}},
    {{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY},
     {{UVERBS_ATTR_DESTROY_CQ_HANDLE, kHandle, 0, UVERBS_OBJECT_CQ},
      {UVERBS_ATTR_DESTROY_CQ_RESP, kOut, sizeof(ib_uverbs_destroy_cq_resp)}}},
    {{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE},
     {{UVERBS_ATTR_CREATE_QP_HANDLE, kNew, 0, UVERBS_OBJECT_QP},
      {UVERBS_ATTR_CREATE_QP_PD_HANDLE, kHandle, 0, UVERBS_OBJECT_PD},
      {UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, kHandle, 0, UVERBS_OBJECT_CQ},
      {UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, kHandle, 0, UVERBS_OBJECT_CQ},
      {UVERBS_ATTR_CREATE_QP_USER_HANDLE, kValue, 8, 7},
      {UVERBS_ATTR_CREATE_QP_CAP, kValue, sizeof(ib_uverbs_qp_cap), 1},
      {UVERBS_ATTR_CREATE_QP_TYPE, kValue, 8, IB_UVERBS_QPT_RC},
      {UVERBS_ATTR_CREATE_QP_RESP_CAP, kOut, sizeof(ib_uverbs_qp_cap)},
      {UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, kOut, 4},
      {UVERBS_ATTR_UHW_IN, kDriverIn}}},
    {{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE},
     {{UVERBS_ATTR_CREATE_QP_HANDLE, kNew, 0, UVERBS_OBJECT_QP},
      {UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, kHandle, 0, UVERBS_OBJECT_XRCD},
      {UVERBS_ATTR_CREATE_QP_USER_HANDLE, kValue, 8, 7},
      {UVERBS_ATTR_CREATE_QP_CAP, kValue, sizeof(ib_uverbs_qp_cap), 0},
      {UVERBS_ATTR_CREATE_QP_TYPE, kValue, 8, IB_UVERBS_QPT_XRC_TGT},
      {UVERBS_ATTR_CREATE_QP_RESP_CAP, kOut, sizeof(ib_uverbs_qp_cap)},
      {UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, kOut, 4}}},
    {{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY},
     {{UVERBS_ATTR_DESTROY_QP_HANDLE, kHandle, 0, UVERBS_OBJECT_QP},
      {UVERBS_ATTR_DESTROY_QP_RESP, kOut, sizeof(ib_uverbs_destroy_qp_resp)}}},
    {{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE},
     {{UVERBS_ATTR_CREATE_SRQ_HANDLE, kNew, 0, UVERBS_OBJECT_SRQ},
      {UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, kHandle, 0, UVERBS_OBJECT_PD},
      {UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, kValue, 8, 7},
      {UVERBS_ATTR_CREATE_SRQ_MAX_WR, kValue, 4, 1},
      {UVERBS_ATTR_CREATE_SRQ_MAX_SGE, kValue, 4, 1},
      {UVERBS_ATTR_CREATE_SRQ_LIMIT, kValue, 4, 0},
      {UVERBS_ATTR_CREATE_SRQ_TYPE, kValue, 8, IB_UVERBS_SRQT_BASIC},
      {UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, kOut, 4},
      {UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, kOut, 4},
      {UVERBS_ATTR_UHW_IN, kDriverIn},
      {UVERBS_ATTR_UHW_OUT, kDriverOut, sizeof(tern_uresp_create_srq)}}},
    {{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY},
     {{UVERBS_ATTR_DESTROY_SRQ_HANDLE, kHandle, 0, UVERBS_OBJECT_SRQ},
      {UVERBS_ATTR_DESTROY_SRQ_RESP, kOut, sizeof(ib_uverbs_destroy_srq_resp)}}},
    {{UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE},
     {{UVERBS_ATTR_CREATE_WQ_HANDLE, kNew, 0, UVERBS_OBJECT_WQ},
      {UVERBS_ATTR_CREATE_WQ_PD_HANDLE, kHandle, 0, UVERBS_OBJECT_PD},
      {UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, kHandle, 0, UVERBS_OBJECT_CQ},
      {UVERBS_ATTR_CREATE_WQ_USER_HANDLE, kValue, 8, 7},
      {UVERBS_ATTR_CREATE_WQ_TYPE, kValue, 8, IB_UVERBS_WQT_RQ},
      {UVERBS_ATTR_CREATE_WQ_MAX_WR, kValue, 4, 1},
      {UVERBS_ATTR_CREATE_WQ_MAX_SGE, kValue, 4, 1},
      {UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, kOut, 4},
      {UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, kOut, 4},
      {UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, kOut, 4},
      {UVERBS_ATTR_UHW_IN, kDriverIn}}},
    {{UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY},
     {{UVERBS_ATTR_DESTROY_WQ_HANDLE, kHandle, 0, UVERBS_OBJECT_WQ},
      {UVERBS_ATTR_DESTROY_WQ_RESP, kOut, 4}}},
    DESTROY(RWQ_IND_TBL),
    DESTROY(FLOW),
    DESTROY(XRCD),
    {{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE},
     {{UVERBS_ATTR_CREATE_COUNTERS_HANDLE, kNew, 0, UVERBS_OBJECT_COUNTERS}}},
    DESTROY(COUNTERS),
    {{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ},
     {{UVERBS_ATTR_READ_COUNTERS_HANDLE, kHandle, 0, UVERBS_OBJECT_COUNTERS},
      {UVERBS_ATTR_READ_COUNTERS_BUFF, kOut, 16},
      {UVERBS_ATTR_READ_COUNTERS_FLAGS, kValue, 8, 0}}},
};

const std::vector<MethodSpec> kMemoryMethods = {
    {{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES},
     {{UVERBS_ATTR_INFO_OBJECT_ID, kValue, 8, UVERBS_OBJECT_QP},
      {UVERBS_ATTR_INFO_TOTAL_HANDLES, kOut, 4},
      {UVERBS_ATTR_INFO_HANDLES_LIST, kOut, 256}}},
    {{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT},
     {{UVERBS_ATTR_QUERY_PORT_PORT_NUM, kValue, 1, 1},
      {UVERBS_ATTR_QUERY_PORT_RESP, kOut, sizeof(ib_uverbs_query_port_resp_ex)}}},
    {{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT},
     {{UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, kOut, 4},
      {UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, kOut, 8},
      {TERN_IB_ATTR_QUERY_CONTEXT_RESP, kOut, sizeof(tern_uresp_alloc_ucontext)}}},
    {{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE},
     {{UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, kValue, 8, 32},
      {UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, kValue, 4, 0},
      {UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, kOut, 320},
      {UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, kOut, 8}}},
    {{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY},
     {{UVERBS_ATTR_QUERY_GID_ENTRY_PORT, kValue, 4, 1},
      {UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, kValue, 4, 0},
      {UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, kValue, 4, 0},
      {UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, kOut, 32}}},
    DESTROY(PD),
    DESTROY(AH),
    DESTROY(MW),
    DESTROY(MR),
    {{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR},
     {{UVERBS_ATTR_QUERY_MR_HANDLE, kHandle, 0, UVERBS_OBJECT_MR},
      {UVERBS_ATTR_QUERY_MR_RESP_LKEY, kOut, 4},
      {UVERBS_ATTR_QUERY_MR_RESP_RKEY, kOut, 4},
      {UVERBS_ATTR_QUERY_MR_RESP_LENGTH, kOut, 8},
      {UVERBS_ATTR_QUERY_MR_RESP_IOVA, kOut, 8}}},
    {{UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR},
     {{UVERBS_ATTR_ADVISE_MR_PD_HANDLE, kHandle, 0, UVERBS_OBJECT_PD},
      {UVERBS_ATTR_ADVISE_MR_ADVICE, kValue, 8, 0},
      {UVERBS_ATTR_ADVISE_MR_FLAGS, kValue, 4, 1},
      {UVERBS_ATTR_ADVISE_MR_SGE_LIST, kValue, 16, 1}}},
    {{UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG},
     {{UVERBS_ATTR_REG_DM_MR_HANDLE, kNew, 0, UVERBS_OBJECT_MR},
      {UVERBS_ATTR_REG_DM_MR_OFFSET, kValue, 8, 0},
      {UVERBS_ATTR_REG_DM_MR_LENGTH, kValue, 8, 4096},
      {UVERBS_ATTR_REG_DM_MR_PD_HANDLE, kHandle, 0, UVERBS_OBJECT_PD},
      {UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, kValue, 4, kAccess | 1 << 5},
      {UVERBS_ATTR_REG_DM_MR_DM_HANDLE, kHandle, 0, UVERBS_OBJECT_DM},
      {UVERBS_ATTR_REG_DM_MR_RESP_LKEY, kOut, 4},
      {UVERBS_ATTR_REG_DM_MR_RESP_RKEY, kOut, 4}}},
    {{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR},
     {{UVERBS_ATTR_REG_DMABUF_MR_HANDLE, kNew, 0, UVERBS_OBJECT_MR},
      {UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, kHandle, 0, UVERBS_OBJECT_PD},
      {UVERBS_ATTR_REG_DMABUF_MR_OFFSET, kValue, 8, 0},
      {UVERBS_ATTR_REG_DMABUF_MR_LENGTH, kValue, 8, 4096},
      {UVERBS_ATTR_REG_DMABUF_MR_IOVA, kValue, 8, 0},
      {UVERBS_ATTR_REG_DMABUF_MR_FD, kFile, 4},
      {UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, kValue, 4, kAccess},
      {UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, kOut, 4},
      {UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, kOut, 4}}},
    {{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC},
     {{UVERBS_ATTR_ALLOC_DM_HANDLE, kNew, 0, UVERBS_OBJECT_DM},
      {UVERBS_ATTR_ALLOC_DM_LENGTH, kValue, 8, 8192},
      {UVERBS_ATTR_ALLOC_DM_ALIGNMENT, kValue, 4, 0},
      {TERN_IB_ATTR_ALLOC_DM_RESP, kOut, sizeof(tern_uresp_alloc_dm)}}},
    {{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE},
     {{UVERBS_ATTR_FREE_DM_HANDLE, kHandle, 0, UVERBS_OBJECT_DM}}},
};

// Methods of the driver.
const std::vector<MethodSpec> kDriverMethods = {
    {{UVERBS_OBJECT_PD, TERN_IB_METHOD_PD_QUERY_KEY},
     {{TERN_IB_ATTR_QUERY_KEY_PD, kHandle, 0, UVERBS_OBJECT_PD},
      {TERN_IB_ATTR_QUERY_KEY_KEY, kValue, 4, 0x100},
      {TERN_IB_ATTR_QUERY_KEY_RESP, kOut, sizeof(tern_uresp_query_key)}}},
    {{UVERBS_OBJECT_QP, TERN_IB_METHOD_QP_SET_SPORT},
     {{TERN_IB_ATTR_SET_SPORT_QP, kHandle, 0, UVERBS_OBJECT_QP},
      {TERN_IB_ATTR_SET_SPORT_PORT, kValue, 2, 0xc001}}},
    {{UVERBS_OBJECT_QP, TERN_IB_METHOD_QP_GET_SPORT},
     {{TERN_IB_ATTR_GET_SPORT_QP, kHandle, 0, UVERBS_OBJECT_QP},
      {TERN_IB_ATTR_GET_SPORT_PORT, kOut, 2}}},
    {{UVERBS_OBJECT_DM, TERN_IB_METHOD_DM_QUERY},
     {{TERN_IB_ATTR_QUERY_DM_HANDLE, kHandle, 0, UVERBS_OBJECT_DM},
      {TERN_IB_ATTR_QUERY_DM_RESP, kOut, sizeof(tern_uresp_alloc_dm)},
      {TERN_IB_ATTR_QUERY_DM_LENGTH, kOut, 8}}},
    {{UVERBS_OBJECT_DM, TERN_IB_METHOD_DM_MAP_OP},
     {{TERN_IB_ATTR_MAP_DM_OP_DM, kHandle, 0, UVERBS_OBJECT_DM},
      {TERN_IB_ATTR_MAP_DM_OP_OP, kValue, 1, TERN_DM_MAP_OP_ADD},
      {TERN_IB_ATTR_MAP_DM_OP_OFFSET, kValue, 8, 0},
      {TERN_IB_ATTR_MAP_DM_OP_RESP, kOut, sizeof(tern_uresp_alloc_dm)}}},
};

// A request as the kernel gets it: a header, then attributes.
struct Request {
  std::uint16_t object;
  std::uint16_t method;
  std::vector<ib_uverbs_attr> attrs;
  int length_error = 0;  // bytes by which the header lies
  std::uint32_t reserved = 0;
};

int send(int fd, Request& request, std::uint32_t driver_id) {
  // The header ends in a flexible array member, which ISO C++ lacks.
  constexpr std::size_t kHeader = offsetof(ib_uverbs_ioctl_hdr, attrs);
  const std::size_t attrs = request.attrs.size() * sizeof(ib_uverbs_attr);
  std::vector<std::uint64_t> words((kHeader + attrs + 7) / 8);
  auto* bytes = reinterpret_cast<std::byte*>(words.data());
  const auto put = [&](std::size_t offset, auto value) {
    std::memcpy(bytes + offset, &value, sizeof(value));
  };
  const auto length = static_cast<int>(kHeader + attrs) + request.length_error;
  put(offsetof(ib_uverbs_ioctl_hdr, length), static_cast<std::uint16_t>(length));
  put(offsetof(ib_uverbs_ioctl_hdr, object_id), request.object);
  put(offsetof(ib_uverbs_ioctl_hdr, method_id), request.method);
  put(offsetof(ib_uverbs_ioctl_hdr, num_attrs), static_cast<std::uint16_t>(request.attrs.size()));
  put(offsetof(ib_uverbs_ioctl_hdr, driver_id), driver_id);
  put(offsetof(ib_uverbs_ioctl_hdr, reserved2), request.reserved);
  if (!request.attrs.empty()) std::memcpy(bytes + kHeader, request.attrs.data(), attrs);
  const int err = ioctl(fd, RDMA_VERBS_IOCTL, bytes) < 0 ? errno : 0;
  if (!request.attrs.empty()) std::memcpy(request.attrs.data(), bytes + kHeader, attrs);
  return err;
}

// The kernel checks the id before the method. A driver out of tree has 0.
std::uint32_t driver_id(int fd) {
  static const std::uint32_t found = [fd] {
    Request none{.object = 0xfff, .method = 0xfff, .attrs = {}};
    for (std::uint32_t id = 0; id < 1024; ++id) {
      if (send(fd, none, id) == EPROTONOSUPPORT) return id;
    }
    return std::uint32_t{0};
  }();
  return found;
}

// The values of an attribute that is longer than its field.
std::vector<std::byte> long_value(Random& random, const Raw& raw, const Spec& spec) {
  std::vector<std::byte> bytes(spec.bytes);
  if (spec.id == UVERBS_ATTR_ADVISE_MR_SGE_LIST && spec.bytes == sizeof(ib_uverbs_sge)) {
    const ib_uverbs_sge sge{.addr = raw.arena.address(random),
                            .length = random.below(1 << 16),
                            .lkey = random.below(1 << 12) << 8};
    std::memcpy(bytes.data(), &sge, sizeof(sge));
  } else {
    for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      const auto word = static_cast<std::uint32_t>(spec.value != 0 ? random.below(3) : 0);
      std::memcpy(bytes.data() + at, &word, 4);
    }
  }
  spoil(random, bytes, 0);
  return bytes;
}

// The memory that a request's pointers refer to, as long as the call lasts.
using Held = std::vector<std::vector<std::byte>>;

ib_uverbs_attr attribute(Random& random, const Raw& raw, const Spec& spec, std::size_t type,
                         Held& held) {
  ib_uverbs_attr attr{};
  attr.attr_id = static_cast<std::uint16_t>(spec.id);
  attr.len = spec.bytes;
  attr.flags = UVERBS_ATTR_F_MANDATORY;
  const bool odd = random.one_in(8);
  const std::uint64_t other = interesting(random);
  switch (spec.kind) {
    case kValue:
      if (spec.bytes > 8) {
        held.push_back(long_value(random, raw, spec));
        attr.data = reinterpret_cast<std::uint64_t>(held.back().data());
      } else {
        attr.data = odd ? other : spec.value;
        if (spec.bytes < 8) attr.data &= (std::uint64_t{1} << 8 * spec.bytes) - 1;
      }
      break;
    case kAddress:
      attr.data = raw.arena.address(random);
      break;
    case kOut:
    case kDriverOut:
      attr.data = raw.arena.response(random);
      break;
    case kHandle:
      attr.data = raw.handles.any(random, spec.value);
      break;
    case kNew:
      attr.data = odd ? other : 0;
      break;
    case kFile:
      attr.data = odd ? random.below(32) : static_cast<std::uint32_t>(raw.fd);
      break;
    case kDriverIn: {
      std::vector<std::byte> bytes = driver_part(random, raw.arena, type);
      spoil(random, bytes, 0);
      if (random.one_in(12)) bytes.resize(8 * random.below(12));
      attr.len = static_cast<std::uint16_t>(bytes.size());
      held.push_back(std::move(bytes));
      attr.data = reinterpret_cast<std::uint64_t>(held.back().data());
      break;
    }
  }
  return attr;
}

// Changes one thing about the request itself.
void distort(Random& random, Request& request) {
  if (request.attrs.empty()) return;
  ib_uverbs_attr& attr = request.attrs[random.below(request.attrs.size())];
  const std::uint64_t value = interesting(random);
  switch (random.below(10)) {
    case 0:
      attr.len = static_cast<std::uint16_t>(value);
      break;
    case 1:
      attr.attr_id = static_cast<std::uint16_t>(value);
      break;
    case 2:
      attr.flags = static_cast<std::uint16_t>(value);
      break;
    case 3:
      attr.data = value;
      break;
    case 4:
      attr.attr_data.reserved = static_cast<std::uint16_t>(value);
      break;
    case 5:
      request.attrs.erase(request.attrs.begin() + (&attr - request.attrs.data()));
      break;
    case 6:
      request.attrs.push_back(ib_uverbs_attr(attr));
      break;
    case 7:
      request.length_error = random.one_in(2) ? 8 : -8;
      break;
    case 8:
      request.reserved = static_cast<std::uint32_t>(value);
      break;
    default:
      request.method = static_cast<std::uint16_t>(random.below(6) | (value & 0x1000));
      break;
  }
}

// ib_core leaks a reference to the caller's task when a file gets a second context, and passes
// every command of write() on in INVOKE_WRITE.
bool harmless(const Request& request) {
  return request.object != UVERBS_OBJECT_DEVICE || (request.method != UVERBS_METHOD_GET_CONTEXT &&
                                                    request.method != UVERBS_METHOD_INVOKE_WRITE);
}

int call(Random& random, const Raw& raw, const MethodSpec& spec) {
  Request request{.object = spec.object, .method = spec.method, .attrs = {}};
  Held held;
  held.reserve(spec.attrs.size());
  for (const Spec& attr : spec.attrs) {
    request.attrs.push_back(attribute(random, raw, attr, spec.object, held));
  }
  if (random.one_in(4)) distort(random, request);
  if (!raw.core_bugs && !harmless(request)) return EPROTONOSUPPORT;
  ++raw.tally.calls;
  const int err = send(raw.fd, request, driver_id(raw.fd));
  if (err != 0) return err;
  for (std::size_t i = 0; i < spec.attrs.size() && i < request.attrs.size(); ++i) {
    const Spec& attr = spec.attrs[i];
    if (attr.kind == kNew && request.attrs[i].attr_id == attr.id) {
      raw.handles.add(attr.value, static_cast<std::uint32_t>(request.attrs[i].data));
    }
  }
  return 0;
}

}  // namespace

int random_ioctl(Random& random, const Raw& raw) {
  const auto& methods = random.one_in(2) ? kQueueMethods : kMemoryMethods;
  const int err = call(random, raw, methods[random.below(methods.size())]);
  if (err == 0) ++raw.tally.reached[kIoctl];
  return err;
}

int driver_ioctl(Random& random, const Raw& raw) {
  const std::size_t which = random.below(kDriverMethods.size());
  const int err = call(random, raw, kDriverMethods[which]);
  if (err == 0) ++raw.tally.reached[kDriverIoctl];
  return err;
}

}  // namespace guest::uverbsfuzz
