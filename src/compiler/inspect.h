// Reads a payload that Lathe did not generate: a module of functions in linalg on tensors. Translates it to a
// program of Lathe's ops. Compiles nothing.
#pragma once

#include "absl/strings/string_view.h"
#include "core/json.h"

namespace lathe {

// Returns the program as JSON. `text` may be any bytes; `name` is the file name for locations. The program is
//
//   {"functions": [{"name", "values": [{"dtype", "shape": [5, null]}...], "arguments": [value...],
//                   "results": [value...], "steps": [step...], "numbers": [number...], "meaning": {}}...]}
//
// A value is a row-major tensor, identified by its index. A null extent is dynamic. The steps are in an order in
// which they can run. A step is one of:
//
//   {"op": "matmul", "location", "a": access, "b": access, "d": access, "alpha": 1.0, "c": access,
//    "bias": access, "activation": "none", "residual": access}
//       d = residual + activation(alpha * a * b + c + bias)
//   {"op": "argmax", "location", "x": access, "indices": access, "values": access, "index_offset": 0}
//   {"op": "matmul_argmax", "location", "a", "b", "bias", "logits": "f32", "indices", "values", "index_offset"}
//   {"op": "elementwise", "location", "reads": [value...], "d": access, "program": "", "in0": access...}
//       the program (core/elementwise.h) applied to the inputs in0, in1, ...
//   {"op": "elementwise", "location", "reads", "d", "on_host": "its loops do not collapse to three"}
//       no kernel can compute it, for the given reason; the host can evaluate its "meaning"
//
// c, bias, residual and values are optional. An access is {"value", "dims": "bmk"} with one letter for each
// dimension of the value, outermost first:
//   b  batch    m  rows    n  columns    k  reduced    u  extent 1
//   r  a row dimension of an argmax (its reduced dimension, n, may be any), or any dimension of an on_host step
// Adjacent dimensions with the same letter count as one dimension of the step.
//
// "meaning" is the function as data (meaning.h), and "numbers" has the number of each value there. If the
// function cannot be evaluated, "meaning" is null and "unjudged" says why.
//
// A text that is not such a program gives {"refused": {"location", "reason", "malformed": bool}}. "malformed" is
// true if the text is not a valid module.
Json inspect_payload(absl::string_view name, absl::string_view text);

}  // namespace lathe
