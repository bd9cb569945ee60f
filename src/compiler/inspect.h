// Reads a payload that Lathe did not write: a module of functions of linalg on tensors, as a program of
// Lathe's ops. Nothing is compiled here.
#pragma once

#include "absl/strings/string_view.h"
#include "core/json.h"

namespace lathe {

// `name` is the file that locations name. Any bytes are safe. The program:
//
//   {"functions": [{"name", "values": [{"dtype", "shape": [5, null]}...], "arguments": [value...],
//                   "results": [value...], "steps": [step...]}...]}
//
// A value is a row-major tensor, named by its index; null is an extent that a run tells. Steps come in an
// order in which they can be run:
//
//   {"op": "matmul", "location", "a": access, "b": access, "d": access, "alpha": 1.0, "c": access, "bias":
//   access,
//    "activation": "none", "residual": access}          d = residual + activation(alpha a b + c + bias)
//   {"op": "argmax", "location", "x": access, "indices": access, "values": access, "index_offset": 0}
//   {"op": "matmul_argmax", "location", "a", "b", "bias", "logits": "f32", "indices", "values",
//   "index_offset"}
//
// with c, bias, residual and values where the step has them. An access is {"value", "dims": "bmk"}: what each
// dimension of the value is to the step, outermost first: b batch, m rows, n columns, k reduced, r rows of an
// argmax.
//
// What is no such program instead gives {"refused": {"location", "reason", "malformed": bool}}: malformed
// where it is no valid module at all.
Json inspect_payload(absl::string_view name, absl::string_view text);

}  // namespace lathe
