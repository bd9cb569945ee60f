// C functions: payloads.
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "dispatch/context.h"

using lathe::at_boundary;
using lathe::null_argument;

extern "C" {

lathe_status lathe_payload_inspect(lathe_context* context, const char* name, const char* payload, size_t size,
                                   lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_payload_inspect", "context");
    if (payload == nullptr && size != 0) return null_argument("lathe_payload_inspect", "payload");
    if (text == nullptr) return null_argument("lathe_payload_inspect", "text");
    LATHE_ASSIGN_OR_RETURN(
        const lathe::Json program,
        context->readers.inspect(name != nullptr ? name : "payload", absl::string_view(payload, size)));
    lathe::pass_text(text, user, "program", program);
    return absl::OkStatus();
  });
}

}  // extern "C"
