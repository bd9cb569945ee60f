// Any bytes are either rejected as a bundle, or each artifact in the bundle is valid or rejected.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "cache/bundle.h"
#include "made_file.h"

namespace lathe::fuzz {
namespace {

constexpr size_t kHeader = 56, kRecord = 64;

bool lies_within(uint64_t at, uint64_t size, uint64_t end) { return at <= end && size <= end - at; }

// Corrects every checksum and fingerprint whose bytes are in the file, up to the number of index rows that fit.
void repair(std::string* bytes) {
  if (bytes->size() < kHeader) return;
  const uint64_t size = bytes->size();
  memcpy(&(*bytes)[32], &size, sizeof(size));
  const uint64_t count = std::min<uint64_t>(number_at<uint32_t>(*bytes, 12), (size - kHeader) / kRecord);
  for (uint64_t i = 0; i < count; ++i) {
    const size_t at = kHeader + i * kRecord;
    const auto key_at = number_at<uint64_t>(*bytes, at + 16),
               payload_at = number_at<uint64_t>(*bytes, at + 32),
               payload_bytes = number_at<uint64_t>(*bytes, at + 40);
    const auto key_bytes = number_at<uint32_t>(*bytes, at + 24);
    if (lies_within(key_at, key_bytes, size)) put_digest(&(*bytes)[at], bytes->substr(key_at, key_bytes));
    if (lies_within(payload_at, payload_bytes, size))
      put_digest(&(*bytes)[at + 48], bytes->substr(payload_at, payload_bytes));
  }
  const auto index_bytes = number_at<uint64_t>(*bytes, 16);
  if (lies_within(kHeader, index_bytes, size))
    put_digest(&(*bytes)[40], bytes->substr(0, 40), bytes->substr(kHeader, index_bytes));
}

std::string sample() {
  return make_bundle("{\"kind\":\"sample\"}", {{"one", serialize(sample_artifact(std::string(300, 'x')))},
                                               {"two", serialize(sample_artifact("y"))},
                                               {"three", serialize(sample_artifact("y"))}});
}

}  // namespace
}  // namespace lathe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  static const std::string whole = fuzz::sample();
  static const int memory = memfd_create("bundle", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  fuzz::MadeFile file = fuzz::make_file(data, size, whole);
  if (file.repair) fuzz::repair(&file.bytes);
  if (ftruncate(memory, 0) != 0 ||
      pwrite(memory, file.bytes.data(), file.bytes.size(), 0) != static_cast<ssize_t>(file.bytes.size()))
    abort();
  const absl::StatusOr<std::unique_ptr<Bundle>> bundle = Bundle::open(path);
  if (!bundle.ok()) return 0;
  std::set<absl::string_view> keys;
  for (size_t i = 0; i < (*bundle)->size(); ++i) {
    const absl::string_view text = (*bundle)->key_text(i);
    if (!keys.insert(text).second) abort();  // fingerprints are ascending, so no key occurs twice
    const absl::StatusOr<std::string> payload = (*bundle)->payload(i);
    const absl::StatusOr<Artifact> artifact = (*bundle)->read(key_from_text(std::string(text)));
    if (artifact.ok() && (!payload.ok() || !parse_artifact(*payload).ok())) abort();
    if (absl::IsNotFound(artifact.status())) abort();
  }
  if (!absl::IsNotFound((*bundle)->read(key_from_text("no such key")).status()) &&
      keys.count("no such key") == 0)
    abort();
  return 0;
}
