// Elementwise ops: random programs over dtypes, dims, shapes, distances and alignments, compared bit by bit; functions
// within their error; and what is refused.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "case_limits.h"
#include "device.h"
#include "elementwise_program.h"
#include "guarded_memory.h"

namespace lathe::conformance {
namespace {

struct Sizes {
  int64_t batch, m, n;
};

using Handle = std::unique_ptr<lathe_program, decltype(&lathe_program_destroy)>;
Handle make_program(const std::string& text) {
  lathe_program* program = nullptr;
  EXPECT_LATHE_OK(lathe_program_create(text.data(), text.size(), &program));
  return Handle(program, lathe_program_destroy);
}

// An operand and the distances of its elements along b, m and n; 0 along a dimension that it does not have.
struct Place {
  int64_t b = 0, m = 0, n = 0, elements = 0;
  lathe_operand operand = LATHE_OPERAND_INIT;
};
Place place(const Input& input, const Sizes& s, int64_t padding) {
  Place p;
  const bool turned = input.dims.find("nm") != std::string::npos;
  const int64_t rows = input.has('m') ? s.m : 1, columns = input.has('n') ? s.n : 1;
  const int64_t leading = (turned ? rows : columns) + padding;
  const bool strided = input.has('m');
  if (strided && padding > 0) p.operand.leading_dimension = leading;
  const int64_t across = strided ? leading : 0;
  p.m = turned ? 1 : across;
  p.n = !input.has('n') ? 0 : turned ? leading : 1;
  const int64_t lines = turned ? columns : rows, width = turned ? rows : columns;
  int64_t matrix = lines == 0 || width == 0 ? 0 : (lines - 1) * leading + width;
  if (input.has('b')) p.b = matrix + padding;
  p.operand.batch_stride = p.b;
  p.operand.layout = turned ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  p.operand.dtype = input.dtype;
  const int64_t count = input.has('b') ? s.batch : 1;
  p.elements = matrix == 0 || count == 0 ? 0 : (count - 1) * p.b + matrix;
  return p;
}

void write(lathe_dtype dtype, const Scalar& s, uint8_t* at) {
  if (!is_integer(dtype)) return store(dtype, s.f, at);
  std::memcpy(at, &s.i, bytes_of(dtype));
}
Scalar read(lathe_dtype dtype, const uint8_t* at) {
  Scalar s;
  if (!is_integer(dtype)) {
    s.f = load(dtype, at);
    return s;
  }
  const size_t bits = 8 * bytes_of(dtype);
  std::memcpy(&s.i, at, bytes_of(dtype));
  s.i = static_cast<int64_t>(static_cast<uint64_t>(s.i) << (64 - bits)) >> (64 - bits);
  return s;
}

Scalar draw(lathe_dtype dtype, bool special, Random* random) {
  Scalar s;
  if (is_integer(dtype)) {
    s.i = random->below(2) ? random->between(-9, 9) : static_cast<int64_t>(random->next());
    uint8_t bytes[8];
    write(dtype, s, bytes);
    return read(dtype, bytes);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double odd[] = {std::nan(""), kInfinity, -kInfinity, 0.0, -0.0, largest(dtype)};
  s.f = special && random->below(10) == 0 ? odd[random->below(6)] : round_to(dtype, 3 * random->normal());
  return s;
}

// One request in guarded memory, with its expected result.
class Request {
 public:
  Request(const Program& program, const Sizes& sizes, bool in_place, Random* random)
      : program_(program), sizes_(sizes) {
    const bool special = random->below(2) != 0;
    const size_t misalign = random->below(4) == 0 ? 1 : 0;
    const Flush flush = random->below(2) ? Flush::kEnd : Flush::kStart;
    const auto padding = [&] { return random->below(2) ? 0 : random->between(1, 20); };
    desc_.m = sizes.m, desc_.n = sizes.n, desc_.batch = sizes.batch;
    d_ = place({program.d, "bmn"}, sizes, padding());
    out_ = std::make_unique<GuardedMemory>(bytes(d_), flush, misalign);
    for (const Input& input : program.inputs) {
      const bool is_d = in_place && inputs_.empty();
      Place p = is_d ? d_ : place(input, sizes, padding());
      std::vector<Scalar> values(static_cast<size_t>(p.elements));
      for (Scalar& s : values) s = draw(input.dtype, special, random);
      if (!is_d) memory_.push_back(std::make_unique<GuardedMemory>(bytes(p), flush, misalign));
      GuardedMemory& memory = is_d ? *out_ : *memory_.back();
      for (size_t e = 0; e < values.size(); ++e)
        write(input.dtype, values[e], memory.data() + e * bytes_of(input.dtype));
      if (!is_d) memory.write_protect();
      p.operand.data = memory.address();
      desc_.inputs[inputs_.size()] = p.operand;
      inputs_.push_back(p);
      values_.push_back(std::move(values));
    }
    if (!in_place) std::memset(out_->data(), 0xDD, out_->bytes());
    before_.assign(out_->data(), out_->data() + out_->bytes());
    out_->publish();
    desc_.d = d_.operand;
    desc_.d.data = out_->address();
  }

  lathe_elementwise_desc* desc() { return &desc_; }

  testing::AssertionResult check(double tolerance) const {
    out_->fetch();
    const auto failure = [&] {
      return testing::AssertionFailure()
             << "batch " << sizes_.batch << " m " << sizes_.m << " n " << sizes_.n << ": ";
    };
    std::vector<bool> written(static_cast<size_t>(d_.elements));
    for (int64_t b = 0; b < sizes_.batch; ++b)
      for (int64_t i = 0; i < sizes_.m; ++i)
        for (int64_t j = 0; j < sizes_.n; ++j) {
          std::vector<Scalar> given;
          for (size_t k = 0; k < inputs_.size(); ++k) {
            const Place& p = inputs_[k];
            given.push_back(values_[k][static_cast<size_t>(b * p.b + i * p.m + j * p.n)]);
          }
          const Scalar want = program_.evaluate(given, {b, i, j});
          const int64_t at = b * d_.b + i * d_.m + j;
          written[static_cast<size_t>(at)] = true;
          const Scalar got = read(program_.d, out_->data() + static_cast<size_t>(at) * bytes_of(program_.d));
          const bool same = is_integer(program_.d) ? got.i == want.i
                            : std::isnan(want.f)   ? std::isnan(got.f)
                            : std::isinf(want.f)
                                ? got.f == want.f
                                : std::fabs(got.f - want.f) <= tolerance * (1 + std::fabs(want.f));
          if (!same)
            return failure() << "(" << b << ", " << i << ", " << j << ") is " << got.f << " / " << got.i
                             << ", expected " << want.f << " / " << want.i << " of " << program_.text();
        }
    const size_t element = bytes_of(program_.d);
    for (size_t e = 0; e < written.size(); ++e)
      if (!written[e] && std::memcmp(out_->data() + e * element, before_.data() + e * element, element) != 0)
        return failure() << "padding of d was written: " << program_.text();
    if (!out_->canaries_intact()) return failure() << "memory around d was written: " << program_.text();
    for (const auto& memory : memory_)
      if (!memory->unchanged()) return failure() << "an input was written: " << program_.text();
    return testing::AssertionSuccess();
  }

 private:
  static size_t bytes(const Place& p) {
    return static_cast<size_t>(p.elements) * bytes_of(static_cast<lathe_dtype>(p.operand.dtype));
  }

  const Program& program_;
  Sizes sizes_;
  Place d_;
  std::vector<Place> inputs_;
  std::vector<std::vector<Scalar>> values_;
  std::unique_ptr<GuardedMemory> out_;
  std::vector<std::unique_ptr<GuardedMemory>> memory_;
  std::vector<uint8_t> before_;
  lathe_elementwise_desc desc_ = LATHE_ELEMENTWISE_DESC_INIT;
};

class Elementwise : public ConformanceTest {
 protected:
  testing::AssertionResult run(const Program& program, const Sizes& sizes, bool in_place = false,
                               double tolerance = 0, int32_t candidate = 0) {
    if (leaves_out({sizes.m}, sizes.m * sizes.n)) return testing::AssertionSuccess();
    const Handle handle = make_program(program.text());
    if (handle == nullptr) return testing::AssertionFailure() << lathe_last_error();
    Request request(program, sizes, in_place, &random_);
    request.desc()->program = handle.get();
    lathe_tuning tuning = LATHE_TUNING_INIT;
    tuning.candidate = candidate;
    if (candidate > 0) request.desc()->next = reinterpret_cast<const lathe_chain*>(&tuning);
    set_current_case(program.text());
    const lathe_status status = lathe_elementwise(device(), nullptr, request.desc());
    if (status != LATHE_OK)
      return testing::AssertionFailure() << lathe_last_error() << " of " << program.text();
    return request.check(tolerance);
  }
  Sizes draw_sizes() {
    const int64_t sizes[] = {1, 1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 64, 67, 131};
    return {random_.between(1, 3), sizes[random_.below(14)], sizes[random_.below(14)]};
  }

  Random random_ = random_stream(80);
};

TEST_F(Elementwise, RandomPrograms) {
  const int64_t programs = quick_or(6, 60);
  for (int64_t i = 0; i < programs && !is_over(); ++i) {
    const Program program = random_program(&random_);
    for (int shape = 0; shape < 4; ++shape) ASSERT_TRUE(run(program, draw_sizes()));
  }
}

// x * y[n] + m, where m is an index; may run in place.
Program scaled() {
  Program p;
  p.inputs = {{LATHE_F32, "bmn"}, {LATHE_F32, "n"}};
  p.nodes = {{"arith.mulf", "f32", {0, 1}, "", {}},
             {"index", "index", {}, "", {0, 1}},
             {"arith.index_cast", "i32", {3}, "index", {}},
             {"arith.sitofp", "f32", {4}, "i32", {}},
             {"arith.addf", "f32", {2, 5}, "", {}}};
  p.yield = 6;
  return p;
}

TEST_F(Elementwise, InPlace) {
  for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{2, 3, 67}, Sizes{1, 17, 131}})
    EXPECT_TRUE(run(scaled(), sizes, /*in_place=*/true));
}

TEST_F(Elementwise, SizesOfZeroAndBeyondATile) {
  for (const Sizes& sizes :
       {Sizes{0, 4, 4}, Sizes{1, 0, 4}, Sizes{1, 4, 0}, Sizes{1, 33, 4099}, Sizes{3, 1, 9000}})
    EXPECT_TRUE(run(scaled(), sizes));
}

// A distance that separates nothing is ignored.
TEST_F(Elementwise, IgnoresDistancesOfSingleLines) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  Program p;
  p.inputs = {{LATHE_F32, "bmn"}, {LATHE_F32, "bnm"}, {LATHE_F32, "bm"}};
  p.nodes = {{"arith.addf", "f32", {0, 1}, "", {}}, {"arith.mulf", "f32", {2, 3}, "", {}}};
  p.yield = 4;
  const Handle handle = make_program(p.text());
  for (const Sizes& s : {Sizes{1, 1, 67}, Sizes{1, 9, 1}, Sizes{1, 1, 1}, Sizes{3, 1, 5}, Sizes{3, 5, 1},
                         Sizes{0, 1, 5}, Sizes{1, 5, 7}}) {
    for (const int64_t anything : {int64_t{1}, int64_t{-7}, int64_t{1000003}, kLargest}) {
      Request request(p, s, false, &random_);
      lathe_elementwise_desc* const d = request.desc();
      d->program = handle.get();
      for (lathe_operand* o : {&d->inputs[0], &d->inputs[1], &d->inputs[2], &d->d}) {
        if ((o == &d->inputs[1] ? s.n : s.m) <= 1) o->leading_dimension = anything;
        if (s.batch <= 1) o->batch_stride = anything;
      }
      EXPECT_LATHE_OK(lathe_elementwise(device(), nullptr, d));
      EXPECT_TRUE(request.check(0)) << anything;
      if (s.m != 5 || s.batch == 0) continue;
      d->inputs[0].leading_dimension = -1;
      EXPECT_EQ(lathe_elementwise(device(), nullptr, d), LATHE_INVALID_ARGUMENT);
      EXPECT_NE(std::string(lathe_last_error()).find("inputs[0]: leading_dimension -1"), std::string::npos)
          << lathe_last_error();
    }
  }
}

