// Turns the program of a payload (lathe_payload_inspect) into descriptors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/session.h"

namespace lathe::cli {

// An elementwise step. A kernel runs it by its program. A step without a program is evaluated on the host from the
// payload's text (reference/evaluate.h). In both cases the text is what the result is checked against.
struct Elementwise {
  std::shared_ptr<lathe_program> program;  // the program of `desc`; null: evaluated on the host
  std::string on_host;                     // why there is no program
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  int64_t number = 0;         // the result's number in the payload's meaning
  size_t value = 0;           // the result's index in the function's "values"
  std::vector<size_t> reads;  // the indices of the values that it reads
};

struct PayloadStep {
  std::string function, location;
  const Json* json = nullptr;       // the step in the program's JSON
  std::map<char, int64_t> extents;  // by the letter of the dimension; 1 if the letter is absent
  // Data pointers are NULL, unless their presence is part of the class.
  std::variant<lathe_matmul_desc, lathe_argmax_desc, lathe_matmul_argmax_desc, Elementwise> desc;
  // argmax: the extents of the dimensions that form its rows, outermost first.
  std::vector<int64_t> rows;
  // The payload leaves the number of rows open; the descriptor has the caller's number.
  bool open_rows = false;
};

// Whether the step has no kernel.
bool is_on_host(const PayloadStep& step);

// Reads and inspects the file. kInvalidArgument: the file cannot be read or is malformed.
absl::StatusOr<Json> inspect_payload(lathe_context* context, const std::string& path);
// The steps of one function, in order. Rows that the payload leaves open become `rows`. kInvalidArgument, with the
// location of an op: its operands disagree about an extent, or it reads past the end of one. kUnimplemented: an extent
// other than the rows is open.
absl::StatusOr<std::vector<PayloadStep>> function_steps(const Json& function, int64_t rows);
// The steps of all functions, in order.
absl::StatusOr<std::vector<PayloadStep>> payload_steps(const Json& program, int64_t rows);

bool is_product(const PayloadStep& step);
// Chains `tuning` to the step's descriptor if it sets anything. `tuning` must outlive the step.
void tune_step(const lathe_tuning& tuning, PayloadStep* step);
// The same for every matmul and matmul_argmax among the steps.
void tune_products(const lathe_tuning& tuning, std::vector<PayloadStep>* steps);

// The extents of all values. An extent that the payload leaves open follows from a step or from an op of the text;
// otherwise it is `rows`. kInvalidArgument: as for function_steps.
absl::StatusOr<std::vector<std::vector<int64_t>>> shapes_of(const Json& function,
                                                            const std::vector<PayloadStep>& steps,
                                                            int64_t rows);

// Describes the step in one line: "matmul f32 64x48x32 nn".
std::string step_line(const PayloadStep& step);

}  // namespace lathe::cli
