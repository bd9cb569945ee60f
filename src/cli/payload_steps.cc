#include "cli/payload_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/files.h"
#include "cli/numbers.h"
#include "cli/request_flags.h"

namespace lathe::cli {
namespace {

// One step of a function, its extents bound.
class StepReader {
 public:
  StepReader(const Json& function, const Json& step, int64_t rows)
      : function_(function), step_(step), rows_(rows) {
    made_.json = &step;
    made_.function = function.at("name").get<std::string>();
    made_.location = step.at("location").get<std::string>();
  }

  absl::StatusOr<PayloadStep> read() {
    // An extent may be open in one operand and known in another.
    for (const bool open : {false, true})
      for (const char* name : {"a", "b", "c", "d", "x", "bias", "residual", "indices", "values"})
        if (absl::Status s = bind(name, open); !s.ok()) return s;
    bind_rows();
    const std::string op = step_.at("op").get<std::string>();
    if (op == "matmul") made_.desc = matmul();
    if (op == "argmax") made_.desc = argmax();
    if (op == "elementwise") made_.desc = elementwise();
    if (op == "matmul_argmax") made_.desc = matmul_argmax();
    return std::move(made_);
  }

 private:
  static lathe_dtype dtype_of(const Json& json, const char* field) {
    return dtype_named(json.at(field).get<std::string>());
  }
  bool has(const char* name) const { return step_.contains(name); }
  const Json& value_of(const char* name) const {
    return function_.at("values").at(step_.at(name).at("value").get<size_t>());
  }
  std::string dims_of(const char* name) const { return step_.at(name).at("dims").get<std::string>(); }
  absl::Status error(absl::StatusCode code, const std::string& why) const {
    return absl::Status(code, absl::StrCat(made_.location, ": ", why));
  }

  // The extents that an access tells; `open`: those that none has told.
  absl::Status bind(const char* name, bool open) {
    if (!has(name)) return absl::OkStatus();
    const std::string dims = dims_of(name);
    const Json& shape = value_of(name).at("shape");
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 'r' || shape.at(i).is_null() != open) continue;
      // Dimensions side by side that are one to the step.
      if (i > 0 && dims[i - 1] == dims[i]) continue;
      int64_t rest = 1;
      for (size_t next = i + 1; next < dims.size() && dims[next] == dims[i]; ++next)
        rest *= shape.at(next).is_null() ? 0 : shape.at(next).get<int64_t>();
      const bool told = made_.extents.count(dims[i]) != 0;
      if (open && told) continue;
      if (open && dims[i] != 'm')
        return error(absl::StatusCode::kUnimplemented,
                     absl::StrCat("dimension ", i, " of '", name, "' is open; rows alone may be"));
      made_.open_rows = made_.open_rows || open;
      const int64_t extent = open ? rows_ : shape.at(i).get<int64_t>() * rest;
      if (told && made_.extents[dims[i]] != extent)
        return error(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("dimension ", i, " of '", name, "' is ", extent, ", elsewhere ",
                                  made_.extents[dims[i]]));
      made_.extents[dims[i]] = extent;
    }
    return absl::OkStatus();
  }
  // The rows of an argmax: all dimensions but the innermost.
  void bind_rows() {
    if (!has("x")) return;
    int64_t rows = 1;
    const Json& shape = value_of("x").at("shape");
    const std::string dims = dims_of("x");
    for (size_t i = 0; i < shape.size(); ++i) {
      if (dims[i] == 'n') continue;
      made_.open_rows = made_.open_rows || shape[i].is_null();
      rows *= shape[i].is_null() ? rows_ : shape[i].get<int64_t>();
    }
    made_.extents['r'] = rows;
  }
  int64_t extent(char letter) const {
    const auto at = made_.extents.find(letter);
    return at == made_.extents.end() ? 1 : at->second;
  }
  // Elements between neighbours along `letter`; 0: the value has no such dimension.
  int64_t stride(const char* name, char letter) const {
    const std::string dims = dims_of(name);
    const size_t at = dims.rfind(letter);
    if (at == std::string::npos) return 0;
    int64_t stride = 1;
    for (size_t i = at + 1; i < dims.size(); ++i)
      if (dims[i] != dims[i - 1]) stride *= extent(dims[i]);
    return stride;
  }
  // A matrix of `rows` by `columns`, the letters of those dimensions.
  lathe_operand operand(const char* name, char rows, char columns) const {
    lathe_operand o = LATHE_OPERAND_INIT;
    o.dtype = dtype_of(value_of(name), "dtype");
    const std::string dims = dims_of(name);
    const bool column_major = !dims.empty() && dims.back() == rows;
    o.layout = column_major ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
    o.leading_dimension = stride(name, column_major ? columns : rows);
    o.batch_stride = stride(name, 'b');
    return o;
  }

