// Determinism batch_invariant, checked on the plans of every GPU: for every M, every plan that a tuner might
// choose sums the products of an element in the same order.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "kernels/matmul/mma/shape.h"
#include "oracle/oracle.h"
#include "tests/config_field.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

// Everything that determines the order of the sum over K, taken from the config and not from the recipe's text.
// "simt" adds one product after the other; "mma" adds `step` elements of K with every matrix instruction. The
// tile, the stages and the number of warps do not change this order.
struct Order {
  std::string kind;
  int64_t step = 0, splits = 1, split = 0, cluster_k = 1, matrix = 0;
  bool operator<(const Order& o) const {
    return std::tie(kind, step, splits, split, cluster_k, matrix) <
           std::tie(o.kind, o.step, o.splits, o.split, o.cluster_k, o.matrix);
  }
};

std::ostream& operator<<(std::ostream& out, const Order& o) {
  return out << o.kind << " step " << o.step << " splits " << o.splits << " split " << o.split
             << " cluster_k " << o.cluster_k << " matrix " << o.matrix;
}

Order order_of(const Plan& plan, DType type) {
  const CompileConfig& c = plan.config;
  Order order;
  // The micro-kernels of matmul sum in the order of "mma" (tests/conformance/ukernel_test.cc compares the bits).
  order.kind = std::string(name_of(c.kernel() == KernelKind::kUkernel ? KernelKind::kMma : c.kernel()));
  order.step = order.kind == "mma"    ? kMmaSyncInstruction.step_bytes() / static_cast<int64_t>(size_of(type))
               : order.kind == "simt" ? 1
                                      : field_or(c, "tile_k", 0);
  order.splits = plan.launch.splits;
  order.split = c.split();
  order.cluster_k = field_or(c, "cluster_k", 1);
  order.matrix = field_or(c, "matrix", 0);
  return order;
}

struct Type {
  DType in, out;
  Math math;
};
constexpr Type kTypes[] = {
    {DType::kF32, DType::kF32, Math::kStrict},   {DType::kF32, DType::kF32, Math::kTf32},
    {DType::kF16, DType::kF16, Math::kStrict},   {DType::kBF16, DType::kBF16, Math::kStrict},
    {DType::kBF16, DType::kF32, Math::kStrict},  {DType::kF8E4M3, DType::kBF16, Math::kStrict},
    {DType::kF8E5M2, DType::kF32, Math::kStrict}};

// The orders of all legal plans for every M up to `most_m`, every layout and every alignment.
std::set<Order> orders_of(const DeviceFacts& f, const Type& type, int64_t n, int64_t k,
                          Determinism determinism, int64_t most_m, size_t* plans) {
  std::set<Order> orders;
  std::map<int64_t, int64_t> buckets;  // from the smallest M to the largest
  for (int64_t m = 1; m <= most_m; ++m) buckets[m_bucket(m).lo] = m_bucket(m).hi;
  for (const auto& [lo, hi] : buckets)
    for (int layout = 0; layout < 4; ++layout)
      for (const Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte}) {
        ProblemClass c = matmul_class(type.in, type.out, n, k, {lo, hi});
        c.math = type.math;
        c.trans_a = (layout & 1) != 0;
        c.trans_b = (layout & 2) != 0;
        c.alignment = alignment;
        c.determinism = determinism;
        const auto answer = rank_plans(c, f, {1, 0});
        EXPECT_TRUE(answer.ok()) << f.name << " M " << lo << ": " << answer.status();
        if (!answer.ok()) return orders;
        for (size_t i = 0; i < answer->legal; ++i) orders.insert(order_of(answer->ranked[i].plan, type.in));
        *plans += answer->legal;
      }
  return orders;
}

class BatchInvariance : public ::testing::TestWithParam<Type> {};

TEST_P(BatchInvariance, SumsInOneOrderForEveryM) {
  std::vector<Shape> shapes = {{"long", 456, 51234}, {"thin", 8, 4096}, {"odd", 131, 1021}, {"tiny", 1, 1}};
  for (const Shape& layer : layer_shapes())
    if (shapes.size() < 10) shapes.push_back(layer);
  size_t plans = 0, devices = 0;
  for (const DeviceFacts& f : shipped_facts()) {
    if (f.target.backend == Backend::kCpu) continue;
    ++devices;
    std::set<Order> fast;
    for (const Shape& shape : shapes) {
      const std::set<Order> orders =
          orders_of(f, GetParam(), shape.n, shape.k, Determinism::kBatchInvariant, 256, &plans);
      ASSERT_EQ(orders.size(), 1u) << f.name << " " << shape.name << ": " << *orders.begin() << " and "
                                   << *orders.rbegin();
      EXPECT_EQ(orders.begin()->splits, 1) << f.name;
      EXPECT_TRUE(orders.begin()->kind == "simt" || orders.begin()->kind == "mma") << *orders.begin();
      size_t unused = 0;
      if (shape.name == "thin")
        fast = orders_of(f, GetParam(), shape.n, shape.k, Determinism::kFast, 256, &unused);
    }
    EXPECT_GT(fast.size(), 1u)
        << f.name << ": determinism fast must give different orders, or this test proves nothing";
  }
  EXPECT_GE(devices, 6u);
  EXPECT_GT(plans, 10000u);
  RecordProperty("plans", static_cast<int>(plans));
}

std::string name_of_type(const ::testing::TestParamInfo<Type>& info) {
  return std::string(name_of(info.param.in)) + "_" + std::string(name_of(info.param.out)) +
         (info.param.math == Math::kTf32 ? "_tf32" : "");
}
INSTANTIATE_TEST_SUITE_P(Types, BatchInvariance, ::testing::ValuesIn(kTypes), name_of_type);

}  // namespace
}  // namespace lathe
