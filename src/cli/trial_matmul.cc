#include <optional>

#include "cli/packed_weight.h"
#include "cli/scaled_operands.h"
#include "cli/trial.h"

namespace lathe::cli {
namespace {

// Makes random operands. If C or the residual shares D's memory, D starts as a copy of it.
reference::MatmulData make_data(const reference::MatmulRequest& r, const reference::MatmulSpecs& specs,
                                reference::Normal* random) {
  reference::MatmulData data;
  const auto make = [&](const reference::OperandSpec& spec, reference::Operand* out) {
    if (!spec.exists()) return;
    *out = reference::Operand(spec);
    out->fill(r.fill, random);
  };
  make(specs.a, &data.a);
  make(specs.b, &data.b);
  make(specs.c, &data.c);
  make(specs.bias, &data.bias);
  make(specs.residual, &data.residual);
  data.d = r.c_in_place ? data.c : r.residual_in_place ? data.residual : reference::Operand(specs.d);
  return data;
}

class MatmulTrial : public Trial {
 public:
  MatmulTrial(lathe_device* device, const Stream& stream, const reference::MatmulRequest& request,
              uint64_t seed)
      : device_(device), stream_(stream), request_(request), random_(seed) {}

  absl::Status prepare() {
    const reference::MatmulSpecs specs = reference::specs_of(request_);
    const double bytes =
        trial_bytes(stream_, {&specs.a, &specs.b, &specs.c, &specs.bias, &specs.residual}, {&specs.d});
    if (absl::Status s = check_room(device_, request_, bytes); !s.ok()) return s;
    data_ = make_data(request_, specs, &random_);
    if (!request_.b_format.empty()) {
      scaled_.emplace(OperandFormats{request_.a_format, request_.b_format}, specs.a, specs.b, &random_);
      scaled_->decode(&data_.a, &data_.b);
    }
    start_ = data_.d.image();
    desc_ = descriptor(request_, chain_.tuning());
    chain_.take(desc_.next);
    const auto put = [this](const reference::Operand& operand, DeviceBuffer* buffer, void** first) {
      return place(device_, stream_, operand, buffer, first);
    };
    void* bias = nullptr;
    for (const absl::Status& s :
         {put(data_.a, &a_, &desc_.a.data), put(data_.b, &b_, &desc_.b.data),
          put(data_.d, &d_, &desc_.d.data), put(data_.bias, &bias_, &bias),
          request_.c_in_place ? absl::OkStatus() : put(data_.c, &c_, &desc_.c.data),
          request_.residual_in_place ? absl::OkStatus()
                                     : put(data_.residual, &residual_, &desc_.epilogue.residual.data)}) {
      if (!s.ok()) return s;
    }
    desc_.epilogue.bias = bias;
    if (request_.c_in_place) desc_.c.data = desc_.d.data;
    if (request_.residual_in_place) desc_.epilogue.residual.data = desc_.d.data;
    const absl::Status s = scaled_           ? scaled_->attach(device_, stream_, &desc_)
                           : request_.packed ? pack_weight(device_, stream_, desc_, &packed_b_, &desc_.b)
                                             : absl::OkStatus();
    if (!s.ok()) return s;
    return stream_.synchronize();
  }

  lathe_status launch() override { return lathe_matmul(device_, stream_.get(), &desc_); }

  absl::Status reset() override {
    if (absl::Status s = d_.upload(stream_.get(), start_); !s.ok()) return s;
    return stream_.synchronize();
  }

  absl::StatusOr<reference::CheckResult> verify() override {
    if (absl::Status s = download(); !s.ok()) return s;
    return reference::check_matmul(request_, data_, &random_);
  }

  absl::StatusOr<bool> untouched() override {
    if (absl::Status s = download(); !s.ok()) return s;
    return data_.d.image() == start_;
  }

  absl::StatusOr<std::string> compare_bits() override {
    if (!needs_kernel()) return std::string();
    return compare_launches(
        request_.determinism, request_.m, /*cuts_rows=*/true, [this](int64_t rows) { return results(rows); },
        [this](int64_t rows) {
          if (absl::Status s = reset(); !s.ok()) return s;
          desc_.m = rows;
          const lathe_status status = launch();
          desc_.m = request_.m;
          if (absl::Status s = check(status); !s.ok()) return s;
          return download();
        });
  }

  absl::StatusOr<Plan> plan() const override {
    lathe_plan* made = nullptr;
    if (absl::Status s = check(lathe_plan_matmul(device_, &desc_, &made)); !s.ok()) return s;
    return Plan(made);
  }

  void set_miss_policy(lathe_miss_policy policy) override { desc_.miss_policy = policy; }
  void set_workspace(void* data, size_t bytes) override { desc_.next = chain_.with_workspace(data, bytes); }

  bool needs_kernel() const override { return flops() > 0; }
  double flops() const override { return 2.0 * request_.batch * request_.m * request_.n * request_.k; }
  double bytes() const override {
    const double a = request_.a_format.empty() ? total_bytes({&data_.a}) : scaled_->bytes_of_a();
    const double b = scaled_ ? scaled_->bytes_of_b() : total_bytes({&data_.b});
    return a + b + total_bytes({&data_.c, &data_.bias, &data_.residual, &data_.d});
  }

 private:
  absl::Status download() {
    if (absl::Status s = d_.download(stream_.get(), &data_.d.image()); !s.ok()) return s;
    return stream_.synchronize();
  }

  // The bytes of the first rows of each matrix.
  std::string results(int64_t rows) const {
    std::string bytes;
    for (int64_t batch = 0; batch < request_.batch; ++batch) bytes += data_.d.row_bytes(batch, rows);
    return bytes;
  }

  lathe_device* device_;
  const Stream& stream_;
  reference::MatmulRequest request_;
  reference::Normal random_;
  reference::MatmulData data_;
  std::vector<uint8_t> start_;  // image of D before a launch
  DeviceBuffer a_, b_, packed_b_, c_, bias_, residual_, d_;
  std::optional<ScaledOperands> scaled_;
  TrialChain chain_;
  lathe_matmul_desc desc_ = LATHE_MATMUL_DESC_INIT;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const reference::MatmulRequest& request, uint64_t seed) {
  auto trial = std::make_unique<MatmulTrial>(device, stream, request, seed);
  if (absl::Status s = trial->prepare(); !s.ok()) return s;
  return trial;
}

}  // namespace lathe::cli
