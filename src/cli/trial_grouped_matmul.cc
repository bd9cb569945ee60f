#include <cstring>
#include <optional>

#include "cli/packed_weight.h"
#include "cli/scaled_operands.h"
#include "cli/trial.h"

namespace lathe::cli {
namespace {

class GroupedTrial : public Trial {
 public:
  GroupedTrial(lathe_device* device, const Stream& stream, const reference::GroupedMatmulRequest& request,
               uint64_t seed)
      : device_(device), stream_(stream), request_(request), random_(seed) {}

  absl::Status prepare() {
    const reference::GroupedMatmulSpecs specs = reference::specs_of(request_);
    const double bytes = trial_bytes(stream_, {&specs.a, &specs.b, &specs.bias}, {&specs.d});
    if (absl::Status s = check_room(device_, request_, bytes); !s.ok()) return s;
    make_data(specs);
    start_ = data_.d.image();
    desc_ = descriptor(request_, chain_.tuning());
    chain_.take(desc_.next);
    void *bias = nullptr, *routing = nullptr, *weights = nullptr;
    for (const absl::Status& s :
         {place(device_, stream_, data_.a, &a_, &desc_.a.data),
          place(device_, stream_, data_.b, &b_, &desc_.b.data),
          place(device_, stream_, data_.bias, &bias_, &bias),
          place(device_, stream_, data_.d, &d_, &desc_.d.data), put(data_.routing, &routing_, &routing),
          put(data_.weights, &weights_, &weights)})
      if (!s.ok()) return s;
    desc_.epilogue.bias = bias;
    desc_.routing = static_cast<const int32_t*>(routing);
    desc_.router_weights = static_cast<const float*>(weights);
    if (scaled_) return attach();
    return request_.packed ? pack_weight(device_, stream_, product_of(desc_), &packed_b_, &desc_.b)
                           : absl::OkStatus();
  }

  lathe_status launch() override { return lathe_grouped_matmul(device_, stream_.get(), &desc_); }

  absl::Status reset() override {
    if (absl::Status s = d_.upload(stream_.get(), start_); !s.ok()) return s;
    return stream_.synchronize();
  }

  absl::StatusOr<reference::CheckResult> verify() override {
    if (absl::Status s = download(); !s.ok()) return s;
    return reference::check_grouped_matmul(request_, data_, &random_);
  }

  absl::StatusOr<bool> untouched() override {
    if (absl::Status s = download(); !s.ok()) return s;
    return data_.d.image() == start_;
  }

  absl::StatusOr<std::string> compare_bits() override {
    if (!needs_kernel()) return std::string();
    // Fewer rows need another routing, unless it has an entry for each row.
    const bool cuts_rows =
        request_.grouping == LATHE_GROUPING_ROW_IDS || request_.grouping == LATHE_GROUPING_INDEXED;
    return compare_launches(
        request_.determinism, request_.m, cuts_rows, [this](int64_t rows) { return results(rows); },
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
    if (absl::Status s = check(lathe_plan_grouped_matmul(device_, &desc_, &made)); !s.ok()) return s;
    return Plan(made);
  }

  void set_miss_policy(lathe_miss_policy policy) override { desc_.miss_policy = policy; }
  void set_workspace(void* data, size_t bytes) override { desc_.next = chain_.with_workspace(data, bytes); }

  bool needs_kernel() const override { return flops() > 0; }
  double flops() const override { return 2.0 * use_.rows * request_.n * request_.k; }
  // Rows without a group and experts without rows are not read.
  double bytes() const override {
    const auto part = [](double all, int64_t used, int64_t of) {
      return of == 0 ? 0 : all * static_cast<double>(used) / static_cast<double>(of);
    };
    const int64_t slots =
        request_.used * request_.m * (request_.grouping == LATHE_GROUPING_COUNTS ? request_.groups : 1);
    return part(bytes_of_rows(), use_.rows, slots) + part(bytes_of_experts(), use_.groups, request_.groups);
  }
  double memory() const override { return bytes_of_rows() + bytes_of_experts(); }

 private:
  double bytes_of_rows() const {
    return total_bytes({&data_.d}) +
           (request_.a_format.empty() ? total_bytes({&data_.a}) : scaled_->bytes_of_a());
  }
  double bytes_of_experts() const {
    return total_bytes({&data_.bias}) + (scaled_ ? scaled_->bytes_of_b() : total_bytes({&data_.b}));
  }

  void make_data(const reference::GroupedMatmulSpecs& specs) {
    const auto make = [this](const reference::OperandSpec& spec, reference::Operand* out) {
      if (!spec.exists()) return;
      *out = reference::Operand(spec);
      out->fill(request_.fill, &random_);
    };
    make(specs.a, &data_.a);
    make(specs.b, &data_.b);
    make(specs.bias, &data_.bias);
    data_.d = reference::Operand(specs.d);
    data_.routing = request_.even ? reference::even_routing(request_, &random_)
                                  : reference::random_routing(request_, &random_);
    use_ = reference::use_of(request_, data_.routing);
    if (request_.summed)
      for (int64_t i = 0; i < request_.m * request_.used; ++i) data_.weights.push_back(random_.next());
    if (request_.b_format.empty()) return;
    scaled_.emplace(OperandFormats{request_.a_format, request_.b_format}, specs.a, specs.b, &random_);
    scaled_->decode(&data_.a, &data_.b);
  }

  // Copies an array to new device memory. Waits, since the copy on the host is a temporary.
  template <typename T>
  absl::Status put(const std::vector<T>& values, DeviceBuffer* buffer, void** first) {
    if (values.empty()) return absl::OkStatus();
    std::vector<uint8_t> image(values.size() * sizeof(T));
    std::memcpy(image.data(), values.data(), image.size());
    auto made = DeviceBuffer::make(device_, stream_.get(), image);
    if (!made.ok()) return made.status();
    *buffer = *std::move(made);
    *first = buffer->data();
    return stream_.synchronize();
  }

  // Operands with formats of their own.
  absl::Status attach() {
    lathe_matmul_desc weight = product_of(desc_);
    if (absl::Status s = scaled_->attach(device_, stream_, &weight); !s.ok()) return s;
    desc_.b = weight.b;
    if (!request_.a_format.empty()) desc_.a = weight.a;
    return absl::OkStatus();
  }

  absl::Status download() {
    if (absl::Status s = d_.download(stream_.get(), &data_.d.image()); !s.ok()) return s;
    return stream_.synchronize();
  }
  // The bytes of the first rows of each matrix of D.
  std::string results(int64_t rows) const {
    std::string bytes;
    for (int64_t batch = 0; batch < data_.d.spec().batch; ++batch) bytes += data_.d.row_bytes(batch, rows);
    return bytes;
  }

  lathe_device* device_;
  const Stream& stream_;
  reference::GroupedMatmulRequest request_;
  reference::Normal random_;
  reference::GroupedMatmulData data_;
  reference::RoutingUse use_;
  std::vector<uint8_t> start_;  // image of D before a launch
  DeviceBuffer a_, b_, packed_b_, bias_, d_, routing_, weights_;
  std::optional<ScaledOperands> scaled_;
  TrialChain chain_;
  lathe_grouped_matmul_desc desc_ = LATHE_GROUPED_MATMUL_DESC_INIT;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const reference::GroupedMatmulRequest& request,
                                                  uint64_t seed) {
  auto trial = std::make_unique<GroupedTrial>(device, stream, request, seed);
  if (absl::Status s = trial->prepare(); !s.ok()) return s;
  return trial;
}

}  // namespace lathe::cli