TEST_F(Elementwise, EveryCandidate) {
  const Program program = scaled();
  const Handle handle = make_program(program.text());
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  desc.program = handle.get();
  desc.m = desc.n = 64;
  desc.inputs[0].dtype = desc.inputs[1].dtype = desc.d.dtype = LATHE_F32;
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_elementwise(device(), &desc, &plan));
  const std::string text = explain(plan);
  lathe_plan_destroy(plan);
  const size_t at = text.find("\"legal\":", text.find("\"launch\""));
  ASSERT_NE(at, std::string::npos) << text;
  const int legal = std::atoi(text.c_str() + at + 8);
  ASSERT_GT(legal, 1);
  for (int candidate = 1; candidate <= legal; ++candidate)
    EXPECT_TRUE(run(program, {2, 37, 131}, false, 0, candidate)) << "candidate " << candidate;
}

TEST_F(Elementwise, Functions) {
  for (const char* name : {"math.exp", "math.erf", "math.tanh", "math.sqrt"})
    for (const lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
      Program p;
      p.inputs = {{dtype, "mn"}};
      p.nodes = {{name, name_of(dtype), {0}, "", {}}};
      p.yield = 1;
      p.d = dtype;
      // f16 and bf16 results may be rounded to either neighbour.
      const double tolerance = dtype == LATHE_F32 ? 1e-6 : dtype == LATHE_F16 ? 0x1p-10 : 0x1p-7;
      EXPECT_TRUE(run(p, {1, 9, 131}, false, tolerance)) << name;
    }
}

