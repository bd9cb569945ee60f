// Reads payloads with random edits. Each one must be read or refused. A few end the compiler process, or use up its
// memory, because of MLIR's parser; then the context must read the next one. LATHE_TEST_PAYLOADS=N tries N texts
// (default 400), LATHE_TEST_SEED=S repeats the texts of an earlier run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "cli/session.h"
#include "lathe/lathe.h"
#include "tests/sample.h"

namespace lathe::cli {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string payload(const std::filesystem::path& name) {
  std::ifstream in(LATHE_PAYLOADS_DIR / name);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> payloads() {
  std::set<std::filesystem::path> names;  // sorted, because the order of the file system varies
  for (const auto& file : std::filesystem::directory_iterator(LATHE_PAYLOADS_DIR))
    names.insert(file.path().filename());
  std::vector<std::string> texts;
  for (const auto& name : names) texts.push_back(payload(name));
  return texts;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed), texts_(payloads()) {}

  std::string next() {
    std::string text = pick(texts_);
    if (below(2)) replace_everywhere(&text);
    for (int edits = below(4); edits > 0; --edits) edit(&text);
    return text;
  }

 private:
  int below(size_t n) { return static_cast<int>(random_() % std::max<size_t>(n, 1)); }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(from.size()))];
  }
  std::string take(const std::string& text, size_t most) {
    const auto from = static_cast<size_t>(below(text.size()));
    return text.substr(from, static_cast<size_t>(below(most)));
  }

  // Changes a word everywhere. The result is often a valid payload.
  void replace_everywhere(std::string* text) {
    static const std::vector<std::pair<std::string, std::string>> kSwaps = {
        {"f32", "f16"},
        {"f32", "bf16"},
        {"f32", "f64"},
        {"f16", "f8E4M3FN"},
        {"bf16", "f32"},
        {"i64", "i32"},
        {"?x", "3x"},
        {"64x", "?x"},
        {"256", "1"},
        {"64", "0"},
        {"128x8x64", "?x8x64"},
        {"(h, m, n)", "(m, h, n)"},
        {"-> (n, k)>", "-> (k, n)>"},
        {"-> (m, k)>", "-> (k, m)>"},
        {"-> (m, n)>", "-> (n, m)>"},
        {"ogt", "ugt"},
        {"ogt", "oge"},
        {"fastmath<nnan> ", ""},
        {"arith.addf", "arith.mulf"},
        {"arith.mulf", "arith.addf"},
        {"math.erf", "math.tanh"},
        {"arith.maximumf", "arith.maxnumf"},
        {"0.5", "0.25"},
        {"0.0", "1.0"},
        {"linalg.add", "linalg.sub"},
        {"sge", "slt"},
        {"linalg.index 0", "linalg.index 1"},
        {"(i, j) -> (i)", "(i, j) -> (j)"},
        {"(b, h, k, n)", "(b, k, h, n)"},
        {"(i, n, j)", "(n, i, j)"},
        {"arith.truncf %p : f32 to f16", "arith.extf %p : f16 to f32"},
        {"arith.select", "arith.addf"},
        {"linalg.matmul", "linalg.generic"}};
    for (int times = 1 + below(3); times > 0; --times) {
      const auto& [from, to] = pick(kSwaps);
      for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size())
        text->replace(at, from.size(), to);
    }
  }

  void edit(std::string* text) {
    static const std::vector<std::string> kWords = {"?",
                                                    "0",
                                                    "1",
                                                    "7",
                                                    "2147483648",
                                                    "9223372036854775807",
                                                    "f16",
                                                    "bf16",
                                                    "i8",
                                                    "f64",
                                                    "index",
                                                    "f8E4M3FN",
                                                    "complex<f32>",
                                                    "vector<4xf32>",
                                                    "arith.mulf",
                                                    "arith.addf",
                                                    "arith.maximumf",
                                                    "math.exp",
                                                    "reduction",
                                                    "parallel",
                                                    "(i, j) -> (j, i)",
                                                    "(m, n, k) -> (m, m)",
                                                    "(m, n, k) -> (k, n)",
                                                    "(i, j) -> (i + j)",
                                                    "%zero",
                                                    "%x",
                                                    "%w",
                                                    "<",
                                                    ">",
                                                    "{",
                                                    "}",
                                                    "\"",
                                                    "tensor<?x?xf32>",
                                                    "tensor<*xf32>",
                                                    "memref<4xf32>",
                                                    "linalg.add",
                                                    "linalg.mul",
                                                    "linalg.matmul",
                                                    "linalg.dot",
                                                    "linalg.reduce",
                                                    "dense<1.0>",
                                                    "loc(unknown)",
                                                    "#a"};
    const auto at = static_cast<size_t>(below(text->size()));
    switch (below(6)) {
      case 0: text->insert(at, pick(kWords)); break;
      case 1: text->erase(at, static_cast<size_t>(below(12))); break;
      case 2: text->insert(at, take(*text, 80)); break;
      case 3: text->erase(at); break;
      case 4: (*text)[std::min(at, text->size() - 1)] = static_cast<char>(below(256)); break;
      default: replace_word(text, at, pick(kWords));
    }
    if (text->empty()) *text = "m";
  }
  // Replaces the word around `at`, so that the text still parses more often.
  void replace_word(std::string* text, size_t at, const std::string& by) {
    const auto in_word = [&](size_t i) {
      return i < text->size() && (isalnum((*text)[i]) || (*text)[i] == '.');
    };
    size_t from = at, to = at;
    while (from > 0 && in_word(from - 1)) --from;
    while (in_word(to)) ++to;
    text->replace(from, to - from, by);
  }

  std::mt19937 random_;
  std::vector<std::string> texts_;
};

