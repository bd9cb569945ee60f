#include "cli/ops.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/packed_weight.h"

namespace lathe::cli {

namespace {

// Overloads of the public API's functions, one per op.
#define LATHE_MANIFEST_ADD_BUCKETS(name, desc, m) lathe_manifest_add_##name(manifest, nullptr, &desc, m)
#define LATHE_MANIFEST_ADD_OPEN(name, desc, m) lathe_manifest_add_##name(manifest, nullptr, &desc)
#define LATHE_CALLS(name, request, rows)                                                                     \
  lathe_status call_plan(lathe_device* device, const lathe_##name##_desc& desc, lathe_plan** out) {          \
    return lathe_plan_##name(device, &desc, out);                                                            \
  }                                                                                                          \
  lathe_status call_explain(lathe_device* device, const lathe_##name##_desc& desc, std::vector<Text>* out) { \
    return lathe_explain_##name(device, &desc, collect_text, out);                                           \
  }                                                                                                          \
  lathe_status call_tune(lathe_device* device, const lathe_##name##_desc& desc,                              \
                         const lathe_tune_options& options, lathe_tune_report* report) {                     \
    return lathe_tune_##name(device, &desc, &options, report);                                               \
  }                                                                                                          \
  lathe_status call_add(lathe_manifest* manifest, const lathe_##name##_desc& desc,                           \
                        [[maybe_unused]] int64_t m) {                                                        \
    return LATHE_MANIFEST_ADD_##rows(name, desc, m);                                                         \
  }
LATHE_COMMAND_OPS(LATHE_CALLS)

// Calls `call` with the descriptor of the request.
template <typename Call>
absl::Status with_descriptor(lathe_device* device, const AnyRequest& request, Call call) {
  return std::visit(
      [&](const auto& r) {
        lathe_tuning tuning;
        auto desc = descriptor(r, &tuning);
        if constexpr (std::is_same_v<decltype(desc), lathe_matmul_desc> ||
                      std::is_same_v<decltype(desc), lathe_matmul_argmax_desc> ||
                      std::is_same_v<decltype(desc), lathe_grouped_matmul_desc>) {
          size_t bytes = 0;
          if (r.packed) {
            const absl::Status s = check(describe_packed(device, product_of(desc), &desc.b, &bytes));
            if (!s.ok()) return s;
          }
        }
        return check(call(desc));
      },
      request);
}

std::string example_of(const std::string& verb, const OpRow& op, const std::string& words) {
  return absl::StrCat("lathe ", verb, " ", op.name, " ", words);
}

}  // namespace

const std::vector<OpRow>& op_rows() {
#define LATHE_ROW(name, request, rows) name##_op(),
  static const std::vector<OpRow> rows = {LATHE_COMMAND_OPS(LATHE_ROW)};
  return rows;
}

std::vector<Verb> verbs_of_ops(const std::string& verb, const std::string& summary,
                               const std::vector<Flag>& more, bool runs, RequestVerb act) {
  std::vector<Verb> verbs;
  for (const OpRow& op : op_rows()) {
    if (runs && op.run_flags == nullptr) continue;
    Verb v;
    v.name = absl::StrCat(verb, " ", op.name);
    v.words = op.shape;
    v.words_wanted = 1;
    v.summary = absl::StrReplaceAll(summary, {{"%s", op.noun}, {"%w", op.warmed}});
    v.flags = runs ? op.run_flags(more) : op.flags(more);
    for (const auto& [of, words] : op.examples)
      if (of == verb) v.examples.push_back(example_of(verb, op, words));
    v.run = [act, read = op.request](const Arguments& arguments) {
      const absl::StatusOr<AnyRequest> request = read(arguments);
      return request.ok() ? act(arguments, *request) : request.status();
    };
    verbs.push_back(std::move(v));
  }
  return verbs;
}

std::string command_of(const AnyRequest& request) {
  return std::visit([](const auto& r) { return command_of(r); }, request);
}

const reference::OpRequest& common_fields(const AnyRequest& request) {
  return std::visit([](const reference::OpRequest& r) -> const reference::OpRequest& { return r; }, request);
}
reference::OpRequest& common_fields(AnyRequest& request) {
  return std::visit([](reference::OpRequest& r) -> reference::OpRequest& { return r; }, request);
}

absl::StatusOr<Plan> plan(lathe_device* device, const AnyRequest& request) {
  lathe_plan* made = nullptr;
  const absl::Status s =
      with_descriptor(device, request, [&](const auto& desc) { return call_plan(device, desc, &made); });
  if (!s.ok()) return s;
  return Plan(made);
}

absl::StatusOr<Json> explain(lathe_device* device, const AnyRequest& request) {
  std::vector<Text> pieces;
  const absl::Status s =
      with_descriptor(device, request, [&](const auto& desc) { return call_explain(device, desc, &pieces); });
  if (!s.ok()) return s;
  return parse_json(pieces, "explain");
}

absl::Status tune(lathe_device* device, const AnyRequest& request, const lathe_tune_options& options,
                  lathe_tune_report* report) {
  return with_descriptor(device, request,
                         [&](const auto& desc) { return call_tune(device, desc, options, report); });
}

absl::Status add_to_manifest(lathe_device* device, lathe_manifest* manifest, const AnyRequest& request) {
  const int64_t m = std::visit([](const auto& r) { return r.sizes().front(); }, request);
  return with_descriptor(device, request, [&](const auto& desc) { return call_add(manifest, desc, m); });
}

}  // namespace lathe::cli
