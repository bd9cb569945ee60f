#include "tune/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/packed.h"
#include "dispatch/prepare.h"
#include "tune/tune_operands.h"
#include "tune_fixture.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

TEST_F(Tune, DispatchFollowsATuningRecord) {
  const MatmulRequest m(7, 40, 33);
  Host host(options());
  const DispatchKey key = key_of_request(*host.device, m.desc);
  const PlanRecord second = winner(*host.device, key, 1);
  ASSERT_TRUE(host.context->cache->write_record(second).ok());
  const DispatchEntry* entry = run(host, m);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(rank_of(host, entry), 1u);
  EXPECT_EQ(entry->by, ChosenBy::kTuning);
  const Json json = explain(host, m);
  EXPECT_EQ(json["chosen_by"], "tuning record");
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["config"], to_json(second.config));
  EXPECT_EQ(json["candidates"][0]["measured_seconds"], 2e-5);
  EXPECT_EQ(json["candidates"][1]["measured_seconds"], 1e-5);
  EXPECT_FALSE(json["candidates"][2].contains("measured_seconds"));
  // A request that forces a candidate gets it.
  lathe_tuning forced = LATHE_TUNING_INIT;
  forced.candidate = 1;
  MatmulRequest other(7, 40, 33);
  other.desc.next = reinterpret_cast<const lathe_chain*>(&forced);
  EXPECT_EQ(explain(host, other)["chosen_by"], "request");
  EXPECT_EQ(explain(host, other)["rank"], 1);
  // A device with another name or number of workers ignores the record.
  Host named(options());
  named.facts.name = "another";
  named.open();
  EXPECT_EQ(run(named, m)->by, ChosenBy::kOracle);
}

TEST_F(Tune, TuningFileGoesBeforeTheStore) {
  const MatmulRequest m(7, 40, 33);
  uint64_t plain = 0, with_file = 0;
  {
    Host host(options());
    const DispatchKey key = key_of_request(*host.device, m.desc);
    ASSERT_TRUE(host.context->cache->write_record(winner(*host.device, key, 1)).ok());
    std::ofstream(scratch_ + "/tuning.json") << tuning_text({winner(*host.device, key, 2)});
    ASSERT_EQ(lathe_device_fingerprint(host.device.get(), &plain), LATHE_OK);
  }
  ContextOptions with = options();
  with.tuning = scratch_ + "/tuning.json";
  Host host(with);
  EXPECT_EQ(rank_of(host, run(host, m)), 2u);
  ASSERT_EQ(lathe_device_fingerprint(host.device.get(), &with_file), LATHE_OK);
  EXPECT_NE(plain, with_file);
  EXPECT_THAT(host.warnings, testing::IsEmpty());

  std::ofstream(scratch_ + "/tuning.json") << "{\"lathe_tuning\": 1, \"rec";
  Host damaged(with);
  EXPECT_EQ(rank_of(damaged, run(damaged, m)), 1u) << "the record of the store";
  ASSERT_EQ(damaged.warnings.size(), 1u);
  EXPECT_THAT(damaged.warnings[0], HasSubstr("tuning.json"));
  with.tuning = scratch_ + "/nowhere.json";
  EXPECT_THAT(Host(with).warnings, testing::ElementsAre(HasSubstr("nowhere.json")));
}

TEST_F(Tune, IgnoresDamagedRecordsAndUnknownCandidates) {
  const MatmulRequest m(7, 40, 33), more(8, 40, 33);
  Host host(options());
  for (const MatmulRequest* each : {&m, &more}) {
    PlanRecord foreign = winner(*host.device, key_of_request(*host.device, each->desc), 1);
    foreign.config.set("tile_m", 12345);
    ASSERT_TRUE(host.context->cache->write_record(foreign).ok());
  }
  EXPECT_EQ(run(host, m)->by, ChosenBy::kOracle);
  EXPECT_EQ(rank_of(host, run(host, more)), 0u);
  ASSERT_EQ(host.warnings.size(), 1u) << "one warning for all";
  EXPECT_THAT(host.warnings[0], HasSubstr("not a candidate here"));

  for (const auto& file : std::filesystem::directory_iterator(scratch_ + "/cache"))
    if (file.path().extension() == ".record") std::filesystem::resize_file(file, file.file_size() - 1);
  Host again(options());
  EXPECT_EQ(run(again, m)->by, ChosenBy::kOracle);
  EXPECT_THAT(again.warnings, testing::Contains(HasSubstr("is refused")));
}

