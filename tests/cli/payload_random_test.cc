// Generates random valid modules: extents, orders of dimensions, dtypes and elementwise chains vary. Each module is
// read and planned for described devices. Some run on the CPU, and their results are compared with the text.
// LATHE_TEST_PAYLOADS=N tries N / 50 modules (default 60), LATHE_TEST_SEED=S repeats those of an earlier run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/params.h"
#include "cli/payload_run.h"
#include "tests/sample.h"

namespace lathe::cli {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t bound) { return random_.below(bound); }
  uint64_t bits() { return random_.bits(); }
  // Returns the text of a module. *batch_innermost is set if the batch is the innermost dimension of an operand, which
  // may be refused.
  std::string next(bool* batch_innermost) {
    extents_.clear();
    batch_innermost_ = batch_innermost;
    *batch_innermost = false;
    return below(4) == 0 ? argmax() : product();
  }

 private:
  int64_t extent() {
    static const std::vector<int64_t> kExtents = {0, 1, 1, 2, 3, 5, 7, 8, 12, 16, 17, 31, 33, 48, 64, 100};
    return pick(kExtents);
  }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }
  std::string shuffled(std::string letters) {
    for (size_t i = letters.size(); i > 1; --i)
      std::swap(letters[i - 1], letters[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    return letters;
  }
  std::string type(const std::string& dims, const std::string& dtype) const {
    std::string text = "tensor<";
    for (char d : dims) absl::StrAppend(&text, extents_.at(d), "x");
    return absl::StrCat(text, dtype, ">");
  }
  static std::string listed(const std::string& dims) {
    std::vector<std::string> letters;
    for (char d : dims) letters.emplace_back(1, d);
    return absl::StrJoin(letters, ", ");
  }
  // The header of a linalg.generic: its loops, the dimensions of its operands, and the loop that reduces.
  static std::string generic(const std::string& loops, const std::vector<std::string>& operands,
                             char reduced) {
    std::vector<std::string> maps, kinds;
    for (const std::string& dims : operands)
      maps.push_back(absl::StrCat("affine_map<(", listed(loops), ") -> (", listed(dims), ")>"));
    for (char loop : loops) kinds.emplace_back(loop == reduced ? "\"reduction\"" : "\"parallel\"");
    return absl::StrCat("linalg.generic {indexing_maps = [", absl::StrJoin(maps, ", "),
                        "], iterator_types = [", absl::StrJoin(kinds, ", "), "]}");
  }

  std::string product() {
    const bool batched = below(3) == 0;
    for (char d : std::string("mnk")) extents_[d] = extent();
    if (batched) extents_['b'] = 1 + below(4);
    const std::string batch = batched ? "b" : "", in = pick<std::string>({"f32", "f16", "bf16"});
    // If an operand lacks the batch dimension, all matrices of the batch share it.
    const int64_t shared = batched ? below(4) : 3;
    const std::string a = shuffled(absl::StrCat(shared == 0 ? "" : batch, "mk")),
                      b = shuffled(absl::StrCat(shared == 1 ? "" : batch, "kn")),
                      d = below(2) ? absl::StrCat(batch, "mn") : shuffled(absl::StrCat(batch, "mn"));
    // If an operand lacks two loops, either of them may be taken for the batch.
    const std::string batches = absl::StrCat(batch, shared == 0 ? "n" : shared == 1 ? "m" : "");
    for (const std::string& dims : {a, b, d})
      *batch_innermost_ |= batched && batches.find(dims.back()) != std::string::npos;
    const std::string sum = type(d, "f32");
    std::string arguments = absl::StrCat("%a: ", type(a, in), ", %b: ", type(b, in)), body;
    absl::StrAppend(&body, "  %zero = arith.constant 0.0 : f32\n  %half = arith.constant 0.5 : f32\n",
                    "  %one = arith.constant 1.0 : f32\n  %empty = tensor.empty() : ", sum,
                    "\n  %init = linalg.fill ins(%zero : f32) outs(%empty : ", sum, ") -> ", sum, "\n");
    absl::StrAppend(&body, "  %d0 = ", generic(shuffled(batch + "mnk"), {a, b, d}, 'k'),
                    " ins(%a, %b : ", type(a, in), ", ", type(b, in), ") outs(%init : ", sum,
                    ") {\n  ^bb0(%x: ", in, ", %y: ", in, ", %s: f32):\n");
    std::string x = "%x", y = "%y";
    if (in != "f32") {
      absl::StrAppend(&body, "    %xw = arith.extf %x : ", in, " to f32\n    %yw = arith.extf %y : ", in,
                      " to f32\n");
      x = "%xw", y = "%yw";
    }
    absl::StrAppend(&body, "    %p = arith.mulf ", x, ", ", y, " : f32\n    %q = arith.addf %s, %p : f32\n",
                    "    linalg.yield %q : f32\n  } -> ", sum, "\n");
    const std::string out = below(2) ? "f32" : in;
    const std::string last = chain(d, out, &arguments, &body);
    return absl::StrCat("func.func @f(", arguments, ") -> ", type(d, out), " {\n", body, "  return ", last,
                        " : ", type(d, out), "\n}\n");
  }

  // Appends elementwise ops on %d0 (f32). Returns the name of the last value, whose dtype is `out`.
  std::string chain(const std::string& d, const std::string& out, std::string* arguments, std::string* body) {
    std::vector<std::string> kinds;
    for (const char* kind : {"scale", "bias", "activation", "residual"})
      if (below(3) == 0) kinds.emplace_back(kind);
    if (below(4) == 0) std::reverse(kinds.begin(), kinds.end());  // an order that is not an epilogue of Lathe
    if (out != "f32") kinds.emplace_back("round");
    std::string value = "%d0";
    for (size_t i = 0; i < kinds.size(); ++i) {
      const std::string &kind = kinds[i], to = kind == "round" ? out : "f32",
                        result = absl::StrCat("%d", i + 1);
      std::vector<std::string> operands = {d};
      std::string ins = value, types = type(d, "f32"), block = "%p: f32";
      if (kind == "bias" || kind == "residual") {
        operands.push_back(kind == "bias" ? "n" : d);
        absl::StrAppend(arguments, ", %", kind, ": ", type(operands[1], "f32"));
        absl::StrAppend(&ins, ", %", kind);
        absl::StrAppend(&types, ", ", type(operands[1], "f32"));
        absl::StrAppend(&block, ", %q: f32");
      }
      operands.push_back(d);
      absl::StrAppend(body, "  %e", i, " = tensor.empty() : ", type(d, to), "\n  ", result, " = ",
                      generic(d, operands, ' '), " ins(", ins, " : ", types, ") outs(%e", i, " : ",
                      type(d, to), ") {\n  ^bb0(", block, ", %u: ", to, "):\n", code(kind, out),
                      "    linalg.yield %v : ", to, "\n  } -> ", type(d, to), "\n");
      value = result;
    }
    return value;
  }
  std::string code(const std::string& kind, const std::string& out) {
    if (kind == "scale") return "    %v = arith.mulf %p, %half : f32\n";
    if (kind == "round") return absl::StrCat("    %v = arith.truncf %p : f32 to ", out, "\n");
    if (kind != "activation") return "    %v = arith.addf %p, %q : f32\n";
    if (below(2)) return "    %v = arith.maximumf %p, %zero : f32\n";
    return "    %1 = arith.negf %p : f32\n    %2 = math.exp %1 : f32\n    %3 = arith.addf %one, %2 : f32\n"
           "    %v = arith.divf %p, %3 : f32\n";
  }

  std::string argmax() {
    const std::string x = shuffled(below(2) ? "in" : "ijn");
    std::string rows = x;
    rows.erase(rows.find('n'), 1);
    for (char d : x) extents_[d] = std::max<int64_t>(extent(), d == 'n' ? 1 : 0);
    const std::string in = pick<std::string>({"f32", "f16", "bf16"}), to = pick<std::string>({"i32", "i64"});
    const std::string values = type(rows, "f32"), indices = type(rows, to);
    const std::string results = absl::StrCat("(", values, ", ", indices, ")");
    const std::string widened =
        in == "f32" ? "" : absl::StrCat("    %in = arith.extf %x0 : ", in, " to f32\n");
    return absl::StrCat(
        "func.func @f(%x: ", type(x, in), ") -> ", results, " {\n  %low = arith.constant 0xFF800000 : f32\n",
        "  %none = arith.constant 0 : ", to, "\n  %ev = tensor.empty() : ", values,
        "\n  %ei = tensor.empty() : ", indices, "\n  %iv = linalg.fill ins(%low : f32) outs(%ev : ", values,
        ") -> ", values, "\n  %ii = linalg.fill ins(%none : ", to, ") outs(%ei : ", indices, ") -> ", indices,
        "\n  %r:2 = ", generic(x, {x, rows, rows}, 'n'), " ins(%x : ", type(x, in),
        ") outs(%iv, %ii : ", values, ", ", indices, ") {\n  ^bb0(", in == "f32" ? "%in" : "%x0", ": ", in,
        ", %best: f32, %at: ", to, "):\n", widened, "    %c = linalg.index ", x.find('n'),
        " : index\n    %column = arith.index_cast %c : index to ", to,
        "\n    %greater = arith.cmpf ugt, %in, %best : f32\n    %open = arith.cmpf ord, %best, %best : f32\n",
        "    %take = arith.andi %greater, %open : i1\n    %value = arith.select %take, %in, %best : f32\n",
        "    %index = arith.select %take, %column, %at : ", to, "\n    linalg.yield %value, %index : f32, ",
        to, "\n  } -> ", results, "\n  return %r#0, %r#1 : ", values, ", ", indices, "\n}\n");
  }

  reference::Normal random_;
  std::map<char, int64_t> extents_;
  bool* batch_innermost_ = nullptr;
};

class PayloadRandom : public testing::Test {
 protected:
  void SetUp() override {
    Arguments arguments;
    arguments.flags = {{"cache-dir", ""}, {"workers", "2"}};
    context_ = make_context(arguments).value();
    devices_.push_back(open_device(context_.get(), arguments).value());
    for (const char* facts : {"h200", "mi300x"}) {
      arguments.flags["facts"] = absl::StrCat(LATHE_FACTS_DIR "/", facts, ".json");
      devices_.push_back(open_device(context_.get(), arguments).value());
    }
  }
  // The program, or null if the module is refused. This is only correct if `may_refuse` is set, and the error must
  // have a location.
  Json read(const std::string& text, bool may_refuse) {
    std::vector<Text> pieces;
    const lathe_status status =
        lathe_payload_inspect(context_.get(), "p.mlir", text.data(), text.size(), collect_text, &pieces);
    if (status == LATHE_OK) return parse_json(pieces, "the program").value();
    EXPECT_TRUE(may_refuse && status == LATHE_UNSUPPORTED) << lathe_last_error() << "\n" << text;
    EXPECT_NE(std::string(lathe_last_error()).find("p.mlir:"), std::string::npos) << lathe_last_error();
    return nullptr;
  }
  // Runs the program on the CPU and checks its results.
  void run(const Json& program, uint64_t seed, const std::string& text) {
    lathe_device* cpu = devices_[0].get();
    const Stream stream = Stream::make(cpu).value();
    auto trial = PayloadTrial::make(cpu, stream, program.at("functions").at(0), 1, seed, {});
    ASSERT_TRUE(trial.ok()) << trial.status() << "\n" << text;
    const absl::Status launched = (*trial)->launch().status();
    ASSERT_TRUE(launched.ok()) << launched << "\n" << text;
    const absl::StatusOr<reference::CheckResult> check = (*trial)->verify();
    ASSERT_TRUE(check.ok()) << check.status() << "\n" << text;
    EXPECT_TRUE(check->ok) << check->what << "\n" << text;
    EXPECT_EQ(check->what.find("not judged"), std::string::npos) << check->what << "\n" << text;
  }

  Context context_;
  std::vector<Device> devices_;  // the CPU, then described GPUs
};

TEST_F(PayloadRandom, ReadsPlansAndRunsValidModules) {
  const char* wanted = getenv("LATHE_TEST_PAYLOADS");
  const int count = wanted ? std::max(atoi(wanted) / 50, 1) : 60;
  Generator generator(seed_of_test(sample_seed()));
  int programs = 0, planned = 0, ran = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    bool batch_innermost = false;
    const std::string text = generator.next(&batch_innermost);
    SCOPED_TRACE(absl::StrCat("module ", i));
    const Json program = read(text, batch_innermost);
    if (program.is_null()) continue;
    ++programs;
    const auto steps = payload_steps(program, 1);
    ASSERT_TRUE(steps.ok()) << steps.status() << "\n" << text;
    for (const Device& device : devices_)
      for (const PayloadStep& step : *steps) {
        const absl::StatusOr<Json> plan = explain_step(device.get(), step);
        ASSERT_TRUE(plan.ok()) << plan.status() << "\n" << text;
        planned += plan->contains("class");
      }
    if (generator.below(3) != 0) continue;
    run(program, generator.bits(), text);
    ++ran;
  }
  std::printf("%d modules: %d programs, %d plans, %d run\n", count, programs, planned, ran);
  EXPECT_GT(programs, count / 2);
  EXPECT_GE(planned, programs);
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace lathe::cli
