#include "kernels/matmul/emit_patch.h"

#include <numeric>

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kAccess = 16;  // bytes of the widest access

int64_t bytes_of(Type element) { return element.getIntOrFloatBitWidth() / 8; }

// Adjacent elements of a row that one access writes: 16 bytes of D, or up to 16 bytes of the workspace, where rows of N
// elements follow each other without padding.
int64_t neighbours(const TileProgram& p, const Patch& patch) {
  const int64_t most = kAccess / bytes_of(p.output.element);
  return p.epilogue && !patch.grouped ? most : std::gcd(p.n, most);
}

// Applies the epilogue to adjacent elements of a row and stores them.
void store_group(Emit& e, TileProgram& p, const Values& sums, Value row, Value column) {
  const auto count = static_cast<int64_t>(sums.size());
  Value i = e.to_index(row), j = e.to_index(column), at = inside(e, p.output, i, j);
  if (count == 1) {
    e.store(finish(e, p, sums[0], i, j), p.output.memory, at);
    return;
  }
  Value results = finish(e, p, e.from_elements(sums), i, j, count);
  e.store_vector(results, p.output.memory, at, std::min(kAccess, count * bytes_of(p.output.element)));
}

}  // namespace

void store_patch(Emit& e, TileProgram& p, const Patch& patch, const LoadSums& load) {
  const int64_t count = neighbours(p, patch), in_row = patch.columns / count;
  Value rows = e.to_i32(p.rows), columns = e.to_i32(p.columns);
  const auto load_group = [&](Value offset) {
    Values sums;
    for (int64_t at = 0; at < count; at += 4) {
      Values four = load(e.add(offset, 4 * at), std::min<int64_t>(count, 4));
      sums.append(four.begin(), four.end());
    }
    return sums;
  };
  e.loop(patch.lane, e.i32(patch.rows * in_row), 32, [&](Value group) {
    Value r = e.div(group, e.i32(in_row)), c = e.mul(e.rem(group, e.i32(in_row)), count);
    Value row = e.add(patch.row, r), column = e.add(patch.column, c);
    Value offset = e.mul(e.add(e.mul(r, patch.pitch), c), 4);
    e.when(e.less(row, rows), [&] {
      const auto whole = [&] { store_group(e, p, load_group(offset), row, column); };
      if (p.n % count == 0) return e.when(e.less(column, columns), whole);
      const auto singles = [&] {
        e.loop(column, columns, 1, [&](Value j) {
          Value at = e.add(offset, e.mul(e.sub(j, column), 4));
          store_group(e, p, load(at, 1), row, j);
        });
        return Values{};
      };
      Value fits =
          arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::sle, e.add(column, count), columns);
      e.choose(
          fits, {}, [&] { return whole(), Values{}; }, singles);
    });
  });
}

}  // namespace lathe::emit