// If a class asks for more than FAST, a record must not change the numeric recipe.
TEST_F(Tune, KeepsPromisesOfDeterminism) {
  MatmulRequest m(7, 40, 51234);
  m.desc.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
  Host host(options());
  const DispatchKey key = key_of_request(*host.device, m.desc);
  const OracleAnswer answer = choose_by_oracle(*host.device, key).value().answer;
  size_t other = 0;
  for (size_t i = 1; i < answer.legal && other == 0; ++i)
    if (answer.ranked[i].plan.numeric_recipe != answer.ranked[0].plan.numeric_recipe) other = i;
  ASSERT_GT(other, 0u);
  ASSERT_TRUE(host.context->cache->write_record(winner(*host.device, key, other)).ok());
  EXPECT_EQ(rank_of(host, run(host, m)), 0u);
  // All measured candidates have the numeric recipe of the first.
  std::vector<std::string> records;
  lathe_tune_options how = LATHE_TUNE_OPTIONS_INIT;
  how.candidates = 1000;
  how.candidate_nanoseconds = 1000;
  how.text_user = &records;
  how.text = [](void* user, const char*, const char* text, size_t size) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(text, size);
  };
  ASSERT_EQ(lathe_tune_matmul(host.device.get(), &m.desc, &how, nullptr), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(records.size(), 1u);
  const PlanRecord record = parse_record(records[0]).value();
  EXPECT_LT(record.measured.size(), answer.legal);
  for (const MeasuredCandidate& c : record.measured)
    for (size_t i = 0; i < answer.legal; ++i)
      if (answer.ranked[i].plan.config == c.config && answer.ranked[i].plan.launch.splits == c.splits)
        EXPECT_EQ(answer.ranked[i].plan.numeric_recipe, answer.ranked[0].plan.numeric_recipe);

  m.desc.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  EXPECT_EQ(lathe_tune_matmul(host.device.get(), &m.desc, &how, nullptr), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("batch_invariant has one numeric recipe"));
}

TEST(TuneWinner, MustBeatTheFirstByTwoPercent) {
  EXPECT_EQ(winner_of({{1, 1, 1, 1, 1}}), 0u);
  EXPECT_EQ(winner_of({{1, 1, 1, 1, 1}, {0.9, 0.9, 0.9, 0.9, 0.9}}), 1u);
  EXPECT_EQ(winner_of({{1, 1, 1, 1, 1}, {0.99, 0.99, 0.99, 0.99, 0.99}}), 0u) << "1 % is too little";
  EXPECT_EQ(winner_of({{1, 1, 1, 1, 1}, {0.8, 0.8, 0.8, 1.2, 1.2}}), 0u) << "it loses two rounds of five";
  // Drift that affects both equally does not matter.
  EXPECT_EQ(winner_of({{1, 2, 4, 8, 16}, {0.9, 1.8, 3.6, 7.2, 14.4}}), 1u);
  EXPECT_EQ(winner_of({{1, 1, 1, 1, 1}, {0.9, 0.9, 0.9, 0.9, 0.9}, {0.7, 0.7, 0.7, 0.7, 0.7}}), 2u);
  EXPECT_EQ(winner_of({{1, 1, 1, 1, 1}, {0.1}}), 0u) << "measured once: it was too slow to continue";
}

// Operands can be made for every kind of class, and their request belongs to it.
TEST_F(Tune, MakesOperandsForEveryKindOfClass) {
  Host host(options());
  const auto makes = [&](const ProblemClass& c) {
    const Dims dims = measured_dims(c);
    const auto operands = TuneOperands::make(*host.device, c, dims, 1 << 20);
    EXPECT_TRUE(operands.ok()) << describe(c, dims) << ": " << operands.status();
    if (!operands.ok()) return;
    Request& first = (*operands)->next_request();
    EXPECT_TRUE(first.key.problem == c);
    EXPECT_EQ(first.dims.m, dims.m);
    const void* const streamed = c.op == Op::kArgmax ? first.args.a : first.args.b;
    Request& second = (*operands)->next_request();
    if ((*operands)->copies() > 1) EXPECT_NE(c.op == Op::kArgmax ? second.args.a : second.args.b, streamed);
  };
  ProblemClass c;
  c.a = c.b = c.d = DType::kF32;
  c.n = 40, c.k = 64, c.m_lo = 17, c.m_hi = 32;
  for (c.trans_a = 0; c.trans_a < 2; ++c.trans_a)
    for (c.trans_b = 0; c.trans_b < 2; ++c.trans_b) makes(c);
  c.trans_a = 0, c.trans_b = 1;
  ProblemClass all = c;
  all.c = all.residual = DType::kBF16;
  all.bias = DType::kF16;
  all.activation = Activation::kSilu;
  makes(all);
  ProblemClass blocks = c;
  blocks.b = DType::kQ4_0;
  makes(blocks);
  ProblemClass bytes = c;
  bytes.a = bytes.b = DType::kI8;
  makes(bytes);
  bytes.scale_a = Scale::kPerChannel, bytes.scale_b = Scale::kPerTensor, bytes.zero_a = 1,
  bytes.zero_b = Scale::kPerTensor;
  makes(bytes);
  ProblemClass packed = c;
  packed.packed_b = kColumns16;
  makes(packed);
  ProblemClass head = c;
  head.op = Op::kMatmulArgmax;
  head.d = DType::kI64;
  head.logits = DType::kBF16;
  head.wants_values = 1;
  head.bias = DType::kF32;
  makes(head);
  head.packed_b = kColumns16;
  makes(head);
  ProblemClass rows;
  rows.op = Op::kArgmax;
  rows.a = DType::kBF16;
  rows.d = DType::kI32;
  rows.wants_values = 1;
  for (const Bucket& bucket : row_buckets()) {
    rows.row_lo = bucket.lo, rows.row_hi = bucket.hi;
    makes(rows);
  }
}

