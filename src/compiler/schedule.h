// A transform-dialect schedule: a file of named sequences that run over a payload. Its entry sequence can have
// named parameters:
//
//   module attributes {transform.with_named_sequence} {
//     transform.named_sequence @__transform_main(
//         %payload: !transform.any_op {transform.readonly},
//         %rows: !transform.param<i64> {lathe.parameter = "tile_m", transform.readonly}) { ... }
//   }
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/mlir.h"
#include "core/json.h"

namespace lathe {

class Schedule {
 public:
  // `name` is the file name for locations. Errors have line and column.
  static absl::StatusOr<std::unique_ptr<Schedule>> parse(mlir::MLIRContext* context, const std::string& name,
                                                         const std::string& text);

  struct Parameter {
    std::string name, location;  // "tile.mlir:3:10"
    bool is_number = true;       // otherwise a string
  };
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Sets a value for every parameter, a number or a string.
  absl::Status bind(const std::map<std::string, Json>& values);

  mlir::LogicalResult run(mlir::ModuleOp payload) const;

 private:
  absl::Status find_entry();

  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::Operation* entry_ = nullptr;
  std::vector<Parameter> parameters_;
  std::vector<mlir::Attribute> bound_;
};

}  // namespace lathe
