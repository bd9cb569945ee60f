// Any bytes are either rejected, or are exactly the entry that make_entry makes. The artifact in it likewise.
#include <cstdlib>

#include "cache/entry_file.h"
#include "made_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  static const std::string whole = make_entry("{\"n\":1}", serialize(fuzz::sample_artifact("some code")));
  fuzz::MadeFile file = fuzz::make_file(data, size, whole);
  if (file.repair && file.bytes.size() >= 48)
    fuzz::put_digest(&file.bytes[32], file.bytes.substr(0, 32), file.bytes.substr(48));
  const absl::StatusOr<EntryView> view = parse_entry(file.bytes);
  if (!view.ok()) return 0;
  std::string again = make_entry(view->key_text, view->payload);
  if (!file.repair && again != file.bytes) abort();
  const absl::StatusOr<Artifact> artifact = parse_artifact(view->payload);
  if (artifact.ok() && !parse_artifact(serialize(*artifact)).ok()) abort();
  return 0;
}