TEST_F(Tune, MeasuresStoresAndReports) {
  const MatmulRequest m(7, 40, 33);
  const std::string output = scratch_ + "/tuning.json";
  Host host(options());
  lathe_manifest* manifest = nullptr;
  ASSERT_EQ(lathe_manifest_create(&manifest), LATHE_OK);
  ASSERT_EQ(lathe_manifest_add_matmul(manifest, "w", &m.desc, 2), LATHE_OK);
  MatmulRequest invariant(7, 48, 33);
  invariant.desc.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  ASSERT_EQ(lathe_manifest_add_matmul(manifest, "i", &invariant.desc, 1), LATHE_OK);
  lathe_tune_options how = LATHE_TUNE_OPTIONS_INIT;
  how.candidates = 3;
  how.candidate_nanoseconds = 1000000;  // enough for more than the minimum of calls, also under TSan
  how.pool_bytes = 1 << 16;
  how.output = output.c_str();
  int told = 0;
  how.run.progress_user = &told;
  how.run.progress = [](void* user, const lathe_warmup_progress* p) -> int32_t {
    ++*static_cast<int*>(user);
    EXPECT_EQ(p->total, 3u);
    EXPECT_EQ(p->status, LATHE_OK) << p->error;
    return 0;
  };
  lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
  ASSERT_EQ(lathe_tune(host.device.get(), manifest, &how, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.classes, 3u);
  EXPECT_EQ(report.replaced + report.confirmed, 2u);
  EXPECT_EQ(report.refused, 1u);
  EXPECT_EQ(report.candidates, 6u);
  EXPECT_EQ(told, 3);
  EXPECT_GT(host.driver->launches.load(), 6 * 7);
  EXPECT_EQ(host.device->table.size(), 0u) << "tuning adds nothing to the dispatch table";
  std::ifstream in(output);
  const absl::StatusOr<TuningFile> file = parse_tuning(std::string(std::istreambuf_iterator<char>(in), {}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->records.size(), 2u);
  const CacheListing listing = host.context->cache->list().value();
  EXPECT_EQ(listing.records.size(), 2u) << "forced candidates leave no plan records";
  // Another class is added to the file.
  how.run.progress = nullptr;
  ASSERT_EQ(lathe_tune_matmul(host.device.get(), &m.desc, &how, nullptr), LATHE_OK) << lathe_last_error();
  std::ifstream again(output);
  EXPECT_EQ(parse_tuning(std::string(std::istreambuf_iterator<char>(again), {}))->records.size(), 3u);
  // A cancelled run skips the remaining classes.
  how.run.progress = [](void*, const lathe_warmup_progress*) -> int32_t { return 1; };
  EXPECT_EQ(lathe_tune(host.device.get(), manifest, &how, &report), LATHE_CANCELLED);
  EXPECT_EQ(report.skipped, 2u);
  lathe_manifest_destroy(manifest);
}

// Besides the best, tuning measures the first candidate of each ukernel and of each allowed external library.
TEST_F(Tune, MeasuresTheFirstOfEachKind) {
  const MatmulRequest m(33, 400, 330);
  ContextOptions allow = options();
  allow.external.use = ExternalUse::kAllow;
  const auto measure = [&](Host& host) {
    lathe_tune_options how = LATHE_TUNE_OPTIONS_INIT;
    how.candidates = 1;
    how.candidate_nanoseconds = 1000;
    how.pool_bytes = 1;
    std::string text;
    how.text_user = &text;
    how.text = [](void* user, const char*, const char* piece, size_t size) {
      static_cast<std::string*>(user)->append(piece, size);
    };
    EXPECT_EQ(lathe_tune_matmul(host.device.get(), &m.desc, &how, nullptr), LATHE_OK) << lathe_last_error();
    std::vector<std::string> kinds;
    const PlanRecord record = parse_record(text).value();
    for (const MeasuredCandidate& c : record.measured)
      kinds.push_back(c.config.external.provider + c.config.ukernel.function);
    return kinds;
  };
  Host host(allow);
  const OracleAnswer answer =
      choose_by_oracle(*host.device, key_of_request(*host.device, m.desc)).value().answer;
  std::vector<std::string> kinds;
  for (size_t i = 0; i < answer.legal; ++i) {
    const CompileConfig& c = answer.ranked[i].plan.config;
    const std::string kind = c.external.provider + c.ukernel.function;
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  ASSERT_THAT(kinds, testing::IsSupersetOf({"", "openblas", "lathe_panels_f32_6x2"}));
  ASSERT_NE(kinds[0], "openblas");
  EXPECT_EQ(measure(host), kinds);
  EXPECT_GT(host.driver->external_launches.load(), 0);

  // If libraries are off, explain still shows their measured times.
  Host off(options());
  const Json explained = explain(off, m);
  const auto openblas =
      std::find_if(explained["candidates"].begin(), explained["candidates"].end(),
                   [](const Json& c) { return c["config"]["external"]["library"] == "openblas"; });
  ASSERT_NE(openblas, explained["candidates"].end());
  EXPECT_EQ((*openblas)["legal"], false);
  EXPECT_TRUE(openblas->contains("predicted_seconds"));
  EXPECT_TRUE(openblas->contains("measured_seconds"));

  // A candidate that fails is left out.
  host.driver->external_launch_error = absl::UnavailableError("status 13");
  kinds.erase(std::find(kinds.begin(), kinds.end(), "openblas"));
  EXPECT_EQ(measure(host), kinds);
  EXPECT_THAT(host.warnings, testing::Contains(HasSubstr("is left out: ")));
}

TEST_F(Tune, ErrorsNameTheReason) {
  const MatmulRequest m(7, 40, 33);
  Host host(options());
  const auto tune_with = [&](const lathe_tune_options& how) {
    return lathe_tune_matmul(host.device.get(), &m.desc, &how, nullptr);
  };
  lathe_tune_options how = LATHE_TUNE_OPTIONS_INIT;
  how.struct_size = 8;
  EXPECT_EQ(tune_with(how), LATHE_INVALID_ARGUMENT);
  how = LATHE_TUNE_OPTIONS_INIT;
  how.run.parallelism = 2;
  EXPECT_EQ(tune_with(how), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("run.parallelism 2"));
  how = LATHE_TUNE_OPTIONS_INIT;
  how.run.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(tune_with(how), LATHE_INVALID_ARGUMENT);
  how = LATHE_TUNE_OPTIONS_INIT;
  how.candidates = 1 << 20;
  EXPECT_EQ(tune_with(how), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_tune_matmul(nullptr, &m.desc, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_tune_argmax(host.device.get(), nullptr, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_tune(host.device.get(), nullptr, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  lathe_tuning forced = LATHE_TUNING_INIT;
  forced.candidate = 1;
  MatmulRequest chained(7, 40, 33);
  chained.desc.next = reinterpret_cast<const lathe_chain*>(&forced);
  EXPECT_EQ(lathe_tune_matmul(host.device.get(), &chained.desc, nullptr, nullptr), LATHE_INVALID_ARGUMENT);

  lathe_device described(*host.context, "described", host.facts, nullptr);
  EXPECT_EQ(lathe_tune_matmul(&described, &m.desc, nullptr, nullptr), LATHE_NOT_AVAILABLE);
  EXPECT_THAT(lathe_last_error(), HasSubstr("only described by facts"));
  Host nowhere{ContextOptions()};
  EXPECT_EQ(lathe_tune_matmul(nowhere.device.get(), &m.desc, nullptr, nullptr), LATHE_NOT_AVAILABLE);
  EXPECT_THAT(lathe_last_error(), HasSubstr("neither a cache directory nor a file"));
  how = LATHE_TUNE_OPTIONS_INIT;
  how.candidates = 1;
  how.candidate_nanoseconds = 1000;
  how.pool_bytes = 1;
  how.output = "/nonexistent/tuning.json";
  EXPECT_EQ(lathe_tune_matmul(nowhere.device.get(), &m.desc, &how, nullptr), LATHE_NOT_AVAILABLE);
  EXPECT_THAT(lathe_last_error(), HasSubstr("/nonexistent"));
  // A file that is not a tuning file is not changed.
  const std::string taken = scratch_ + "/taken";
  std::ofstream(taken) << "a diary";
  how.output = taken.c_str();
  EXPECT_EQ(lathe_tune_matmul(nowhere.device.get(), &m.desc, &how, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("not changed"));
}

}  // namespace
}  // namespace lathe
