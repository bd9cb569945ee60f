// Makes a context and a device from the command line, and turns statuses of the C API into absl::Status.
#pragma once

#include <lathe/lathe.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command_line.h"

namespace lathe::cli {

using Json = nlohmann::json;

// The status as absl::Status, with the library's message. Never kInvalidArgument, because a request that the library
// refuses is a failure and not wrong usage. LATHE_UNSUPPORTED becomes kUnimplemented.
absl::Status check(lathe_status status);

template <typename T, void (*Destroy)(T*)>
struct HandleDelete {
  void operator()(T* handle) const { Destroy(handle); }
};
using Context = std::unique_ptr<lathe_context, HandleDelete<lathe_context, lathe_context_destroy>>;
using Device = std::unique_ptr<lathe_device, HandleDelete<lathe_device, lathe_device_close>>;
using Plan = std::unique_ptr<lathe_plan, HandleDelete<lathe_plan, lathe_plan_destroy>>;

// A context's use of external libraries. Overrides --external unless `use` is DEFAULT.
struct ExternalUse {
  lathe_external_use use = LATHE_EXTERNAL_DEFAULT;
  lathe_external_library which = LATHE_EXTERNAL_ANY;
};
// Makes a context from the common flags, --miss, --pipeline and --params.
absl::StatusOr<Context> make_context(const Arguments& arguments, const ExternalUse& external = {});
// Whether --facts or --target name a device that is only described, not opened.
bool names_described_device(const Arguments& arguments);
// With --facts, or a --target that is not a device here: a described device. --target alone uses a shipped facts file
// of that target. Otherwise a device of this machine, named by --target or --device (default "cpu").
absl::StatusOr<Device> open_device(lathe_context* context, const Arguments& arguments);
// The names of the external libraries, in the order of lathe_external_library from 1 on.
const std::vector<std::string>& external_libraries();

// Flags that several verbs have.
Flag device_flag();
Flag miss_flag();
Flag pipeline_flag();
Flag params_flag();
Flag facts_flag();
Flag target_flag();

absl::StatusOr<lathe_statistics> statistics(lathe_context* context);

struct Text {
  std::string name, text;
};
// A lathe_text_fn that appends to the std::vector<Text> at `user`.
void collect_text(void* user, const char* name, const char* text, size_t size);
// Joins the pieces and parses them as JSON. Errors name `what`.
absl::StatusOr<Json> parse_json(const std::vector<Text>& pieces, const std::string& what);

}  // namespace lathe::cli