  lathe_matmul_desc matmul() const {
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = extent('m');
    desc.n = extent('n');
    desc.k = extent('k');
    desc.batch = extent('b');
    desc.a = operand("a", 'm', 'k');
    desc.b = operand("b", 'k', 'n');
    desc.d = operand("d", 'm', 'n');
    desc.epilogue.alpha = step_.at("alpha").get<float>();
    if (has("c")) {
      desc.c = operand("c", 'm', 'n');
      desc.c.data = present();
      desc.epilogue.beta = 1;
    }
    if (has("bias")) {
      desc.epilogue.bias = present();
      desc.epilogue.bias_dtype = dtype_of(value_of("bias"), "dtype");
    }
    const auto activation =
        std::find(kActivations.begin(), kActivations.end(), step_.at("activation").get<std::string>());
    desc.epilogue.activation = static_cast<lathe_activation>(activation - kActivations.begin());
    if (has("residual")) {
      desc.epilogue.residual = operand("residual", 'm', 'n');
      desc.epilogue.residual.data = present();
    }
    join_batch(&desc);
    return desc;
  }
  // A batch that shares B and lies row after row is one matrix of more rows.
  static void join_batch(lathe_matmul_desc* desc) {
    if (desc->batch == 1 || desc->b.batch_stride != 0) return;
    for (const lathe_operand* o : {&desc->a, &desc->d, &desc->c, &desc->epilogue.residual}) {
      if (o->dtype == LATHE_DTYPE_NONE) continue;
      if (o->layout != LATHE_ROW_MAJOR || o->batch_stride != desc->m * o->leading_dimension) return;
    }
    for (lathe_operand* o : {&desc->a, &desc->d, &desc->c, &desc->epilogue.residual}) o->batch_stride = 0;
    desc->m *= desc->batch;
    desc->batch = 1;
  }

  lathe_argmax_desc argmax() const {
    lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
    desc.rows = extent('r');
    desc.n = extent('n');
    desc.x.dtype = dtype_of(value_of("x"), "dtype");
    desc.x.leading_dimension = desc.n;
    desc.index_dtype = dtype_of(value_of("indices"), "dtype");
    desc.index_offset = step_.at("index_offset").get<int64_t>();
    if (has("values")) desc.values = static_cast<float*>(present());
    return desc;
  }

  Elementwise elementwise() const {
    Elementwise e;
    e.value = step_.at("d").at("value").get<size_t>();
    e.number = function_.at("numbers").at(e.value).get<int64_t>();
    e.reads = step_.at("reads").get<std::vector<size_t>>();
    return e;
  }

  lathe_matmul_argmax_desc matmul_argmax() const {
    lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
    desc.m = extent('m');
    desc.n = extent('n');
    desc.k = extent('k');
    desc.a = operand("a", 'm', 'k');
    desc.b = operand("b", 'k', 'n');
    desc.logits_dtype = dtype_of(step_, "logits");
    if (has("bias")) {
      desc.bias = present();
      desc.bias_dtype = desc.logits_dtype;
    }
    desc.index_dtype = dtype_of(value_of("indices"), "dtype");
    desc.index_offset = step_.at("index_offset").get<int64_t>();
    if (has("values")) desc.values = static_cast<float*>(present());
    return desc;
  }

  const Json& function_;
  const Json& step_;
  const int64_t rows_;
  PayloadStep made_;
};

