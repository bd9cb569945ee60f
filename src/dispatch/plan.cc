#include "dispatch/plan.h"

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

absl::Status other_class(absl::string_view field, int64_t requested, int64_t planned) {
  return absl::InvalidArgumentError(
      absl::StrCat("the plan is for another class: ", field, " ", requested, ", planned ", planned));
}

absl::Status other_class(absl::string_view field, absl::string_view requested, absl::string_view planned) {
  return absl::InvalidArgumentError(
      absl::StrCat("the plan is for another class: ", field, " ", requested, ", planned ", planned));
}

absl::Status outside(absl::string_view field, int64_t value, int64_t lo, int64_t hi) {
  return absl::InvalidArgumentError(
      absl::StrCat("the plan is for another class: ", field, " ", value, " is not in [", lo, ", ", hi, "]"));
}

// Names the first difference of two classes in terms of the descriptor's fields.
[[gnu::cold]] absl::Status explain_mismatch(const Request& request, const ProblemClass& planned) {
  const ProblemClass& c = request.key.problem;
  const auto layout = [](int32_t transposed) { return transposed != 0 ? "COLUMN_MAJOR" : "ROW_MAJOR"; };
  if (c.op != planned.op) return other_class("op", name_of(c.op), name_of(planned.op));
  if (has_program(c.op) && c.program_lo != planned.program_lo)
    return other_class("program", absl::StrCat(absl::Hex(c.program_hi)),
                       absl::StrCat(absl::Hex(planned.program_hi)));
  const bool argmax = has_row_lengths(c.op), indices = returns_indices(c.op);
  if (c.a != planned.a) return other_class(argmax ? "x.dtype" : "a.dtype", name_of(c.a), name_of(planned.a));
  if (c.b != planned.b) return other_class("b.dtype", name_of(c.b), name_of(planned.b));
  if (c.d != planned.d)
    return other_class(indices ? "index_dtype" : "d.dtype", name_of(c.d), name_of(planned.d));
  if (c.c != planned.c) return other_class("c (beta and its dtype)", name_of(c.c), name_of(planned.c));
  if (c.bias != planned.bias) return other_class("bias", name_of(c.bias), name_of(planned.bias));
  if (c.residual != planned.residual) {
    return other_class("residual", name_of(c.residual), name_of(planned.residual));
  }
  if (c.combine != planned.combine)
    return other_class("epilogue.combine", name_of(c.combine), name_of(planned.combine));
  if (c.trans_a != planned.trans_a)
    return other_class("a.layout", layout(c.trans_a), layout(planned.trans_a));
  if (c.trans_b != planned.trans_b)
    return other_class("b.layout", layout(c.trans_b), layout(planned.trans_b));
  if (c.scale_a != planned.scale_a || c.scale_b != planned.scale_b || c.zero_a != planned.zero_a ||
      c.zero_b != planned.zero_b) {
    const auto text = [](const ProblemClass& p) {
      return absl::StrCat(static_cast<int>(p.scale_a), ",", static_cast<int>(p.scale_b), ",", p.zero_a, ",",
                          static_cast<int>(p.zero_b));
    };
    return other_class("a.scale,b.scale,a.zero_point,b.zero_point", text(c), text(planned));
  }
  if (c.math != planned.math) return other_class("math", name_of(c.math), name_of(planned.math));
  if (c.packed_b != planned.packed_b) return other_class("b.packed_layout", c.packed_b, planned.packed_b);
  if (c.activation != planned.activation) {
    return other_class("activation", name_of(c.activation), name_of(planned.activation));
  }
  if (c.determinism != planned.determinism) {
    return other_class("determinism", name_of(c.determinism), name_of(planned.determinism));
  }
  if (c.logits != planned.logits) {
    return other_class("logits_dtype", name_of(c.logits), name_of(planned.logits));
  }
  if (c.wants_values != planned.wants_values)
    return other_class("values", c.wants_values, planned.wants_values);
  if (c.rows != planned.rows) return other_class("m_device (rows)", name_of(c.rows), name_of(planned.rows));
  if (c.n != planned.n) return other_class("n", c.n, planned.n);
  if (c.k != planned.k) return other_class("k", c.k, planned.k);
  if (c.m_lo != planned.m_lo || c.m_hi != planned.m_hi) {
    return outside("m", request.dims.m, planned.m_lo, planned.m_hi);
  }
  return outside("n", request.dims.n, planned.row_lo, planned.row_hi);
}

