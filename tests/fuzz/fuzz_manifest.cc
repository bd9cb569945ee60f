// Any bytes are either rejected, or are a manifest whose classes are legal and that survives writing and
// reading.
#include <cstdlib>

#include "core/manifest.h"
#include "made_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  static const std::string whole = [] {
    Manifest manifest;
    manifest.about["model"] = "m";
    ManifestEntry weight;
    weight.name = "qkv";
    weight.problem.a = weight.problem.b = weight.problem.d = weight.problem.bias = DType::kBF16;
    weight.problem.n = 6144, weight.problem.k = 4096, weight.problem.m_hi = 1;
    weight.m_max = 8192, weight.split_k = 2;
    ManifestEntry rows;
    rows.problem.op = Op::kArgmax;
    rows.problem.a = DType::kF32, rows.problem.d = DType::kI64;
    rows.problem.row_lo = 1, rows.problem.row_hi = 1024;
    manifest.entries = {weight, rows};
    // Remove the digest, which would reject every edit.
    std::string text = manifest_text(manifest);
    text.replace(text.rfind(",\n \"digest\""), std::string::npos, "\n}\n");
    return text;
  }();
  const absl::StatusOr<Manifest> manifest = parse_manifest(fuzz::make_file(data, size, whole).bytes);
  if (!manifest.ok()) return 0;
  for (const ManifestEntry& entry : manifest->entries)
    if (!check_class(entry.problem).ok()) abort();
  const absl::StatusOr<Manifest> again = parse_manifest(manifest_text(*manifest));
  if (!again.ok() || !(again->entries == manifest->entries)) abort();
  return 0;
}
