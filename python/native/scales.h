// Block scales of an operand: lathe.Scales.
#pragma once

#include <lathe/lathe.h>
#include <nanobind/nanobind.h>

#include <string>

#include "array.h"

namespace lathe_python {

// Elements and scales that belong together. One row per format.
struct ScaledFormat {
  const char* name;     // "f8_128", as in the command's --b-format
  const char* element;  // the name of the elements' dtype in ml_dtypes and PyTorch
  lathe_dtype element_dtype, scale_dtype;
  int64_t block;    // elements per scale
  bool takes_tall;  // a scale of b may belong to 128 columns

  int64_t per_byte() const { return element_dtype == LATHE_F4_E2M1 ? 2 : 1; }
};

// The scales of an a or b, as the caller gave them. Immutable.
struct Scales {
  Scales(nb::object array, const std::string& format, bool tiled, nb::object global_scale);
  const ScaledFormat* format;
  nb::object array;
  bool tiled;
  nb::object global_scale;  // a float32 array of one dimension, or None
};

// Null for None and for an argument that was not given. `name` is for the TypeError of other objects.
const Scales* scales_of(nb::handle scales, const char* name);

// The memory of an operand's scales during a call. The lathe_scale must live as long as the descriptor.
class ScalesInUse {
 public:
  // The operand that the scales belong to. In an array of scales with three dimensions, the matrices of the batch are
  // dimension `matrix_dim` and lines dimension `line_dim`.
  struct Place {
    bool is_b = false;
    int64_t lines = 0, matrices = 1;
    int64_t globals = 1;  // elements of global_scale
    int matrix_dim = 0, line_dim = 1;
  };
  // `operand` was set from `elements`, which were read as bytes: a, or (if is_b) b of K by N. Changes it to elements of
  // the format, and points it to the scales. Returns K.
  int64_t attach(Target& target, const Scales& scales, const Array& elements, const Place& place,
                 lathe_operand* operand);

 private:
  void read_lines(Target& target, const Scales& scales, const Place& place, int64_t blocks, const char* name);
  void read_tiles(Target& target, const Scales& scales, const Place& place, int64_t blocks, const char* name);
  Array array_, global_;
  lathe_scale scale_ = LATHE_SCALE_INIT;
};

}  // namespace lathe_python
