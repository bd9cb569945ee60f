// Tests the whole path from a model's config.json to a token: `lathe manifest`, `lathe warm`, and calls of the output
// layer that must not miss. The engine pads the vocabulary. All real logits are negative, so a padded row of zeros
// would win.
#include <gtest/gtest.h>
#include <lathe/lathe.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/files.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

constexpr int64_t kVocab = 1002, kPadded = 1024, kHidden = 16;  // padded to a multiple of 64
constexpr int64_t kBest = 1001;                                 // the last token has the greatest logit

class ManifestWarm : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "lathe-manifest-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
    std::ofstream(directory_ + "/config.json")
        << R"({"model_type": "llama", "torch_dtype": "float32", "hidden_size": 16, "intermediate_size": 16,)"
        << R"( "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 1002})";
    // The weight as engines store it: [padded tokens, hidden]; rows after the vocabulary are zeros.
    weight_.assign(kPadded * kHidden, 0.0f);
    for (int64_t token = 0; token < kVocab; ++token)
      std::fill_n(weight_.begin() + token * kHidden, kHidden, token == kBest ? -0.5f : -1.0f);
  }
  void TearDown() override {
    lathe_device_close(device_);
    lathe_context_destroy(context_);
    std::filesystem::remove_all(directory_);
  }

  // Writes the manifest and fills a cache from it, as a user does. Then opens a device that loads the
  // manifest's classes from the cache and compiles nothing.
  void warm(const std::string& ranks) {
    const std::string manifest = directory_ + "/manifest.json", cache = directory_ + "/cache";
    Arguments write;
    write.words = {directory_ + "/config.json"};
    write.flags = {{"tp", ranks}, {"max-m", "1"}, {"max-head-m", "2"}, {"output", manifest}};
    ASSERT_TRUE(manifest_verb().run(write).ok()) << manifest_verb().run(write);
    Arguments fill;
    fill.words = {manifest};
    fill.flags = {{"cache-dir", cache}};
    const absl::Status filled = warm_verbs().back().run(fill);
    ASSERT_TRUE(filled.ok()) << filled;

    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    options.cache_dir = cache.c_str();
    ASSERT_EQ(lathe_context_create(&options, &context_), LATHE_OK) << lathe_last_error();
    ASSERT_EQ(lathe_device_open(context_, "cpu", &device_), LATHE_OK) << lathe_last_error();
    const absl::StatusOr<std::string> text = read_file(manifest);
    ASSERT_TRUE(text.ok()) << text.status();
    lathe_manifest* classes = nullptr;
    ASSERT_EQ(lathe_manifest_create(&classes), LATHE_OK);
    ASSERT_EQ(lathe_manifest_parse(classes, text->data(), text->size()), LATHE_OK) << lathe_last_error();
    lathe_warmup_options load = LATHE_WARMUP_OPTIONS_INIT;
    load.miss_policy = LATHE_MISS_ERROR;
    EXPECT_EQ(lathe_warmup(device_, classes, &load, nullptr), LATHE_OK) << lathe_last_error();
    lathe_manifest_destroy(classes);
  }

  // For two sequences, the greedy token among `columns` tokens from `first` on, and its logit.
  struct Greedy {
    lathe_status status;
    int64_t token;
    float logit;
  };
  Greedy greedy(int64_t first, int64_t columns, bool wants_values) {
    int64_t tokens[2] = {-1, -1};
    float logits[2] = {0, 0};
    lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
    desc.m = 2, desc.n = columns, desc.k = kHidden;
    desc.a.data = hidden_.data(), desc.a.dtype = LATHE_F32, desc.a.layout = LATHE_ROW_MAJOR;
    desc.b.data = weight_.data() + first * kHidden, desc.b.dtype = LATHE_F32;
    desc.b.layout = LATHE_COLUMN_MAJOR, desc.b.leading_dimension = kHidden;
    desc.logits_dtype = LATHE_F32;
    desc.indices = tokens, desc.index_dtype = LATHE_I64, desc.index_offset = first;
    desc.values = wants_values ? logits : nullptr;
    desc.miss_policy = LATHE_MISS_ERROR;
    const lathe_status status = lathe_matmul_argmax(device_, nullptr, &desc);
    EXPECT_EQ(tokens[0], tokens[1]);
    return {status, tokens[0], logits[0]};
  }

  // All logits of two sequences, in rows as long as the padded shard.
  lathe_status logits(int64_t first, int64_t columns, int64_t row, std::vector<float>* out) {
    out->assign(2 * row, 7.0f);
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = 2, desc.n = columns, desc.k = kHidden;
    desc.a.data = hidden_.data(), desc.a.dtype = LATHE_F32, desc.a.layout = LATHE_ROW_MAJOR;
    desc.b.data = weight_.data() + first * kHidden, desc.b.dtype = LATHE_F32;
    desc.b.layout = LATHE_COLUMN_MAJOR, desc.b.leading_dimension = kHidden;
    desc.d.data = out->data(), desc.d.dtype = LATHE_F32, desc.d.layout = LATHE_ROW_MAJOR;
    desc.d.leading_dimension = row;
    desc.miss_policy = LATHE_MISS_ERROR;
    return lathe_matmul(device_, nullptr, &desc);
  }

  std::string directory_;
  std::vector<float> weight_, hidden_ = std::vector<float>(2 * kHidden, 1.0f);
  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
};

TEST_F(ManifestWarm, OneRankPassesTheVocabularyAsN) {
  ASSERT_NO_FATAL_FAILURE(warm("1"));
  const Greedy best = greedy(0, kVocab, false);
  ASSERT_EQ(best.status, LATHE_OK) << lathe_last_error();
  EXPECT_EQ(best.token, kBest);
  EXPECT_EQ(greedy(0, kPadded, false).status, LATHE_MISS) << "N must not include padded rows";
  std::vector<float> row;
  ASSERT_EQ(logits(0, kVocab, kPadded, &row), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(row[0], -16.0f);
  EXPECT_EQ(row[kBest], -8.0f);
  EXPECT_EQ(row[kVocab], 7.0f) << "columns after N must not change";
}

TEST_F(ManifestWarm, EachShardPassesItsNumberOfTokensAsN) {
  ASSERT_NO_FATAL_FAILURE(warm("4"));
  // 1024 rows on four ranks: the last has 234 tokens and 22 padded rows.
  float greatest = -INFINITY;
  int64_t token = -1;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const int64_t first = 256 * rank, columns = rank == 3 ? 234 : 256;
    const Greedy best = greedy(first, columns, true);
    ASSERT_EQ(best.status, LATHE_OK) << rank << ": " << lathe_last_error();
    if (best.logit > greatest) greatest = best.logit, token = best.token;
    std::vector<float> row;
    EXPECT_EQ(logits(first, columns, 256, &row), LATHE_OK) << rank << ": " << lathe_last_error();
  }
  EXPECT_EQ(token, kBest);
  EXPECT_EQ(greatest, -8.0f);
  EXPECT_GE(greedy(768, 256, true).token, kVocab)
      << "with the padded shard's N a padded row wins, so this N would be wrong";
}

}  // namespace
}  // namespace lathe::cli
