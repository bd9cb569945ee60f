#include <utility>
#include <vector>

#include "cli/classes_file.h"
#include "cli/ops.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

absl::Status warm_file(const Arguments& arguments) {
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Manifest> manifest = read_classes(arguments, *opened);
  return manifest.ok() ? warm_manifest(arguments, *opened, manifest->get()) : manifest.status();
}

absl::Status warm_request(const Arguments& arguments, const AnyRequest& request) {
  absl::StatusOr<Manifest> manifest = make_manifest();
  if (!manifest.ok()) return manifest.status();
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  if (absl::Status s = add_to_manifest(opened->device.get(), manifest->get(), request); !s.ok()) return s;
  return warm_manifest(arguments, *opened, manifest->get());
}

}  // namespace

std::vector<Verb> warm_verbs() {
  std::vector<Verb> verbs =
      verbs_of_ops("warm", "compile the kernels of %s for %w", warm_flags(), /*runs=*/false, warm_request);
  verbs.push_back({"warm",
                   "FILE",
                   1,
                   "compile the kernels of a manifest, or of the weights in a CSV file (model,layer,n,k)",
                   classes_flags(warm_flags()),
                   {"lathe warm llama.json", "lathe warm shapes.csv --dtype bf16",
                    "lathe warm shapes.csv --dtype bf16 --target sm_90a --facts h200 --cache-dir h200-cache"},
                   warm_file});
  return verbs;
}

}  // namespace lathe::cli