// Detects missing roundings, because (x + y) - x is rarely y.
TEST_F(Elementwise, RoundsEvery16BitResult) {
  for (const lathe_dtype dtype : {LATHE_F16, LATHE_BF16}) {
    Program p;
    p.inputs = {{dtype, "mn"}, {dtype, "mn"}};
    p.nodes = {{"arith.addf", name_of(dtype), {0, 1}, "", {}},
               {"arith.subf", name_of(dtype), {2, 0}, "", {}}};
    p.yield = 3;
    p.d = dtype;
    EXPECT_TRUE(run(p, {1, 9, 131}));
  }
}

// maxnum and minnum return the number if the other operand is NaN.
TEST_F(Elementwise, MaximumOfNumbersIgnoresNan) {
  for (const char* name : {"arith.maxnumf", "arith.minnumf"}) {
    Program p;
    p.inputs = {{LATHE_F32, "mn"}, {LATHE_F32, "m"}};
    p.nodes = {{name, "f32", {0, 1}, "", {}}};
    p.yield = 2;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(run(p, {1, 33, 67})) << name;
  }
}

TEST_F(Elementwise, RunsWithAPlan) {
  const Program program = scaled();
  const Handle handle = make_program(program.text());
  Request request(program, {2, 5, 7}, false, &random_);
  request.desc()->program = handle.get();
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_elementwise(device(), request.desc(), &plan));
  EXPECT_LATHE_OK(lathe_plan_run_elementwise(plan, nullptr, request.desc()));
  EXPECT_TRUE(request.check(0));
  Program other = program;
  other.nodes[0].name = "arith.addf";
  const Handle different = make_program(other.text());
  request.desc()->program = different.get();
  EXPECT_EQ(lathe_plan_run_elementwise(plan, nullptr, request.desc()), LATHE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(lathe_last_error()).find("program"), std::string::npos) << lathe_last_error();
  lathe_plan_destroy(plan);
}

}  // namespace
}  // namespace lathe::conformance
