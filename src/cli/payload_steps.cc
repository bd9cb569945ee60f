#include "cli/payload_steps.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/files.h"
#include "cli/request_flags.h"
#include "reference/evaluate.h"
#include "reference/numbers.h"

namespace lathe::cli {
namespace {

constexpr const char* kAccesses[] = {"a",       "b",      "c",   "d",   "x",   "bias", "residual",
                                     "indices", "values", "in0", "in1", "in2", "in3",  "in4"};

// The names of an elementwise op's inputs. No op has in5, so it ends the loop over them.
constexpr const char* kInputs[] = {"in0", "in1", "in2", "in3", "in4", "in5"};

// Adjacent dimensions [from, to) of a value that a step treats as one dimension.
struct Run {
  char letter;
  size_t from, to;
};
std::vector<Run> runs_of(const std::string& dims) {
  std::vector<Run> runs;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i == 0 || dims[i] == 'r' || dims[i] != dims[i - 1]) runs.push_back({dims[i], i, i});
    runs.back().to = i + 1;
  }
  return runs;
}

// Reads one step of a function: finds its extents and makes its descriptor.
class StepReader {
 public:
  StepReader(const Json& function, const Json& step, int64_t rows)
      : function_(function), step_(step), rows_(rows) {
    made_.json = &step;
    made_.function = function.at("name").get<std::string>();
    made_.location = step.at("location").get<std::string>();
  }

  absl::StatusOr<PayloadStep> read() {
    // Known extents first: an extent may be open in one operand and known in another.
    for (const bool open : {false, true})
      for (const char* name : kAccesses)
        if (absl::Status s = bind(name, open); !s.ok()) return s;
    if (absl::Status s = bind_rows(); !s.ok()) return s;
    for (const char* name : kAccesses)
      if (absl::Status s = check_size(name); !s.ok()) return s;
    const std::string op = step_.at("op").get<std::string>();
    if (op == "matmul") made_.desc = matmul();
    if (op == "argmax") made_.desc = argmax();
    if (op == "elementwise") {
      absl::StatusOr<Elementwise> made = elementwise();
      if (!made.ok()) return made.status();
      made_.desc = *std::move(made);
    }
    if (op == "matmul_argmax") made_.desc = matmul_argmax();
    return std::move(made_);
  }

 private:
  static lathe_dtype dtype_of(const Json& json, const char* field) {
    return reference::dtype_named(json.at(field).get<std::string>());
  }
  bool has(const char* name) const { return step_.contains(name); }
  const Json& value_of(const char* name) const {
    return function_.at("values").at(step_.at(name).at("value").get<size_t>());
  }
  std::string dims_of(const char* name) const { return step_.at(name).at("dims").get<std::string>(); }
  absl::Status error(absl::StatusCode code, const std::string& why) const {
    return absl::Status(code, absl::StrCat(made_.location, ": ", why));
  }