// A plan serves its class in every alignment. It was made without pointers, so a request whose pointers are less
// or more aligned than assumed takes the kernel of its own alignment from the dispatch table.
bool differs_in_alignment(const lathe_plan& plan, const Request& request) {
  const ProblemClass& planned = plan.planned.key.problem;
  if (request.key.problem.alignment == planned.alignment) return false;
  // On a GPU misaligned requests have one class for all M, but the plan has a bucket of M.
  if (request.dims.m < planned.m_lo || request.dims.m > planned.m_hi) return false;
  return with_alignment(planned, request.key.problem.alignment, plan.device.is_cpu) == request.key.problem;
}

// A plan with m_device is for every M up to its own. On the CPU an M of another bucket takes the kernel of its class.
bool differs_in_m(const lathe_plan& plan, const Request& request) {
  const ProblemClass& planned = plan.planned.key.problem;
  if (!request.m_is_read || request.dims.m > planned.m_hi) return false;
  ProblemClass c = request.key.problem;
  c.m_lo = planned.m_lo, c.m_hi = planned.m_hi;
  return c == planned;
}

// Whether the request is of the plan's class. A slice needs the planned kernel, because the caller counts its phases.
absl::Status check_class(const lathe_plan& plan, const Request& request, const Slice* slice) {
  const DispatchKey& planned = plan.planned.key;
  // A request without a lathe_tuning uses that of the plan.
  const bool tuned_alike =
      (request.key.split_k == 0 && request.key.candidate == 0 &&
       request.key.external == ExternalUse::kDefault) ||
      (request.key.split_k == planned.split_k && request.key.candidate == planned.candidate &&
       request.key.external == planned.external && request.key.external_which == planned.external_which);
  if (__builtin_expect(request.key.problem == planned.problem && tuned_alike, 1)) return absl::OkStatus();
  if (tuned_alike && differs_in_alignment(plan, request)) return absl::OkStatus();
  if (tuned_alike && slice == nullptr && differs_in_m(plan, request)) return absl::OkStatus();
  const absl::Status cause =
      tuned_alike ? explain_mismatch(request, planned.problem)
                  : absl::InvalidArgumentError(
                        "the descriptor's lathe_tuning or lathe_external differs from that of the plan");
  return in_request(describe(request), plan.device.name, cause);
}

// Drops the elementwise program, since the caller may destroy it before the plan.
std::unique_ptr<lathe_plan> begin_plan(lathe_device& device, Request request) {
  request.program = nullptr;
  return std::unique_ptr<lathe_plan>(new lathe_plan{device, std::move(request), nullptr, nullptr});
}

// Only a product can have N = 0 or K = 0 as part of its class. For other ops an empty request belongs to a class
// that non-empty requests share, so that class is planned.
bool class_needs_no_kernel(const Request& request) {
  return multiplies(request.key.problem.op) && (request.dims.n == 0 || request.empty_product);
}

}  // namespace

absl::StatusOr<std::unique_ptr<lathe_plan>> make_plan(lathe_device& device, const Request& request) {
  if (request.program != nullptr) device.context.programs.keep(request.program->program);
  if (device.driver == nullptr || class_needs_no_kernel(request))
    return make_plan_unprepared(device, request);
  auto plan = begin_plan(device, request);
  LATHE_ASSIGN_OR_RETURN(plan->entry, find_or_prepare(device, request, Purpose::kPlan));
  return plan;
}

