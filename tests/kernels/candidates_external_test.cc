#include "kernels/candidates_external.h"

#include <gtest/gtest.h>

#include <set>

#include "oracle/oracle.h"

namespace lathe {
namespace {

ProblemClass product(DType in, DType out) {
  ProblemClass c;
  c.a = c.b = in;
  c.d = out;
  c.trans_b = 1;
  c.n = c.k = 1024;
  c.m_lo = 33;
  c.m_hi = 64;
  c.alignment = Alignment::k16;
  return c;
}

OraclePolicy policy(ExternalUse use, ExternalId which = ExternalId::kAny) {
  OraclePolicy p;
  p.external.choice = {use, which};
  for (ExternalId id : kExternalIds) p.external.found.push_back({id, "1.0", ""});
  return p;
}

DeviceFacts facts(const char* name) {
  const absl::StatusOr<DeviceFacts> facts =
      load_facts(std::string(LATHE_SOURCE_DIR) + "/runtime/facts/" + name + ".json");
  EXPECT_TRUE(facts.ok()) << facts.status();
  return *facts;
}

std::vector<RankedPlan> ranked(const ProblemClass& c, const DeviceFacts& facts, const OraclePolicy& policy) {
  const absl::StatusOr<OracleAnswer> answer = rank_plans(c, facts, policy);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? answer->ranked : std::vector<RankedPlan>();
}

// The first plan of that library, or of any if `provider` is empty. An empty plan if there is none.
RankedPlan of_library(const std::vector<RankedPlan>& plans, const std::string& provider = "") {
  for (const RankedPlan& p : plans)
    if (!p.plan.config.external.provider.empty() &&
        (provider.empty() || p.plan.config.external.provider == provider))
      return p;
  return {};
}

const DType kIn[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8};

// The plan names the library and the routine, because the cache key is made of the plan.
TEST(ExternalRows, EachRowServesAClass) {
  for (const ExternalRow& row : external_rows()) {
    const char* device = row.backend == Backend::kCpu    ? "xeon-8592plus"
                         : row.backend == Backend::kCuda ? "h200"
                                                         : "mi300x";
    for (const DType d : row.d) {
      const RankedPlan first =
          ranked(product(row.a, d), facts(device), policy(ExternalUse::kRequire, row.id)).front();
      EXPECT_EQ(first.rejection, "");
      EXPECT_EQ(name_of(first.plan.config.kernel()), "external");
      EXPECT_EQ(first.plan.config.external.provider, name_of(row.id));
      EXPECT_EQ(first.plan.config.external.routine, row.routine);
      EXPECT_GT(first.plan.predicted_seconds, 0);
      EXPECT_FALSE(first.plan.numeric_recipe.empty());
    }
  }
}

// Off is the default. `lathe explain` still shows the predicted times of the libraries.
TEST(ExternalPolicyTest, OffRejectsAllButPredictsTimes) {
  for (const DType in : kIn) {
    const DType out = in == DType::kI8 ? DType::kI32 : in;
    const std::vector<RankedPlan> off = ranked(product(in, out), facts("xeon-8592plus"), OraclePolicy());
    for (const RankedPlan& p : off) {
      if (p.plan.config.external.provider.empty()) continue;
      EXPECT_NE(p.rejection.find("LATHE_EXTERNAL"), std::string::npos) << p.rejection;
      EXPECT_GT(p.plan.predicted_seconds, 0);
    }
    EXPECT_TRUE(off.front().plan.config.external.provider.empty());
  }
}

TEST(ExternalPolicyTest, AllowRanksByTime) {
  const std::vector<RankedPlan> plans =
      ranked(product(DType::kF32, DType::kF32), facts("xeon-8592plus"), policy(ExternalUse::kAllow));
  std::set<std::string> legal;
  double before = 0;
  for (const RankedPlan& p : plans) {
    if (!p.rejection.empty()) break;
    EXPECT_GE(p.plan.predicted_seconds, before);
    before = p.plan.predicted_seconds;
    legal.insert(p.plan.config.external.provider);
  }
  EXPECT_EQ(legal, (std::set<std::string>{"", "openblas", "onednn"}));
}

TEST(ExternalPolicyTest, PreferFallsBackToLathesOwnPlans) {
  const DeviceFacts xeon = facts("xeon-8592plus");
  const ProblemClass f32 = product(DType::kF32, DType::kF32);
  for (const ExternalId id : {ExternalId::kOpenBlas, ExternalId::kOneDnn})
    EXPECT_EQ(ranked(f32, xeon, policy(ExternalUse::kPrefer, id)).front().plan.config.external.provider,
              name_of(id));
  // Lathe calls oneDNN for no f16 matmul.
  const std::vector<RankedPlan> f16 =
      ranked(product(DType::kF16, DType::kF16), xeon, policy(ExternalUse::kPrefer, ExternalId::kOneDnn));
  EXPECT_EQ(f16.front().plan.config.external.provider, "");
  EXPECT_EQ(f16.front().rejection, "");
}

TEST(ExternalPolicyTest, RequireRejectsLathesOwnPlans) {
  const DeviceFacts xeon = facts("xeon-8592plus");
  for (const RankedPlan& p : ranked(product(DType::kF32, DType::kF32), xeon, policy(ExternalUse::kRequire)))
    if (p.rejection.empty()) EXPECT_NE(p.plan.config.external.provider, "");
  const absl::StatusOr<OracleAnswer> none =
      rank_plans(product(DType::kF16, DType::kF16), xeon, policy(ExternalUse::kRequire, ExternalId::kOneDnn));
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ExternalPolicyTest, RejectsAbsentLibraryWithTheLoadersMessage) {
  OraclePolicy p = policy(ExternalUse::kPrefer, ExternalId::kOpenBlas);
  p.external.found[0].absent = "libopenblas.so.0: cannot open shared object file";
  const std::vector<RankedPlan> plans = ranked(product(DType::kF32, DType::kF32), facts("xeon-8592plus"), p);
  EXPECT_EQ(plans.front().plan.config.external.provider, "");
  EXPECT_EQ(of_library(plans, "openblas").rejection, p.external.found[0].absent);
  p.external.found.clear();
  EXPECT_NE(
      of_library(ranked(product(DType::kF32, DType::kF32), facts("xeon-8592plus"), p), "openblas").rejection,
      "");
}

TEST(ExternalRows, RejectUnsupportedClasses) {
  struct Case {
    const char* device;
    DType in, out;
    void (*change)(ProblemClass*);
    const char* reason;
  };
  const Case cases[] = {
      {"xeon-8592plus", DType::kF32, DType::kF32,
       [](ProblemClass* c) { c->determinism = Determinism::kRunToRun; }, "determinism"},
      {"xeon-8592plus", DType::kF32, DType::kF32,
       [](ProblemClass* c) { c->determinism = Determinism::kBatchInvariant; }, "determinism"},
      {"xeon-8592plus", DType::kF32, DType::kF32, [](ProblemClass* c) { c->activation = Activation::kRelu; },
       "relu"},
      {"xeon-8592plus", DType::kF32, DType::kF32, [](ProblemClass* c) { c->residual = DType::kF32; },
       "residual"},
      {"xeon-8592plus", DType::kF32, DType::kF32, [](ProblemClass* c) { c->c = DType::kBF16; },
       "C to have the dtype of D"},
      {"xeon-8592plus", DType::kF32, DType::kF32, [](ProblemClass* c) { c->bias = DType::kF16; }, "bias"},
      {"xeon-8592plus", DType::kF32, DType::kBF16, [](ProblemClass*) {}, "D bf16"},
      {"xeon-8592plus", DType::kI8, DType::kF32, [](ProblemClass*) {}, "D f32"},
      {"xeon-8592plus", DType::kI8, DType::kI32, [](ProblemClass* c) { c->k = 131072; }, "saturate"},
      {"ryzen-7-5800u", DType::kI8, DType::kI32, [](ProblemClass*) {}, "VNNI"},
      {"ryzen-7-5800u", DType::kBF16, DType::kBF16, [](ProblemClass*) {}, "BF16"},
      {"h200", DType::kBF16, DType::kBF16, [](ProblemClass* c) { c->k = 1; }, "needs K > 1"},
      {"h200", DType::kBF16, DType::kBF16,
       [](ProblemClass* c) {
         c->alignment = Alignment::kByte;
         c->m_lo = 1;
         c->m_hi = Bucket::kOpenEnd;
       },
       "aligned to their element size"},
      {"h200", DType::kI8, DType::kI32, [](ProblemClass* c) { c->trans_b = 0; }, "K contiguous"},
      {"h200", DType::kI8, DType::kI32, [](ProblemClass* c) { c->k = 1023; }, "multiples of 4"},
      {"mi300x", DType::kF16, DType::kBF16, [](ProblemClass*) {}, "D bf16"},
  };
  for (const Case& t : cases) {
    ProblemClass c = product(t.in, t.out);
    t.change(&c);
    for (const RankedPlan& p : ranked(c, facts(t.device), policy(ExternalUse::kAllow))) {
      if (p.plan.config.external.provider.empty()) continue;
      // The bias: oneDNN takes only f32 and bf16, OpenBLAS takes none.
      EXPECT_NE(p.rejection.find(t.reason), std::string::npos)
          << t.device << " " << p.plan.config.external.provider << ": '" << p.rejection
          << "' does not contain '" << t.reason << "'";
    }
  }
}

TEST(ExternalPolicyTest, DoesNotReorderLathesOwnPlans) {
  const auto own = [](const std::vector<RankedPlan>& plans) {
    std::vector<CompileConfig> configs;
    for (const RankedPlan& p : plans)
      if (p.plan.config.external.provider.empty()) configs.push_back(p.plan.config);
    return configs;
  };
  for (const char* device : {"xeon-8592plus", "h200", "mi300x"}) {
    const ProblemClass c = product(DType::kF32, DType::kF32);
    const auto off = own(ranked(c, facts(device), OraclePolicy()));
    EXPECT_TRUE(off == own(ranked(c, facts(device), policy(ExternalUse::kAllow))));
    EXPECT_TRUE(off == own(ranked(c, facts(device), policy(ExternalUse::kPrefer))));
  }
}

}  // namespace
}  // namespace lathe
