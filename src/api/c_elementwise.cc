// C functions: programs of elementwise ops. The functions that run and plan them are beside those of the other ops.
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "base/status.h"
#include "lathe/elementwise.h"
#include "request/elementwise_programs.h"

using lathe::at_boundary;
using lathe::null_argument;

extern "C" {

lathe_status lathe_program_create(const char* text, size_t size, lathe_program** program) {
  return at_boundary([&]() -> absl::Status {
    if (program == nullptr) return null_argument("lathe_program_create", "program");
    *program = nullptr;
    if (text == nullptr) return null_argument("lathe_program_create", "text");
    LATHE_ASSIGN_OR_RETURN(lathe::ElementwiseProgram read, lathe::parse_elementwise({text, size}));
    *program = new lathe_program{std::make_shared<const lathe::ElementwiseProgram>(std::move(read))};
    return absl::OkStatus();
  });
}

void lathe_program_destroy(lathe_program* program) { delete program; }

}  // extern "C"