  absl::Status too_many(const char* name) const {
    return error(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("'", name, "' is too large: the product of its extents exceeds 2^63 - 1"));
  }
  // Takes the extents from the shape of operand `name`: the known ones, or with `open` those that no operand gives.
  absl::Status bind(const char* name, bool open) {
    if (!has(name)) return absl::OkStatus();
    const Json& shape = value_of(name).at("shape");
    for (const Run& run : runs_of(dims_of(name))) {
      const auto first = shape.begin() + static_cast<ptrdiff_t>(run.from),
                 last = shape.begin() + static_cast<ptrdiff_t>(run.to);
      if (run.letter == 'r' || (std::count(first, last, nullptr) > 0) != open) continue;
      const auto told = made_.extents.find(run.letter);
      if (open && told != made_.extents.end()) continue;
      // The loop of an elementwise op with one loop is n.
      const bool may_be_open = run.letter == 'm' || (run.letter == 'n' && has("program"));
      if (open && (!may_be_open || run.to - run.from > 1))
        return error(absl::StatusCode::kUnimplemented, absl::StrCat("dimension ", run.from, " of '", name,
                                                                    "' is open, but only rows may be open"));
      made_.open_rows = made_.open_rows || open;
      const std::optional<int64_t> extent =
          open ? rows_ : reference::elements_in(std::vector<int64_t>(first, last));
      if (!extent) return too_many(name);
      if (told != made_.extents.end() && told->second != *extent)
        return error(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("dimension ", run.from, " of '", name, "' is ", *extent,
                                  ", but another operand has ", told->second));
      made_.extents[run.letter] = *extent;
    }
    return absl::OkStatus();
  }
  // Finds the rows of an argmax: all dimensions but the reduced one. They have the same order in inputs and outputs.
  absl::Status bind_rows() {
    if (!has("x")) return absl::OkStatus();
    for (const char* name : {"x", "indices", "values"}) {
      if (!has(name)) continue;
      const std::string dims = dims_of(name);
      size_t row = 0;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == 'n') continue;
        if (row == made_.rows.size()) made_.rows.push_back(-1);
        int64_t& known = made_.rows[row++];
        const Json& extent = value_of(name).at("shape").at(i);
        if (extent.is_null()) continue;
        if (known >= 0 && extent != known)
          return error(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("dimension ", i, " of '", name, "' is ", extent.get<int64_t>(),
                                    ", but another operand has ", known));
        known = extent.get<int64_t>();
      }
    }
    made_.open_rows = std::count(made_.rows.begin(), made_.rows.end(), -1) > 0;
    std::replace(made_.rows.begin(), made_.rows.end(), int64_t{-1}, rows_);
    const std::optional<int64_t> rows = reference::elements_in(made_.rows);
    if (!rows) return too_many("x");
    made_.extents['r'] = *rows;
    return absl::OkStatus();
  }
  // Checks that the number of elements of operand `name`, and so each of its strides, fits in 63 bits.
  absl::Status check_size(const char* name) const {
    if (!has(name)) return absl::OkStatus();
    std::vector<int64_t> extents;
    const std::string dims = dims_of(name);
    for (const Run& run : runs_of(dims))
      if (run.letter != 'r') extents.push_back(extent(run.letter));
    if (dims.find('r') != std::string::npos) extents.push_back(extent('r'));
    return reference::elements_in(extents) ? absl::OkStatus() : too_many(name);
  }
  int64_t extent(char letter) const {
    const auto at = made_.extents.find(letter);
    return at == made_.extents.end() ? 1 : at->second;
  }
  // The distance, in elements, of neighbours along dimension `letter`; 0: the value has no such dimension.
  int64_t stride(const char* name, char letter) const {
    int64_t stride = 1;
    const std::vector<Run> runs = runs_of(dims_of(name));
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
      if (run->letter == letter) return stride;
      stride *= extent(run->letter);
    }
    return 0;
  }
  // Describes operand `name` as a matrix. `rows` and `columns` are the letters of its dimensions.
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
  // Turns a batch into one matrix with more rows, if all matrices share B and the rows of A, C, D and the residual
  // follow each other without gaps.
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

  // Describes an input of an elementwise program. Its leading dimension is the distance of two rows; 0 without rows.
  lathe_operand input(const char* name) const {
    const std::string dims = dims_of(name);
    const bool rows = dims.find('m') != std::string::npos, columns = dims.find('n') != std::string::npos;
    lathe_operand o = operand(name, 'm', 'n');
    if (!columns) o.layout = LATHE_ROW_MAJOR;
    if (!rows) o.layout = LATHE_ROW_MAJOR, o.leading_dimension = 0;
    if (rows && !columns) o.leading_dimension = stride(name, 'm');
    return o;
  }

  absl::StatusOr<Elementwise> elementwise() const {
    Elementwise e;
    e.value = step_.at("d").at("value").get<size_t>();
    e.number = function_.at("numbers").at(e.value).get<int64_t>();
    e.reads = step_.at("reads").get<std::vector<size_t>>();
    if (!has("program")) {
      e.on_host = step_.at("on_host").get<std::string>();
      return e;
    }
    const std::string text = step_.at("program").get<std::string>();
    lathe_program* program = nullptr;
    const absl::Status read = check(lathe_program_create(text.data(), text.size(), &program));
    if (!read.ok()) return error(read.code(), std::string(read.message()));
    e.program.reset(program, lathe_program_destroy);
    e.desc.program = program;
    e.desc.m = extent('m');
    e.desc.n = extent('n');
    e.desc.batch = extent('b');
    e.desc.d = input("d");
    for (size_t i = 0; has(kInputs[i]); ++i) e.desc.inputs[i] = input(kInputs[i]);
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

// The extent that a step gives to one or several adjacent dimensions of a value. A step on the host gives none.
struct Told {
  std::string name;
  size_t value;
  Run run;
  int64_t extent;
  std::vector<int64_t> among(const std::vector<int64_t>& shape) const {
    return {shape.begin() + static_cast<ptrdiff_t>(run.from), shape.begin() + static_cast<ptrdiff_t>(run.to)};
  }
};
std::vector<Told> told_by(const PayloadStep& step) {
  std::vector<Told> all;
  if (is_on_host(step)) return all;
  for (const auto& [name, access] : step.json->items()) {
    if (!access.is_object()) continue;
    size_t row = 0;
    for (const Run& run : runs_of(access.at("dims").get<std::string>()))
      all.push_back({name, access.at("value").get<size_t>(), run,
                     run.letter == 'r' ? step.rows.at(row++) : step.extents.at(run.letter)});
  }
  return all;
}

// Checks the shapes against the extents of this step. A shape may come from another step that disagrees.
absl::Status check_shapes(const PayloadStep& step, const std::vector<std::vector<int64_t>>& shapes) {
  const auto error = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(step.location, ": ", why));
  };
  for (const Told& told : told_by(step)) {
    const std::vector<int64_t>& shape = shapes[told.value];
    if (!reference::elements_in(shape))
      return error(
          absl::StrCat("'", told.name, "' is too large: the product of its extents exceeds 2^63 - 1"));
    if (reference::elements_in(told.among(shape)) != told.extent)
      return error(absl::StrCat("dimension ", told.run.from, " of '", told.name, "' is ", told.extent,
                                ", but another step has ", absl::StrJoin(told.among(shape), "x")));
  }
  return absl::OkStatus();
}

