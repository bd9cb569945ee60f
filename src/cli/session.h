// A context and a device made from the command line, and the C API's statuses as absl::Status.
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

// OK, or an error that is never kInvalidArgument: what the library refuses is a failure, not bad usage.
// UNSUPPORTED is kUnimplemented.
absl::Status check(lathe_status status);

template <typename T, void (*Destroy)(T*)>
struct HandleDelete {
  void operator()(T* handle) const { Destroy(handle); }
};
using Context = std::unique_ptr<lathe_context, HandleDelete<lathe_context, lathe_context_destroy>>;
using Device = std::unique_ptr<lathe_device, HandleDelete<lathe_device, lathe_device_close>>;
using Plan = std::unique_ptr<lathe_plan, HandleDelete<lathe_plan, lathe_plan_destroy>>;

// What a context has external libraries for, whatever --external says; DEFAULT: what that says.
struct ExternalUse {
  lathe_external_use use = LATHE_EXTERNAL_DEFAULT;
  lathe_external_library which = LATHE_EXTERNAL_ANY;
};
// From the common flags and --miss.
absl::StatusOr<Context> make_context(const Arguments& arguments, const ExternalUse& external = {});
// Whether --facts or --target describe one.
bool names_described_device(const Arguments& arguments);
// From --facts and --target a described device (the shipped one of a target named alone), else from --device
// (default "cpu") a real one.
absl::StatusOr<Device> open_device(lathe_context* context, const Arguments& arguments);
// The --device, --facts and --target rows of a verb's table.
Flag device_flag();
// In the order of lathe_external_library, from 1.
const std::vector<std::string>& external_libraries();

Flag miss_flag();
Flag pipeline_flag();
Flag params_flag();
Flag facts_flag();
Flag target_flag();

absl::StatusOr<lathe_statistics> statistics(lathe_context* context);

struct Text {
  std::string name, text;
};
// A lathe_text_fn whose `user` is a std::vector<Text>*.
void collect_text(void* user, const char* name, const char* text, size_t size);
// Joins the pieces and parses them.
absl::StatusOr<Json> parse_json(const std::vector<Text>& pieces, const std::string& what);

}  // namespace lathe::cli
