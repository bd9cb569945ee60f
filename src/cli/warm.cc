#include <utility>
#include <vector>

#include "cli/classes_file.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

absl::Status warm(const Arguments& arguments) {
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Manifest> manifest = read_classes(arguments, *opened);
  return manifest.ok() ? warm_manifest(arguments, *opened, manifest->get()) : manifest.status();
}

absl::Status warm_matmul_argmax(const Arguments& arguments) {
  absl::StatusOr<MatmulArgmaxRequest> request = matmul_argmax_request(arguments);
  if (!request.ok()) return request.status();
  absl::StatusOr<Manifest> manifest = make_manifest();
  if (!manifest.ok()) return manifest.status();
  lathe_tuning tuning;
  const lathe_matmul_argmax_desc desc = descriptor(*request, &tuning);
  absl::Status s = check(lathe_manifest_add_matmul_argmax(manifest->get(), nullptr, &desc, request->m));
  if (!s.ok()) return s;
  absl::StatusOr<Opened> opened = open(arguments);
  return opened.ok() ? warm_manifest(arguments, *opened, manifest->get()) : opened.status();
}

}  // namespace

Verb warm_matmul_argmax_verb() {
  return {"warm matmul_argmax",
          "MxNxK",
          1,
          "compile the kernels of a matmul_argmax for all M from 1 to the given one",
          matmul_argmax_flags(warm_flags()),
          {"lathe warm matmul_argmax 64x128256x4096 --dtype bf16 --facts h200 --cache-dir h200-cache"},
          warm_matmul_argmax};
}

Verb warm_verb() {
  return {"warm",
          "FILE",
          1,
          "compile the kernels of a manifest, or of the weights in a CSV file (model,layer,n,k)",
          classes_flags(warm_flags()),
          {"lathe warm llama.json", "lathe warm shapes.csv --dtype bf16",
           "lathe warm shapes.csv --dtype bf16 --target sm_90a --facts h200 --cache-dir h200-cache"},
          warm};
}

}  // namespace lathe::cli
