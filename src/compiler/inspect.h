// Reads a payload that Lathe did not write: a module of functions of linalg on tensors, as a program of
// Lathe's ops. Nothing is compiled here.
#pragma once

#include "absl/strings/string_view.h"
#include "core/json.h"

namespace lathe {

// `name` is the file that locations name. Any bytes are safe. The program:
//
//   {"functions": [{"name", "values": [{"dtype", "shape": [5, null]}...], "arguments": [value...],
//                   "results": [value...], "steps": [step...], "numbers": [number...], "meaning": {}}...]}
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
//   {"op": "elementwise", "location", "reads": [value...], "d": access, "program": "", "in0": access...}
//                                                       as core/elementwise.h says, of inputs in0, in1, ...
//   {"op": "elementwise", "location", "reads", "d", "on_host": "its loops do not collapse to three"}
//                                                       no kernel does it, for that reason: as "meaning" says
//
// with c, bias, residual and values where the step has them. An access is {"value", "dims": "bmk"}: what each
// dimension of the value is to the step, outermost first: b batch, m rows, n columns, k reduced, r rows of an
// argmax, of which any dimension may be n, and of what is done on the host; u of extent 1. A letter that
// stands twice side by side is of two dimensions that are one to the step. "meaning" is the function's text
// (meaning.h), and "numbers" what it calls each value; it is null, and "unjudged" says why, where the text
// has what cannot be evaluated.
//
// What is no such program instead gives {"refused": {"location", "reason", "malformed": bool}}: malformed
// where it is no valid module at all.
Json inspect_payload(absl::string_view name, absl::string_view text);

}  // namespace lathe