absl::StatusOr<std::unique_ptr<lathe_plan>> make_plan_unprepared(lathe_device& device,
                                                                 const Request& request) {
  auto plan = begin_plan(device, request);
  if (class_needs_no_kernel(request)) return plan;
  if (device.driver != nullptr) plan->entry = device.table.find(request.key);
  if (plan->entry != nullptr) return plan;
  absl::StatusOr<Choice> choice = choose_plan(device, request.key);
  if (!choice.ok()) return in_request(describe(request), device.name, choice.status());
  plan->choice = std::make_unique<const Choice>(*std::move(choice));
  return plan;
}

absl::Status run_plan(const lathe_plan& plan, Request& request, const Slice* slice) {
  LATHE_RETURN_IF_ERROR(check_runnable(plan.device));
  if (request.dims.m == 0) return absl::OkStatus();  // M = 0 is in no bucket, so it fits every plan
  LATHE_RETURN_IF_ERROR(check_class(plan, request, slice));
  if (request.needs_no_kernel()) {
    if (slice != nullptr && slice->worker != 0) return absl::OkStatus();
    return run_without_kernel(request);
  }
  const DispatchEntry* entry = plan.entry;
  const ProblemClass &c = request.key.problem, &planned = plan.planned.key.problem;
  if (__builtin_expect(c.alignment != planned.alignment || c.m_lo != planned.m_lo, 0)) {
    DispatchKey key = plan.planned.key;
    key.problem = request.key.problem;
    request.key = key;
    LATHE_ASSIGN_OR_RETURN(entry, find_or_prepare(plan.device, request, Purpose::kRun));
    if (slice == nullptr) leave_small_workspace(plan.device, *entry, request);
  } else {
    plan.device.context.counters.dispatch_hits.add();
  }
  return launch_request(plan.device, *entry, request, slice);
}

template <typename Desc>
absl::Status run_plan(const lathe_plan& plan, void* stream, const Desc* desc) {
  if constexpr (kKeepsCalls<Desc>) {
    RecentCall<Desc>* const recent = RecentCall<Desc>::find(plan.device, stream, desc);
    if (recent != nullptr && &recent->entry() == plan.entry)
      return run_again(plan.device, *recent, stream, *desc);
  }
  Request request;
  LATHE_RETURN_IF_ERROR(read_request(desc, Purpose::kRun, plan.device.request_context(), stream, &request));
  if constexpr (kKeepsCalls<Desc>) {
    // Not if the plan was made with a lathe_tuning: the same request without the plan runs another kernel.
    if (plan.entry != nullptr && !request.needs_no_kernel() && plan.entry->key == request.key)
      RecentCall<Desc>::keep(plan.device, *desc, request, *plan.entry);
  }
  return run_plan(plan, request, nullptr);
}
#define LATHE_RUN_PLAN(op, value, name, rows, traits) \
  template absl::Status run_plan(const lathe_plan&, void*, const lathe_##name##_desc*);
LATHE_OPS(LATHE_RUN_PLAN)
#undef LATHE_RUN_PLAN

absl::StatusOr<LaunchConfig> planned_launch(const lathe_plan& plan) {
  LATHE_RETURN_IF_ERROR(check_runnable(plan.device));
  if (plan.entry == nullptr) return LaunchConfig{};
  return launch_config_for(*plan.entry, plan.planned);
}

absl::StatusOr<size_t> plan_workspace_bytes(const lathe_plan& plan, int32_t workers) {
  LATHE_ASSIGN_OR_RETURN(const LaunchConfig launch, planned_launch(plan));
  if (plan.entry == nullptr || (plan.planned.scaled && plan.device.is_cpu)) return size_t{0};
  return plan.device.driver->workspace_bytes(*plan.entry->kernel, launch, workers);
}

absl::StatusOr<int32_t> plan_phases(const lathe_plan& plan) {
  LATHE_RETURN_IF_ERROR(check_runnable(plan.device));
  if (plan.entry == nullptr) return 1;
  return static_cast<int32_t>(plan.entry->kernel->recipe().steps.size());
}

}  // namespace lathe
