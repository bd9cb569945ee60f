// C functions: users' ukernels.
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "core/json_object.h"
#include "dispatch/context.h"
#include "lathe/ukernel.h"

using lathe::at_boundary;
using lathe::null_argument;

extern "C" {

lathe_status lathe_ukernel_add(lathe_context* context, const char* description, size_t size,
                               const uint8_t* bitcode, size_t bitcode_size, int32_t store) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_ukernel_add", "context");
    if (description == nullptr) return null_argument("lathe_ukernel_add", "description");
    if (bitcode == nullptr) return null_argument("lathe_ukernel_add", "bitcode");
    if (store != 0 && store != 1)
      return absl::InvalidArgumentError(
          absl::StrCat("lathe_ukernel_add: store ", store, " is neither 0 nor 1"));
    LATHE_ASSIGN_OR_RETURN(
        lathe::UserUkernel ukernel,
        lathe::check_ukernel(*context, absl::string_view(description, size),
                             absl::string_view(reinterpret_cast<const char*>(bitcode), bitcode_size)));
    return context->ukernels.add(std::move(ukernel), store == 1);
  });
}

lathe_status lathe_ukernel_list(lathe_context* context, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_ukernel_list", "context");
    if (text == nullptr) return null_argument("lathe_ukernel_list", "text");
    lathe::Json ukernels = lathe::Json::array();
    const auto all = context->ukernels.all();
    for (const lathe::UserUkernel& u : *all) {
      lathe::Json json = to_json(u);
      json["defect"] = u.defect;
      json["bytes"] = u.bitcode.size();
      ukernels.push_back(std::move(json));
    }
    lathe::pass_text(
        text, user, "ukernels",
        lathe::json_object("directory", context->ukernels.directory(), "ukernels", std::move(ukernels)));
    return absl::OkStatus();
  });
}

lathe_status lathe_ukernel_remove(lathe_context* context, const char* name) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_ukernel_remove", "context");
    if (name == nullptr) return null_argument("lathe_ukernel_remove", "name");
    absl::Status removed = context->ukernels.remove(name);
    return absl::IsNotFound(removed) ? absl::InvalidArgumentError(removed.message()) : removed;
  });
}

}  // extern "C"
