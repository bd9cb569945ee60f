#include "scales.h"

#include <utility>

namespace lathe_python {
namespace {

constexpr int64_t kTall = 128;  // columns of b that share a scale in DeepSeek's weights

const ScaledFormat kFormats[] = {
    {"f8_128", "float8_e4m3fn", LATHE_F8_E4M3, LATHE_F32, 128, true},
    {"f8_128_e8m0", "float8_e4m3fn", LATHE_F8_E4M3, LATHE_F8_E8M0, 128, true},
    {"mxf8", "float8_e4m3fn", LATHE_F8_E4M3, LATHE_F8_E8M0, 32, false},
    {"mxf8_e5m2", "float8_e5m2", LATHE_F8_E5M2, LATHE_F8_E8M0, 32, false},
    {"mxf4", "float4_e2m1fn_x2", LATHE_F4_E2M1, LATHE_F8_E8M0, 32, false},
    {"nvf4", "float4_e2m1fn_x2", LATHE_F4_E2M1, LATHE_F8_E4M3, 16, false},
};

const ScaledFormat& format_named(const std::string& name) {
  std::string known;
  for (const ScaledFormat& f : kFormats) {
    if (name == f.name) return f;
    known += std::string(known.empty() ? "" : ", ") + "'" + f.name + "'";
  }
  value_error("format is '" + name + "', but must be one of " + known);
}

std::string number(int64_t value) { return std::to_string(value); }

bool is_int32(nb::handle array) {
  if (!nb::hasattr(array, "dtype")) return false;
  const nb::object dtype = array.attr("dtype");
  const std::string name = nb::cast<std::string>(nb::str(nb::handle(dtype)));
  return name.substr(name.rfind('.') + 1) == "int32";
}
bool is_raw(const std::string& dtype) { return dtype == "uint8" || dtype == "int8"; }

}  // namespace

const Scales* scales_of(nb::handle scales, const char* name) {
  if (!scales.is_valid() || scales.is_none()) return nullptr;
  if (!nb::isinstance<Scales>(scales))
    throw nb::type_error((std::string(name) + " must be a lathe.Scales").c_str());
  return nb::inst_ptr<Scales>(scales);
}

Scales::Scales(nb::object array_, const std::string& format_, bool tiled_, nb::object global)
    : format(&format_named(format_)), array(std::move(array_)), tiled(tiled_), global_scale(nb::none()) {
  if (tiled && format->scale_dtype == LATHE_F32) value_error("scales of float32 are not tiled");
  if (global.is_none()) return;
  nb::module_ numpy = nb::module_::import_("numpy");
  global_scale = numpy.attr("ascontiguousarray")(global, nb::arg("dtype") = "float32").attr("reshape")(-1);
}

int64_t ScalesInUse::attach(Target& target, const Scales& scales, const Array& elements, const Place& place,
                            lathe_operand* operand) {
  const ScaledFormat& f = *scales.format;
  const char* const of = place.is_b ? "b" : "a";
  if (!is_raw(elements.byte_dtype) && elements.byte_dtype != f.element)
    value_error(std::string(of) + " has dtype " + elements.byte_dtype + ", but format '" + f.name + "' has " +
                f.element + (f.per_byte() == 2 ? ", two in a byte" : ""));
  const int64_t per_byte = f.per_byte();
  const int64_t k = per_byte * elements.shape[elements.ndim - (place.is_b ? 2 : 1)];
  operand->dtype = f.element_dtype;
  operand->leading_dimension *= per_byte;
  operand->batch_stride *= per_byte;
  operand->scale = &scale_;
  scale_.dtype = f.scale_dtype;
  scale_.granularity = LATHE_PER_BLOCK;
  scale_.block_size = f.block;
  const std::string name = std::string(of) + "_scale";
  const int64_t blocks = (k + f.block - 1) / f.block;
  if (scales.tiled)
    read_tiles(target, scales, place, blocks, name.c_str());
  else
    read_lines(target, scales, place, blocks, name.c_str());
  scale_.data = array_.data;
  if (scales.global_scale.is_none()) return k;
  global_.read(target, scales.global_scale, "global_scale");
  if (const int64_t wanted = place.globals; global_.shape[0] != wanted)
    value_error("global_scale of " + name + " has " + number(global_.shape[0]) + " elements, but must have " +
                number(wanted));
  scale_.global = static_cast<const float*>(global_.data);
  return k;
}

// Scales of lines and blocks. The strides say which of the two lie side by side.
void ScalesInUse::read_lines(Target& target, const Scales& scales, const Place& place, int64_t blocks,
                             const char* name) {
  const ScaledFormat& f = *scales.format;
  bool words = false;
  if (f.scale_dtype == LATHE_F32) {
    array_.read(target, scales.array, name);
  } else {
    words = f.scale_dtype == LATHE_F8_E8M0 && is_int32(scales.array);
    words ? array_.read(target, scales.array, name) : array_.read_bytes(target, scales.array, name);
  }
  if (array_.ndim == 1) array_.insert_dimension(0);
  const bool batched = array_.ndim == 3;
  const int matrix_dim = place.matrix_dim, line_dim = batched ? place.line_dim : 0,
            block_dim = array_.ndim - 1;
  const int64_t tall_lines = (place.lines + kTall - 1) / kTall;
  const int64_t columns = words ? (blocks + 3) / 4 : blocks;
  const bool tall = place.is_b && f.takes_tall && array_.shape[line_dim] == tall_lines && place.lines > 1;
  const int64_t lines = tall ? tall_lines : place.lines;
  if ((f.scale_dtype == LATHE_F32 && array_.dtype != LATHE_F32) || array_.shape[line_dim] != lines ||
      array_.shape[block_dim] != columns || (batched && array_.shape[matrix_dim] != place.matrices))
    value_error(std::string(name) + " is " + array_.describe() + ", but format '" + f.name + "' needs " +
                (f.scale_dtype == LATHE_F32 ? "float32"
                 : words                    ? "int32"
                                            : "bytes") +
                " of " + number(place.lines) +
                (f.takes_tall && place.is_b ? " or " + number(tall_lines) : "") + " by " + number(columns) +
                (place.matrices > 1 ? ", for each of " + number(place.matrices) : ""));
  const int64_t down = array_.stride[line_dim], across = array_.stride[block_dim];
  const bool by_line = !words && (across == 1 || columns == 1), by_block = down == 1 || lines == 1;
  if (!by_line && !by_block)
    value_error(std::string(name) + " is " + array_.describe() + ", but " +
                (words ? "the words of its lines" : "its rows or columns") + " must be contiguous");
  scale_.block_lines = tall ? kTall : 1;
  scale_.layout = words     ? LATHE_SCALES_PACKED_BY_FOUR
                  : by_line ? LATHE_SCALES_BY_LINE
                            : LATHE_SCALES_BY_BLOCK;
  scale_.leading_dimension = by_line ? (lines > 1 ? down : 0) : (columns > 1 ? across : 0);
  scale_.batch_stride = batched && place.matrices > 1 ? array_.stride[matrix_dim] : 0;
}

void ScalesInUse::read_tiles(Target& target, const Scales& scales, const Place& place, int64_t blocks,
                             const char* name) {
  constexpr int64_t kTileLines = 128, kTileBlocks = 4, kTileBytes = 512;
  array_.read_bytes(target, scales.array, name);
  const int64_t bytes =
      (place.lines + kTileLines - 1) / kTileLines * ((blocks + kTileBlocks - 1) / kTileBlocks) * kTileBytes;
  int64_t have = 1;
  for (int i = array_.ndim - 1; i >= 0; --i) {
    if (array_.shape[i] > 1 && array_.stride[i] != have)
      value_error(std::string(name) + " is not contiguous");
    have *= array_.shape[i];
  }
  if (have != bytes && have != bytes * place.matrices)
    value_error(std::string(name) + " has " + number(have) + " bytes, but its tiles have " + number(bytes) +
                (place.matrices > 1 ? " for each of " + number(place.matrices) : ""));
  scale_.block_lines = 1;
  scale_.layout = LATHE_SCALES_TILED;
  scale_.batch_stride = have == bytes ? 0 : bytes;
}

}  // namespace lathe_python
