#include "cli/packed_weight.h"
#include "cli/trial_indices.h"

namespace lathe::cli {
namespace {

class MatmulArgmaxTrial : public IndexTrial {
 public:
  MatmulArgmaxTrial(lathe_device* device, const Stream& stream, const reference::MatmulArgmaxRequest& request,
                    uint64_t seed)
      : IndexTrial(device, stream, request.determinism, request.m), request_(request), random_(seed) {}

  absl::Status prepare() {
    const reference::MatmulArgmaxSpecs specs = reference::specs_of(request_);
    const double bytes =
        trial_bytes(stream_, {&specs.a, &specs.b, &specs.bias}, {&specs.indices, &specs.values});
    if (absl::Status s = check_room(device_, request_, bytes); !s.ok()) return s;
    const auto make = [&](const reference::OperandSpec& spec, reference::Operand* out) {
      if (!spec.exists()) return;
      *out = reference::Operand(spec);
      out->fill(request_.fill, &random_);
    };
    make(specs.a, &data_.a);
    make(specs.b, &data_.b);
    make(specs.bias, &data_.bias);
    data_.indices = reference::Operand(specs.indices);
    if (request_.values) data_.values = reference::Operand(specs.values);
    desc_ = descriptor(request_, chain_.tuning());
    chain_.take(desc_.next);
    void *values = nullptr, *bias = nullptr;
    for (const absl::Status& s : {place(device_, stream_, data_.a, &a_, &desc_.a.data),
                                  place(device_, stream_, data_.b, &b_, &desc_.b.data),
                                  place(device_, stream_, data_.bias, &bias_, &bias)}) {
      if (!s.ok()) return s;
    }
    desc_.bias = bias;
    if (request_.packed) {
      const lathe_matmul_desc product = product_of(desc_);
      if (absl::Status s = pack_weight(device_, stream_, product, &packed_b_, &desc_.b); !s.ok()) return s;
    }
    if (absl::Status s = place_outputs(&data_.indices, &data_.values, &desc_.indices, &values); !s.ok())
      return s;
    desc_.values = static_cast<float*>(values);
    return stream_.synchronize();
  }

  absl::StatusOr<reference::CheckResult> verify() override {
    if (absl::Status s = download(); !s.ok()) return s;
    return reference::check_matmul_argmax(request_, data_, &random_);
  }

  absl::StatusOr<Plan> plan() const override {
    lathe_plan* made = nullptr;
    if (absl::Status s = check(lathe_plan_matmul_argmax(device_, &desc_, &made)); !s.ok()) return s;
    return Plan(made);
  }

  void set_miss_policy(lathe_miss_policy policy) override { desc_.miss_policy = policy; }
  void set_workspace(void* data, size_t bytes) override { desc_.next = chain_.with_workspace(data, bytes); }

  bool needs_kernel() const override { return request_.m > 0 && request_.k > 0; }
  double flops() const override { return 2.0 * request_.m * request_.n * request_.k; }
  double bytes() const override {
    return total_bytes({&data_.a, &data_.b, &data_.bias, &data_.indices, &data_.values});
  }

 private:
  lathe_status launch_rows(int64_t rows) override {
    lathe_matmul_argmax_desc desc = desc_;
    desc.m = rows;
    return lathe_matmul_argmax(device_, stream_.get(), &desc);
  }

  reference::MatmulArgmaxRequest request_;
  reference::Normal random_;
  reference::MatmulArgmaxData data_;
  DeviceBuffer a_, b_, packed_b_, bias_;
  TrialChain chain_;
  lathe_matmul_argmax_desc desc_ = LATHE_MATMUL_ARGMAX_DESC_INIT;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const reference::MatmulArgmaxRequest& request,
                                                  uint64_t seed) {
  auto trial = std::make_unique<MatmulArgmaxTrial>(device, stream, request, seed);
  if (absl::Status s = trial->prepare(); !s.ok()) return s;
  return trial;
}

}  // namespace lathe::cli