// Fills in the extents that the steps leave open: they follow from the ops of the payload's text.
absl::Status tell_open(const Json& function, std::vector<std::vector<int64_t>>* shapes) {
  if (function.at("meaning").is_null()) return absl::OkStatus();
  const std::vector<int64_t> numbers = function.at("numbers").get<std::vector<int64_t>>();
  reference::Evaluator::Shapes known;
  for (size_t v = 0; v < shapes->size(); ++v) known[numbers[v]] = (*shapes)[v];
  absl::StatusOr<reference::Evaluator::Shapes> told =
      reference::Evaluator::told_shapes(function.at("meaning"), known);
  if (!told.ok()) return told.status();
  for (size_t v = 0; v < shapes->size(); ++v) (*shapes)[v] = told->at(numbers[v]);
  return absl::OkStatus();
}

// Checks that the ops of the text agree about the shapes of their operands, and read none past its end.
absl::Status check_meaning(const Json& function, const std::vector<std::vector<int64_t>>& shapes) {
  if (function.at("meaning").is_null()) return absl::OkStatus();
  std::map<int64_t, reference::Evaluator::Bound> values;
  for (size_t v = 0; v < shapes.size(); ++v)
    values[function.at("numbers").at(v).get<int64_t>()] = {nullptr, LATHE_DTYPE_NONE, shapes[v]};
  return reference::Evaluator::make(function.at("meaning"), values).status();
}

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
  if (absl::Status s = shapes_of(function, steps, rows).status(); !s.ok()) return s;
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

bool is_on_host(const PayloadStep& step) {
  const auto* e = std::get_if<Elementwise>(&step.desc);
  return e != nullptr && e->program == nullptr;
}