TEST(PayloadEdits, ReadsOrRefusesEveryText) {
  const char* wanted = getenv("LATHE_TEST_PAYLOADS");
  const int count = wanted ? atoi(wanted) : 400;
  Mutator mutator(static_cast<uint32_t>(seed_of_test(sample_seed())));
  Arguments arguments;
  arguments.flags = {{"cache-dir", ""}};
  const Context context = make_context(arguments).value();
  std::map<lathe_status, int> ends;
  for (int i = 0; i < count; ++i) {
    const std::string text = mutator.next();
    std::vector<Text> program;
    const lathe_status end =
        lathe_payload_inspect(context.get(), "p.mlir", text.data(), text.size(), collect_text, &program);
    ++ends[end];
    if (end == LATHE_OK) continue;
    const std::string why = lathe_last_error();
    const bool refused = end == LATHE_UNSUPPORTED || end == LATHE_INVALID_ARGUMENT;
    ASSERT_TRUE(refused || end == LATHE_COMPILE_FAILED) << end << " " << why << "\n" << text;
    if (refused)
      ASSERT_THAT(why, HasSubstr("p.mlir:")) << text;
    else
      ASSERT_THAT(why, AnyOf(HasSubstr("payload p.mlir: the compiler process was ended by signal"),
                             HasSubstr("payload p.mlir: the compiler process ran out of the memory")))
          << text;
  }
  std::printf("%d texts: %d read, %d unsupported, %d malformed, %d ended the compiler process\n", count,
              ends[LATHE_OK], ends[LATHE_UNSUPPORTED], ends[LATHE_INVALID_ARGUMENT],
              ends[LATHE_COMPILE_FAILED]);
  // Some edits leave the payload valid, some make it unsupported, and some make it malformed.
  EXPECT_GT(ends[LATHE_OK], 0);
  EXPECT_GT(ends[LATHE_UNSUPPORTED], 0);
  EXPECT_GT(ends[LATHE_INVALID_ARGUMENT], 0);
  EXPECT_LE(ends[LATHE_COMPILE_FAILED], 2 + count / 1000);
}

// The parser allocates memory for all results up to the number in the text.
TEST(PayloadEdits, ReportsATextThatUsesAllMemory) {
  Arguments arguments;
  arguments.flags = {{"cache-dir", ""}};
  const Context context = make_context(arguments).value();
  const auto inspect = [&](const std::string& text) {
    std::vector<Text> program;
    return lathe_payload_inspect(context.get(), "p.mlir", text.data(), text.size(), collect_text, &program);
  };
  const std::string whole = payload("argmax_middle.mlir");
  std::string text = whole;
  const std::string result = "return %r#";
  const size_t at = text.rfind(result);
  ASSERT_NE(at, std::string::npos);
  text.replace(at + result.size(), 1, "2147483648");
  EXPECT_EQ(inspect(text), LATHE_COMPILE_FAILED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("payload p.mlir: the compiler process reached its memory limit"));
  EXPECT_EQ(inspect(whole), LATHE_OK) << lathe_last_error();
}

}  // namespace
}  // namespace lathe::cli
