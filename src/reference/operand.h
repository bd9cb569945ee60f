// The image of an operand: its device memory, held on the host. It has elements where the layout puts them and poison
// everywhere else. So a kernel that reads past the operand gets a wrong result, and one that writes past it is
// detected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/numbers.h"

namespace lathe::reference {

enum class Fill {
  kNormal,    // floats from N(0, 1), i8 uniform, i32 and i64 of all magnitudes
  kIntegers,  // integers in [-4, 4]: sums are exact, so one wrong index gives a wrong result
  kSpecial    // kNormal, with a NaN, an infinity or a zero at two positions of each matrix
};
// In the order of Fill: "normal", "integers", "special".
const std::vector<std::string>& fill_names();

struct OperandSpec {
  lathe_dtype dtype = LATHE_DTYPE_NONE;
  int64_t rows = 0, columns = 0, batch = 1;
  bool transposed = false;  // stored as LATHE_COLUMN_MAJOR
  bool broadcast = false;   // one matrix for the whole batch
  int64_t padding = 0;      // unused elements after each stored row (or column), and after each matrix
  size_t misalign = 0;      // distance, in bytes, of the first element from an aligned address

  bool exists() const { return dtype != LATHE_DTYPE_NONE; }
  int64_t matrices() const { return broadcast && batch > 0 ? 1 : batch; }  // number of stored matrices
  int64_t lines() const { return transposed ? columns : rows; }
  int64_t line_length() const { return transposed ? rows : columns; }
  int64_t leading_dimension() const { return line_length() + padding; }
  int64_t batch_stride() const { return broadcast ? 0 : lines() * leading_dimension() + padding; }
};

// The size of the operand's image, with the poison around it; 0 if the operand does not exist.
double image_bytes(const OperandSpec& spec);
// The C API's description of an operand whose first element is at `data`.
lathe_operand describe(const OperandSpec& spec, void* data);

class Operand {
 public:
  Operand() = default;
  // Contains only poison.
  explicit Operand(const OperandSpec& spec);

  const OperandSpec& spec() const { return spec_; }
  bool exists() const { return spec_.exists(); }
  int64_t elements() const { return spec_.matrices() * spec_.rows * spec_.columns; }

  double at(int64_t batch, int64_t row, int64_t column) const {
    return load(first(), spec_.dtype, index(batch, row, column));
  }
  // Block dtypes: the sum of the magnitudes of an element's two terms (BlockParts).
  float block_magnitude(int64_t batch, int64_t row, int64_t column) const;
  void set(int64_t batch, int64_t row, int64_t column, double value) {
    store(image_.data() + offset_, spec_.dtype, index(batch, row, column), value);
  }
  // For i8, i32 and i64; exact.
  int64_t integer_at(int64_t batch, int64_t row, int64_t column) const {
    return load_integer(first(), spec_.dtype, index(batch, row, column));
  }
  // Copies element `from` of an array of the same dtype, bit by bit. Not for block dtypes.
  void copy(int64_t batch, int64_t row, int64_t column, const uint8_t* array, int64_t from);
  void fill(Fill fill, Normal* random);

  // The image, to be copied to and from memory with an alignment of at least 64 bytes.
  std::vector<uint8_t>& image() { return image_; }
  const std::vector<uint8_t>& image() const { return image_; }
  // The address of the first element if the image is at `memory`; null if the operand does not exist.
  void* first_at(void* memory) const { return exists() ? static_cast<uint8_t*>(memory) + offset_ : nullptr; }

  // The number of elements that still hold poison.
  int64_t unwritten() const;
  // Describes a byte outside the elements that does not hold poison any more; "" if there is none.
  std::string stray_write() const;
  // The bytes of the first `rows` rows of matrix `batch`, without padding. ROW_MAJOR only.
  std::string row_bytes(int64_t batch, int64_t rows) const;

 private:
  void fill_blocks(Fill fill, Normal* random);
  const uint8_t* first() const { return image_.data() + offset_; }
  int64_t index(int64_t batch, int64_t row, int64_t column) const {
    const int64_t in_matrix = spec_.transposed ? column * spec_.leading_dimension() + row
                                               : row * spec_.leading_dimension() + column;
    return batch * spec_.batch_stride() + in_matrix;
  }

  OperandSpec spec_;
  size_t offset_ = 0;  // of the first element in the image, in bytes
  std::vector<uint8_t> image_;
};

}  // namespace lathe::reference
