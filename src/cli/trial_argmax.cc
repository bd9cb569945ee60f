#include <cmath>

#include "cli/trial_indices.h"

namespace lathe::cli {
namespace {

// Gives each row one of the contents that matter for NumPy's rule: two NaN, only -inf, two +inf, or no special value.
void make_rows_special(reference::Operand* x, reference::Normal* random) {
  const int64_t n = x->spec().columns;
  for (int64_t row = 0; row < x->spec().rows && n > 0; ++row) {
    const int64_t kind = random->below(4);
    for (int64_t i = 0; kind == 1 && i < n; ++i) x->set(0, row, i, -INFINITY);
    for (int i = 0; i < 2; ++i) {
      const int64_t column = random->below(n);
      if (kind == 0) x->set(0, row, column, NAN);
      if (kind == 2) x->set(0, row, column, INFINITY);
    }
  }
}

class ArgmaxTrial : public IndexTrial {
 public:
  ArgmaxTrial(lathe_device* device, const Stream& stream, const reference::ArgmaxRequest& request,
              uint64_t seed)
      : IndexTrial(device, stream, request.determinism, request.rows), request_(request), random_(seed) {}

  absl::Status prepare() {
    const reference::ArgmaxSpecs specs = reference::specs_of(request_);
    const double bytes = trial_bytes(stream_, {&specs.x}, {&specs.indices, &specs.values});
    if (absl::Status s = check_room(device_, request_, bytes); !s.ok()) return s;
    data_.x = reference::Operand(specs.x);
    data_.x.fill(request_.fill == reference::Fill::kSpecial ? reference::Fill::kNormal : request_.fill,
                 &random_);
    if (request_.fill == reference::Fill::kSpecial) make_rows_special(&data_.x, &random_);
    data_.indices = reference::Operand(specs.indices);
    if (request_.values) data_.values = reference::Operand(specs.values);
    desc_ = descriptor(request_, chain_.tuning());
    chain_.take(desc_.next);
    void* values = nullptr;
    if (absl::Status s = place(device_, stream_, data_.x, &x_, &desc_.x.data); !s.ok()) return s;
    if (absl::Status s = place_outputs(&data_.indices, &data_.values, &desc_.indices, &values); !s.ok())
      return s;
    desc_.values = static_cast<float*>(values);
    return stream_.synchronize();
  }

  absl::StatusOr<reference::CheckResult> verify() override {
    if (absl::Status s = download(); !s.ok()) return s;
    return reference::check_argmax(request_, data_);
  }

  absl::StatusOr<Plan> plan() const override {
    lathe_plan* made = nullptr;
    if (absl::Status s = check(lathe_plan_argmax(device_, &desc_, &made)); !s.ok()) return s;
    return Plan(made);
  }

  void set_miss_policy(lathe_miss_policy policy) override { desc_.miss_policy = policy; }
  void set_workspace(void* data, size_t bytes) override { desc_.next = chain_.with_workspace(data, bytes); }

  bool needs_kernel() const override { return request_.rows > 0; }
  double flops() const override { return 0; }
  double bytes() const override { return total_bytes({&data_.x, &data_.indices, &data_.values}); }

 private:
  lathe_status launch_rows(int64_t rows) override {
    lathe_argmax_desc desc = desc_;
    desc.rows = rows;
    return lathe_argmax(device_, stream_.get(), &desc);
  }

  reference::ArgmaxRequest request_;
  reference::Normal random_;
  reference::ArgmaxData data_;
  DeviceBuffer x_;
  TrialChain chain_;
  lathe_argmax_desc desc_ = LATHE_ARGMAX_DESC_INIT;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const reference::ArgmaxRequest& request, uint64_t seed) {
  auto trial = std::make_unique<ArgmaxTrial>(device, stream, request, seed);
  if (absl::Status s = trial->prepare(); !s.ok()) return s;
  return trial;
}

}  // namespace lathe::cli