void tune_step(const lathe_tuning& tuning, PayloadStep* step) {
  if (tuning.split_k == 0 && tuning.candidate == 0) return;
  const auto* chain = reinterpret_cast<const lathe_chain*>(&tuning);
  if (auto* d = std::get_if<lathe_matmul_desc>(&step->desc)) d->next = chain;
  if (auto* d = std::get_if<lathe_argmax_desc>(&step->desc)) d->next = chain;
  if (auto* d = std::get_if<lathe_matmul_argmax_desc>(&step->desc)) d->next = chain;
  if (auto* d = std::get_if<Elementwise>(&step->desc)) d->desc.next = chain;
}

bool is_product(const PayloadStep& step) {
  return std::holds_alternative<lathe_matmul_desc>(step.desc) ||
         std::holds_alternative<lathe_matmul_argmax_desc>(step.desc);
}

void tune_products(const lathe_tuning& tuning, std::vector<PayloadStep>* steps) {
  for (PayloadStep& step : *steps)
    if (is_product(step)) tune_step(tuning, &step);
}

absl::StatusOr<std::vector<std::vector<int64_t>>> shapes_of(const Json& function,
                                                            const std::vector<PayloadStep>& steps,
                                                            int64_t rows) {
  std::vector<std::vector<int64_t>> shapes;
  for (const Json& value : function.at("values")) {
    shapes.emplace_back();
    for (const Json& extent : value.at("shape"))
      shapes.back().push_back(extent.is_null() ? -1 : extent.get<int64_t>());
  }
  for (const PayloadStep& step : steps)
    for (const Told& told : told_by(step)) {
      // If one of several dimensions is open, it is the step's extent divided by the others.
      std::vector<int64_t>& shape = shapes[told.value];
      const int64_t others = std::max<int64_t>(reference::elements_in(told.among(shape)).value_or(1), 1);
      for (size_t i = told.run.from; i < told.run.to; ++i)
        if (shape[i] < 0) {
          shape[i] = told.extent / others;
          break;
        }
    }
  if (absl::Status s = tell_open(function, &shapes); !s.ok()) return s;
  // Extents that are still open are rows.
  for (std::vector<int64_t>& shape : shapes) std::replace(shape.begin(), shape.end(), int64_t{-1}, rows);
  for (const PayloadStep& step : steps)
    if (absl::Status s = check_shapes(step, shapes); !s.ok()) return s;
  if (absl::Status s = check_meaning(function, shapes); !s.ok()) return s;
  return shapes;
}

std::string step_line(const PayloadStep& step) {
  const std::string rows = step.open_rows ? "?" : "";
  if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc)) {
    return absl::StrCat("matmul ", reference::name_of(d->a.dtype), " ",
                        rows.empty() ? absl::StrCat(d->m) : rows, "x", d->n, "x", d->k, " ",
                        layout_of(d->a, d->b), d->batch == 1 ? "" : absl::StrCat(" batch ", d->batch));
  }
  if (const auto* d = std::get_if<lathe_argmax_desc>(&step.desc))
    return absl::StrCat("argmax ", reference::name_of(d->x.dtype), " ",
                        rows.empty() ? absl::StrCat(d->rows) : rows, "x", d->n);
  if (const auto* e = std::get_if<Elementwise>(&step.desc)) {
    if (e->program == nullptr) return absl::StrCat("elementwise on the host: ", e->on_host);
    const lathe_elementwise_desc& d = e->desc;
    return absl::StrCat("elementwise ", reference::name_of(d.d.dtype), " ",
                        rows.empty() ? absl::StrCat(d.m) : rows, "x", d.n,
                        d.batch == 1 ? "" : absl::StrCat(" batch ", d.batch));
  }
  const auto& d = std::get<lathe_matmul_argmax_desc>(step.desc);
  return absl::StrCat("matmul_argmax ", reference::name_of(d.a.dtype), " ",
                      rows.empty() ? absl::StrCat(d.m) : rows, "x", d.n, "x", d.k, " ", layout_of(d.a, d.b));
}

}  // namespace lathe::cli
