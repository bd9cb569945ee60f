#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {

DecodeFunction find_decoder(absl::string_view name) {
  static const auto* table = new absl::flat_hash_map<absl::string_view, DecodeFunction>{
#define LATHE_PTX_ROW(name, function) {#name, function},
      LATHE_PTX_INSTRUCTIONS(LATHE_PTX_ROW)
#undef LATHE_PTX_ROW
  };
  const auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace lathe::ptx
