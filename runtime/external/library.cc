#include "runtime/external/library.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/load_library.h"

namespace lathe {

const std::vector<ExternalLibraryRow>& external_libraries() {
  static const std::vector<ExternalLibraryRow> rows = {
      {ExternalId::kOpenBlas, Backend::kCpu, open_openblas},
      {ExternalId::kOneDnn, Backend::kCpu, open_onednn},
      {ExternalId::kCublasLt, Backend::kCuda, open_cublaslt},
      {ExternalId::kHipblasLt, Backend::kRocm, open_hipblaslt},
  };
  return rows;
}

const ExternalLibraries::Opened& ExternalLibraries::open(AllOpened& all, const ExternalLibraryRow& row) {
  for (const std::unique_ptr<Opened>& o : all.libraries)
    if (o->id == row.id) return *o;
  auto fresh = std::make_unique<Opened>();
  fresh->id = row.id;
  auto library = row.open();
  if (library.ok())
    fresh->opened = *std::move(library);
  else
    fresh->absent = std::string(library.status().message());
  all.libraries.push_back(std::move(fresh));
  return *all.libraries.back();
}

std::vector<ExternalFound> ExternalLibraries::find() {
  AllOpened& opened = opened_.get();
  const std::lock_guard<std::mutex> lock(opened.mutex);
  std::vector<ExternalFound> all;
  for (const ExternalLibraryRow& row : external_libraries()) {
    if (row.backend != backend_) continue;
    const Opened& o = open(opened, row);
    all.push_back({row.id, o.opened != nullptr ? o.opened->version() : "", o.absent});
  }
  return all;
}

absl::StatusOr<std::unique_ptr<ExternalCall>> ExternalLibraries::bind(const Step& step) {
  AllOpened& opened = opened_.get();
  const std::lock_guard<std::mutex> lock(opened.mutex);
  for (const ExternalLibraryRow& row : external_libraries()) {
    if (row.backend != backend_ || name_of(row.id) != step.external.provider) continue;
    const Opened& o = open(opened, row);
    if (o.opened == nullptr)
      return absl::UnavailableError(absl::StrCat("step ", step.symbol, ": ", o.absent));
    auto bound = o.opened->bind(step.external);
    if (bound.ok()) return bound;
    return absl::UnavailableError(
        absl::StrCat("step ", step.symbol, ": ", step.external.provider, ": ", bound.status().message()));
  }
  return absl::UnavailableError(absl::StrCat("step ", step.symbol, ": ", name_of(backend_),
                                             " has no external library ", step.external.provider));
}

absl::StatusOr<SharedObject> SharedObject::open(const std::vector<const char*>& names) {
  std::string why;
  for (const char* name : names) {
    std::string error;
    if (void* handle = load_library(name, RTLD_NOW | RTLD_LOCAL, &error)) return SharedObject(handle, name);
    absl::StrAppend(&why, why.empty() ? "" : "; ", error);
  }
  return absl::UnavailableError(why);
}

void* SharedObject::find(const char* name) const { return dlsym(handle_, name); }

void copy_c_to_d(const ProblemClass& problem, const ArgumentBlock& args) {
  if (problem.c == DType::kNone || args.c == args.d) return;
  const auto size = static_cast<int64_t>(size_of(problem.d));
  for (int64_t b = 0; b < args.batch; ++b)
    for (int64_t i = 0; i < args.m; ++i)
      std::memcpy(static_cast<char*>(args.d) + (b * args.stride_d + i * args.ldd) * size,
                  static_cast<const char*>(args.c) + (b * args.stride_c + i * args.ldc) * size,
                  static_cast<size_t>(args.n * size));
}

absl::Status check_block(const ProblemClass& problem, const ArgumentBlock& args) {
  const auto low = [](const void* p, DType t) {
    return t == DType::kNone ? 0 : reinterpret_cast<uintptr_t>(p) & (size_of(t) - 1);
  };
  if ((low(args.a, problem.a) | low(args.b, problem.b) | low(args.c, problem.c) | low(args.d, problem.d) |
       low(args.bias, problem.bias) | low(args.residual, problem.residual)) != 0)
    return absl::UnavailableError("an operand is not aligned to its element size");
  if (args.alpha == 0) return absl::UnavailableError("with alpha 0 it can skip A and B and lose their NaNs");
  return absl::OkStatus();
}

absl::Status failed_call(const ArgumentBlock& args, absl::string_view what) {
  if (args.d == args.c || args.d == args.residual)
    return absl::InternalError(absl::StrCat(what, "; D is also an input and may be partly overwritten"));
  return absl::UnavailableError(what);
}

}  // namespace lathe
