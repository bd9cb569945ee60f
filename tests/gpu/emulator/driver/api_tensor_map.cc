// cuTensorMapEncodeTiled, with every check that its reference demands, and cuGetProcAddress.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/gpu/emulator/driver/state.h"
#include "tests/gpu/emulator/ptx/tensor_map.h"

using namespace lathe::emulator;
using lathe::ptx::Type;

namespace {

// CUtensorMapDataType up to the types that are narrower than a byte.
constexpr Type kTypes[] = {Type::u8,  Type::u16, Type::u32,  Type::s32, Type::u64, Type::s64, Type::f16,
                           Type::f32, Type::f64, Type::bf16, Type::f32, Type::f32, Type::f32};
constexpr int kTypeCount = sizeof kTypes / sizeof kTypes[0];

struct Request {
  void* map;
  int type;
  uint32_t rank;
  void* address;
  const uint64_t *extents, *strides;
  const uint32_t *box, *element_strides;
  int interleave, swizzle, promotion, fill;
};

// Says what is wrong with the request, or returns an empty string.
std::string check(const Request& r) {
  const auto bad = [](const char* what, auto value) { return absl::StrCat(what, " ", value); };
  if (r.map == nullptr || reinterpret_cast<uintptr_t>(r.map) % 64 != 0)
    return "the address of the map is not a multiple of 64";
  if (r.type < 0 || r.type >= kTypeCount) return bad("data type", r.type);
  if (r.rank < 1 || r.rank > 5) return bad("rank", r.rank);
  if (r.interleave != 0) return "interleaved layouts are not modelled";
  if (r.swizzle < 0 || r.swizzle > 3) return bad("swizzle", r.swizzle);
  if (r.promotion < 0 || r.promotion > 3) return bad("L2 promotion", r.promotion);
  if (r.fill < 0 || r.fill > 1) return bad("fill", r.fill);
  const uint64_t address = reinterpret_cast<uint64_t>(r.address);
  if (address == 0 || address % 16 != 0)
    return absl::StrFormat("the address of the tensor, 0x%x, is not a multiple of 16", address);
  if (r.extents == nullptr || r.box == nullptr || r.element_strides == nullptr ||
      (r.rank > 1 && r.strides == nullptr))
    return "an array is null";
  const uint32_t size = lathe::ptx::type_size(kTypes[r.type]);
  if (r.fill == 1 && !lathe::ptx::is_float(kTypes[r.type])) return "NaN fill is not allowed for integers";
  for (uint32_t d = 0; d < r.rank; ++d) {
    if (r.extents[d] == 0 || r.extents[d] > uint64_t{1} << 32)
      return absl::StrFormat("extent %u is %u", d, r.extents[d]);
    if (r.box[d] == 0 || r.box[d] > 256) return absl::StrFormat("box extent %u is %u", d, r.box[d]);
    if (r.element_strides[d] == 0 || r.element_strides[d] > 8)
      return absl::StrFormat("element stride %u is %u", d, r.element_strides[d]);
    if (r.element_strides[d] != 1) return "element strides other than 1 are not modelled";
    if (d == 0) continue;
    // The reference derives each stride from the extents before it. Attention kernels give a later dimension the
    // smaller stride (heads beside rows), and drivers accept this, so only the limits of the hardware are checked.
    const uint64_t stride = r.strides[d - 1];
    if (stride % 16 != 0 || stride >= uint64_t{1} << 40) return absl::StrFormat("stride %u is %u", d, stride);
  }
  const uint64_t row = uint64_t{r.box[0]} * size;
  if (row % 16 != 0) return absl::StrFormat("a box row of %u bytes is not a multiple of 16", row);
  const uint64_t span = lathe::ptx::swizzle_span(static_cast<lathe::ptx::Swizzle>(r.swizzle));
  if (r.swizzle != 0 && row > span)
    return absl::StrFormat("a box row of %u bytes is longer than the swizzle span of %u", row, span);
  return std::string();
}

}  // namespace

EMU_API cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* extents,
                               const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                               int interleave, int swizzle, int promotion, int fill) {
  EMU_CALL("cuTensorMapEncodeTiled", kNothing);
  const Request request = {map,        type,    rank,      address, extents, strides, box, element_strides,
                           interleave, swizzle, promotion, fill};
  if (const std::string why = check(request); !why.empty()) {
    std::fprintf(stderr, "cuda emulator: cuTensorMapEncodeTiled: %s\n", why.c_str());
    return kInvalidValue;
  }
  lathe::ptx::TensorMap made;
  made.type = kTypes[type];
  made.rank = rank;
  made.address = reinterpret_cast<uint64_t>(address);
  made.swizzle = static_cast<lathe::ptx::Swizzle>(swizzle);
  made.nan_fill = fill == 1;
  for (uint32_t d = 0; d < rank; ++d) {
    made.extent[d] = extents[d];
    made.box[d] = box[d];
    if (d > 0) made.stride[d] = strides[d - 1];
  }
  lathe::ptx::encode_tensor_map(made, static_cast<uint8_t*>(map));
  return kSuccess;
}

// Returns the newest version of a symbol that this library has. `version` and `flags` choose among versions in a
// real driver; they are ignored here.
EMU_API cuGetProcAddress_v2(const char* symbol, void** function, int, uint64_t, int* status) {
  EMU_CALL("cuGetProcAddress_v2", kNothing);
  if (symbol == nullptr || function == nullptr) return kInvalidValue;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&cuTensorMapEncodeTiled), &info) == 0) return kUnknown;
  void* self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* suffix : {"_v3", "_v2", ""}) {
    if (*function == nullptr && self != nullptr)
      *function = dlsym(self, (std::string(symbol) + suffix).c_str());
  }
  if (self != nullptr) dlclose(self);
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  return *function == nullptr ? kNotFound : kSuccess;
}
