// A payload's program (lathe_payload_inspect) as descriptors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/session.h"

namespace lathe::cli {

// What a kernel does by its program, or, where there is none, the host as the payload says it
// (reference/evaluate.h), by which either is judged.
struct Elementwise {
  std::shared_ptr<lathe_program> program;  // desc's; null: on the host, because of
  std::string on_host;
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  int64_t number = 0;         // the result's, in the payload's meaning
  size_t value = 0;           // the same in the program
  std::vector<size_t> reads;  // values of the program
};

struct PayloadStep {
  std::string function, location;
  const Json* json = nullptr;       // in the program
  std::map<char, int64_t> extents;  // by the letters of its accesses; what has none is 1
  // Data pointers are NULL but where presence is part of the class.
  std::variant<lathe_matmul_desc, lathe_argmax_desc, lathe_matmul_argmax_desc, Elementwise> desc;
  std::vector<int64_t> rows;  // of an argmax: the extents that are its rows, outermost first
  bool open_rows = false;     // the payload leaves M to the run; the descriptor has `rows`
};

// Whether no kernel does it.
bool is_on_host(const PayloadStep& step);

// Reads and inspects the file. kInvalidArgument: it cannot be read or is malformed.
absl::StatusOr<Json> inspect_payload(lathe_context* context, const std::string& path);
// One function's steps, in order. kInvalidArgument, with an op's place: what its operands say of an extent
// differs, or it reads past one.
absl::StatusOr<std::vector<PayloadStep>> function_steps(const Json& function, int64_t rows);
// Every function's steps, in order. Rows that the payload leaves open are `rows`; kUnimplemented: another
// extent is left open.
absl::StatusOr<std::vector<PayloadStep>> payload_steps(const Json& program, int64_t rows);

bool is_product(const PayloadStep& step);
// Makes it the step's chain where it sets anything. `tuning` outlives the step.
void tune_step(const lathe_tuning& tuning, PayloadStep* step);
// Of every product among the steps.
void tune_products(const lathe_tuning& tuning, std::vector<PayloadStep>* steps);

// Every value's extents: where the payload leaves them open what a step or an op of its text tells, else
// `rows`. kInvalidArgument: as function_steps.
absl::StatusOr<std::vector<std::vector<int64_t>>> shapes_of(const Json& function,
                                                            const std::vector<PayloadStep>& steps,
                                                            int64_t rows);

// "matmul f32 64x48x32 nn"
std::string step_line(const PayloadStep& step);

}  // namespace lathe::cli