std::string layout_of(const lathe_operand& a, const lathe_operand& b) {
  return absl::StrCat(a.layout == LATHE_COLUMN_MAJOR ? "t" : "n", b.layout == LATHE_COLUMN_MAJOR ? "t" : "n");
}

}  // namespace

absl::StatusOr<Json> inspect_payload(lathe_context* context, const std::string& path) {
  absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  std::vector<Text> pieces;
  const lathe_status status =
      lathe_payload_inspect(context, path.c_str(), text->data(), text->size(), collect_text, &pieces);
  if (status == LATHE_INVALID_ARGUMENT) return absl::InvalidArgumentError(lathe_last_error());
  if (absl::Status s = check(status); !s.ok()) return s;
  return parse_json(pieces, "the program");
}

absl::StatusOr<std::vector<PayloadStep>> function_steps(const Json& function, int64_t rows) {
  std::vector<PayloadStep> steps;
  for (const Json& json : function.at("steps")) {
    absl::StatusOr<PayloadStep> step = StepReader(function, json, rows).read();
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  return steps;
}

absl::StatusOr<std::vector<PayloadStep>> payload_steps(const Json& program, int64_t rows) {
  std::vector<PayloadStep> all;
  for (const Json& function : program.at("functions")) {
    absl::StatusOr<std::vector<PayloadStep>> steps = function_steps(function, rows);
    if (!steps.ok()) return steps.status();
    all.insert(all.end(), steps->begin(), steps->end());
  }
  return all;
}

void tune_products(const lathe_tuning& tuning, std::vector<PayloadStep>* steps) {
  if (tuning.split_k == 0) return;
  const auto tune = [&](auto* desc) {
    if (desc != nullptr) desc->next = reinterpret_cast<const lathe_chain*>(&tuning);
  };
  for (PayloadStep& step : *steps) {
    tune(std::get_if<lathe_matmul_desc>(&step.desc));
    tune(std::get_if<lathe_matmul_argmax_desc>(&step.desc));
  }
}

std::vector<int64_t> shape_of(const Json& function, const std::vector<PayloadStep>& steps, size_t value,
                              int64_t rows) {
  std::vector<int64_t> shape;
  for (const Json& extent : function.at("values").at(value).at("shape"))
    shape.push_back(extent.is_null() ? -1 : extent.get<int64_t>());
  // What is open here a step knows; else these are rows.
  for (const PayloadStep& step : steps) {
    for (const auto& [name, access] : step.json->items()) {
      if (!access.is_object() || access.at("value") != value) continue;
      const std::string dims = access.at("dims").get<std::string>();
      for (size_t i = 0; i < dims.size(); ++i)
        if (shape[i] < 0 && dims[i] != 'r') shape[i] = step.extents.at(dims[i]);
    }
  }
  std::replace(shape.begin(), shape.end(), int64_t{-1}, rows);
  return shape;
}

std::string step_line(const PayloadStep& step) {
  const std::string rows = step.open_rows ? "?" : "";
  if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc)) {
    return absl::StrCat("matmul ", name_of(d->a.dtype), " ", rows.empty() ? absl::StrCat(d->m) : rows, "x",
                        d->n, "x", d->k, " ", layout_of(d->a, d->b),
                        d->batch == 1 ? "" : absl::StrCat(" batch ", d->batch));
  }
  if (const auto* d = std::get_if<lathe_argmax_desc>(&step.desc))
    return absl::StrCat("argmax ", name_of(d->x.dtype), " ", rows.empty() ? absl::StrCat(d->rows) : rows, "x",
                        d->n);
  if (std::holds_alternative<Elementwise>(step.desc)) return "elementwise on the host";
  const auto& d = std::get<lathe_matmul_argmax_desc>(step.desc);
  return absl::StrCat("matmul_argmax ", name_of(d.a.dtype), " ", rows.empty() ? absl::StrCat(d.m) : rows, "x",
                      d.n, "x", d.k, " ", layout_of(d.a, d.b));
}

}  // namespace lathe::cli
