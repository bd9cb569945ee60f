// A grouped product on the device under test: its operands, on the host and in the device's memory, and its descriptor.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "case_limits.h"
#include "device.h"
#include "device_copies.h"
#include "reference/grouped_matmul.h"

namespace lathe::conformance {

using reference::GroupedMatmulRequest;

inline std::string describe(const GroupedMatmulRequest& r) {
  return absl::StrCat("grouping ", static_cast<int>(r.grouping), " m=", r.m, " n=", r.n, " k=", r.k,
                      " groups=", r.groups, " used=", r.used, " ", name_of(r.dtype), " by ",
                      name_of(r.weight_dtype()), " to ", name_of(r.out_dtype), " math ",
                      static_cast<int>(r.math), r.packed ? " packed" : "", r.summed ? " summed" : "",
                      r.bias ? " bias" : "", " padding=", r.padding);
}

// The operands of a request and its descriptor.
class Grouped {
 public:
  Grouped(const GroupedMatmulRequest& request, reference::Normal* random) : request_(request) {
    const reference::GroupedMatmulSpecs specs = reference::specs_of(request);
    const auto make = [&](const reference::OperandSpec& spec, reference::Operand* out) {
      if (!spec.exists()) return;
      *out = reference::Operand(spec);
      out->fill(request.fill, random);
    };
    make(specs.a, &data_.a);
    make(specs.b, &data_.b);
    make(specs.bias, &data_.bias);
    data_.d = reference::Operand(specs.d);
    data_.routing = reference::random_routing(request, random);
    if (request.summed)
      for (int64_t i = 0; i < request.m * request.used; ++i) data_.weights.push_back(random->next());
    desc_.grouping = request.grouping;
    desc_.m = request.m, desc_.n = request.n, desc_.k = request.k;
    desc_.groups = request.groups;
    desc_.used = request.used;
    desc_.routing = data_.routing.data();
    if (request.summed) desc_.router_weights = data_.weights.data();
    desc_.a = operand(data_.a);
    desc_.b = operand(data_.b);
    desc_.d = operand(data_.d);
    if (request.shared_rows) desc_.a.batch_stride = 0;
    desc_.epilogue.alpha = request.alpha;
    desc_.epilogue.activation = request.activation;
    if (request.bias) {
      desc_.epilogue.bias = address(data_.bias);
      desc_.epilogue.bias_dtype = data_.bias.spec().dtype;
    }
    desc_.gate = request.gate;
    desc_.gate_layout = request.gate_layout;
    desc_.math = request.math;
    desc_.determinism = request.determinism;
  }

  // Packs B, if the request says so, and runs.
  lathe_status run(lathe_device* device) {
    if (request_.packed)
      if (const lathe_status status = pack(device); status != LATHE_OK) return status;
    return run_as(device, desc_);
  }
  // Runs another descriptor with the same operands, and with `more` memory.
  lathe_status run_as(lathe_device* device, const lathe_grouped_matmul_desc& desc,
                      std::vector<float>* more = nullptr) {
    DeviceCopies copies(device);
    copy_to(&copies);
    if (more != nullptr) copies.add(*more);
    const lathe_grouped_matmul_desc moved = copies.moved(desc);
    const lathe_status status = lathe_grouped_matmul(device, nullptr, &moved);
    copies.fetch();
    return status;
  }
  void copy_to(DeviceCopies* copies) {
    for (reference::Operand* o : {&data_.a, &data_.b, &data_.bias, &data_.d})
      if (o->exists()) copies->add(o->image());
    copies->add(data_.routing);
    copies->add(data_.weights);
  }
  reference::CheckResult check(reference::Normal* random) const {
    return reference::check_grouped_matmul(request_, data_, random);
  }
  lathe_grouped_matmul_desc& desc() { return desc_; }
  reference::GroupedMatmulData& data() { return data_; }

 private:
  static void* address(reference::Operand& o) { return o.first_at(o.image().data()); }
  static lathe_operand operand(reference::Operand& o) { return reference::describe(o.spec(), address(o)); }

  lathe_status pack(lathe_device* device) {
    lathe_matmul_desc product = LATHE_MATMUL_DESC_INIT;
    product.m = 1, product.n = request_.n, product.k = request_.k, product.batch = request_.groups;
    product.a = desc_.a;
    product.b = desc_.b;
    product.d = desc_.d;
    product.a.batch_stride = 0;
    product.d.leading_dimension = 0;
    product.d.batch_stride = request_.n;
    product.math = request_.math;
    uint32_t layout = 0;
    size_t bytes = 0;
    if (const lathe_status s = lathe_packed_layout(device, &product, &layout, &bytes); s != LATHE_OK)
      return s;
    packed_.resize(bytes);
    if (const lathe_status s = lathe_pack_weights(device, &product, layout, packed_.data(), bytes);
        s != LATHE_OK)
      return s;
    const lathe_dtype b = request_.weight_dtype();
    desc_.b.data = packed_.data();
    desc_.b.packed_layout = layout;
    desc_.b.leading_dimension = 0;
    desc_.b.batch_stride =
        static_cast<int64_t>(bytes / static_cast<size_t>(request_.groups) / bytes_of(b)) * elements_of(b);
    return LATHE_OK;
  }

  GroupedMatmulRequest request_;
  reference::GroupedMatmulData data_;
  std::vector<uint8_t> packed_;
  lathe_grouped_matmul_desc desc_ = LATHE_GROUPED_MATMUL_DESC_INIT;
};

constexpr lathe_grouping kGroupings[] = {LATHE_GROUPING_OFFSETS, LATHE_GROUPING_ROW_IDS,
                                         LATHE_GROUPING_COUNTS, LATHE_GROUPING_INDEXED};

// Runs requests with random operands and routing.
class GroupedTest : public ConformanceTest {
 protected:
  explicit GroupedTest(uint64_t stream) : random_(test_seed() ^ stream) {}
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    if (!is_cpu() && is_fallback()) GTEST_SKIP() << "GPUs have no generic kernels of grouped products";
  }
  void expect(const GroupedMatmulRequest& request) {
    if (failures_ >= 8 || leaves_out({request.m, request.n, request.k})) return;
    SCOPED_TRACE(describe(request));
    Grouped grouped(request, &random_);
    const lathe_status status = grouped.run(device());
    EXPECT_EQ(status, LATHE_OK) << lathe_last_error();
    const reference::CheckResult result = grouped.check(&random_);
    EXPECT_TRUE(result.ok) << result.what;
    failures_ += status != LATHE_OK || !result.ok;
  }
  int64_t one_of(std::initializer_list<int64_t> values) {
    return values.begin()[random_.below(static_cast<int64_t>(values.size()))];
  }
  reference::Normal random_;

 private:
  int failures_ = 0;
};

}  // namespace lathe::conformance
