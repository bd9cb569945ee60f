#include "cli/payload_run.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "reference/judge.h"

namespace lathe::cli {
namespace {

int64_t extent(const PayloadStep& step, char letter) {
  const auto at = step.extents.find(letter);
  return at == step.extents.end() ? 1 : at->second;
}

// Checks that this machine has the memory for all values: an image of each, and its copy in device memory.
absl::Status check_values(const Json& function, const std::vector<std::vector<int64_t>>& shapes,
                          const Stream& stream) {
  double bytes = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const lathe_dtype dtype = reference::dtype_named(function.at("values")[i].at("dtype").get<std::string>());
    bytes += stream.host_copies() * static_cast<double>(reference::bytes_of(dtype)) *
             static_cast<double>(reference::elements_in(shapes[i]).value_or(INT64_MAX));
  }
  return check_memory(absl::StrCat("@", function.at("name").get<std::string>()), bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PayloadTrial>> PayloadTrial::make(lathe_device* device, const Stream& stream,
                                                                 const Json& function, int64_t rows,
                                                                 uint64_t seed,
                                                                 absl::Span<const lathe_tuning> tunings) {
  std::unique_ptr<PayloadTrial> trial(new PayloadTrial(device, stream, seed));
  absl::StatusOr<std::vector<PayloadStep>> steps = function_steps(function, rows);
  if (!steps.ok()) return steps.status();
  trial->steps_ = *std::move(steps);
  for (size_t i = 0; i < tunings.size(); ++i) tune_step(tunings[i], &trial->steps_[i]);
  trial->function_ = &function;
  if (absl::Status s = trial->make_values(function, rows); !s.ok()) return s;
  for (PayloadStep& step : trial->steps_) {
    trial->set_pointers(&step);
    auto* argmax = std::get_if<lathe_argmax_desc>(&step.desc);
    if (argmax == nullptr || trial->access(step, "x").dims.back() == 'n') continue;
    Value& rows = trial->rows_[&step];
    rows.dtype = argmax->x.dtype;
    rows.shape = {argmax->rows, argmax->n};
    rows.elements = argmax->rows * argmax->n;
    rows.image.resize(static_cast<size_t>(rows.elements) * reference::bytes_of(rows.dtype));
    absl::StatusOr<DeviceBuffer> memory = DeviceBuffer::make(device, stream.get(), rows.image);
    if (!memory.ok()) return memory.status();
    rows.memory = *std::move(memory);
    argmax->x.data = rows.memory.data();
  }
  if (absl::Status s = stream.synchronize(); !s.ok()) return s;
  return trial;
}

absl::Status PayloadTrial::make_values(const Json& function, int64_t rows) {
  const Json& values = function.at("values");
  const absl::StatusOr<std::vector<std::vector<int64_t>>> shapes = shapes_of(function, steps_, rows);
  if (!shapes.ok()) return shapes.status();
  if (absl::Status s = check_values(function, *shapes, stream_); !s.ok()) return s;
  for (size_t i = 0; i < values.size(); ++i) {
    Value value;
    value.dtype = reference::dtype_named(values[i].at("dtype").get<std::string>());
    value.shape = (*shapes)[i];
    value.elements = *reference::elements_in(value.shape);
    reference::OperandSpec spec;
    spec.dtype = value.dtype;
    spec.rows = 1;
    spec.columns = value.elements;
    // Arguments get random elements. Results of steps start as poison.
    reference::Operand operand(spec);
    const Json& arguments = function.at("arguments");
    if (std::find(arguments.begin(), arguments.end(), Json(i)) != arguments.end())
      operand.fill(reference::Fill::kNormal, &random_);
    const auto* first = static_cast<const uint8_t*>(operand.first_at(operand.image().data()));
    value.image.assign(first, first + static_cast<size_t>(spec.columns) * reference::bytes_of(value.dtype));
    absl::StatusOr<DeviceBuffer> memory = DeviceBuffer::make(device_, stream_.get(), value.image);
    if (!memory.ok()) return memory.status();
    value.memory = *std::move(memory);
    values_.push_back(std::move(value));
  }
  return absl::OkStatus();
}

void* PayloadTrial::memory_of(const PayloadStep& step, const char* name) {
  return step.json->contains(name) ? access(step, name).value->memory.data() : nullptr;
}

void PayloadTrial::set_pointers(PayloadStep* step) {
  if (auto* d = std::get_if<lathe_matmul_desc>(&step->desc)) {
    d->a.data = memory_of(*step, "a");
    d->b.data = memory_of(*step, "b");
    d->c.data = memory_of(*step, "c");
    d->d.data = memory_of(*step, "d");
    d->epilogue.bias = memory_of(*step, "bias");
    d->epilogue.residual.data = memory_of(*step, "residual");
  } else if (auto* d = std::get_if<lathe_argmax_desc>(&step->desc)) {
    d->x.data = memory_of(*step, "x");
    d->indices = memory_of(*step, "indices");
    d->values = static_cast<float*>(memory_of(*step, "values"));
  } else if (auto* d = std::get_if<lathe_matmul_argmax_desc>(&step->desc)) {
    d->a.data = memory_of(*step, "a");
    d->b.data = memory_of(*step, "b");
    d->bias = memory_of(*step, "bias");
    d->indices = memory_of(*step, "indices");
    d->values = static_cast<float*>(memory_of(*step, "values"));
  } else if (auto* d = std::get_if<Elementwise>(&step->desc); d != nullptr && d->program != nullptr) {
    d->desc.d.data = memory_of(*step, "d");
    for (size_t i = 0; i < LATHE_ELEMENTWISE_INPUTS; ++i)
      d->desc.inputs[i].data = memory_of(*step, absl::StrCat("in", i).c_str());
  }
}

absl::StatusOr<double> PayloadTrial::launch() {
  double on_host = 0;
  for (const PayloadStep& step : steps_) {
    if (absl::Status s = run_on_host(step, &on_host); !s.ok()) return s;
    lathe_status status = LATHE_OK;
    if (const auto* d = std::get_if<lathe_matmul_desc>(&step.desc))
      status = lathe_matmul(device_, stream_.get(), d);
    if (const auto* d = std::get_if<lathe_argmax_desc>(&step.desc))
      status = lathe_argmax(device_, stream_.get(), d);
    if (const auto* d = std::get_if<lathe_matmul_argmax_desc>(&step.desc))
      status = lathe_matmul_argmax(device_, stream_.get(), d);
    if (const auto* d = std::get_if<Elementwise>(&step.desc); d != nullptr && d->program != nullptr)
      status = lathe_elementwise(device_, stream_.get(), &d->desc);
    if (absl::Status s = cli::check(status); !s.ok())
      return absl::Status(s.code(), absl::StrCat(step.location, ": ", s.message()));
  }
  return on_host;
}

absl::Status PayloadTrial::run_on_host(const PayloadStep& step, double* seconds) {
  const auto* elementwise = is_on_host(step) ? std::get_if<Elementwise>(&step.desc) : nullptr;
  if (elementwise == nullptr && rows_.count(&step) == 0) return absl::OkStatus();
  if (absl::Status s = stream_.synchronize(); !s.ok()) return s;
  const auto start = std::chrono::steady_clock::now();
  const absl::Status done = elementwise != nullptr ? evaluate(*elementwise) : gather_rows(step);
  *seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return done;
}

double PayloadTrial::flops() const {
  double flops = 0;
  for (const PayloadStep& step : steps_) {
    if (std::holds_alternative<lathe_argmax_desc>(step.desc) ||
        std::holds_alternative<Elementwise>(step.desc))
      continue;
    double products = 2;
    for (const auto& [letter, size] : step.extents) products *= static_cast<double>(size);
    flops += products;
  }
  return flops;
}

double PayloadTrial::bytes() const {
  double bytes = 0;
  for (const PayloadStep& step : steps_) {
    if (is_on_host(step)) continue;
    for (const auto& [name, access] : step.json->items()) {
      if (!access.is_object()) continue;
      const Value& value = values_[access.at("value").get<size_t>()];
      bytes += static_cast<double>(value.elements) * static_cast<double>(reference::bytes_of(value.dtype));
    }
  }
  return bytes;
}

PayloadTrial::Access PayloadTrial::access(const PayloadStep& step, const char* name) const {
  const Json& json = step.json->at(name);
  return {&values_[json.at("value").get<size_t>()], json.at("dims").get<std::string>()};
}

reference::Operand PayloadTrial::gather(const PayloadStep& step, const char* name, char rows,
                                        char columns) const {
  const Access from = access(step, name);
  std::map<char, int64_t> strides;
  int64_t stride = 1;
  for (size_t i = from.dims.size(); i-- > 0;) {
    strides.emplace(from.dims[i], stride);  // keeps the innermost of several row dimensions of an argmax
    stride *= from.value->shape[i];
  }
  reference::OperandSpec spec;
  spec.dtype = from.value->dtype;
  spec.rows = from.dims.find(rows) == std::string::npos ? 1 : extent(step, rows);
  spec.columns = from.dims.find(columns) == std::string::npos ? 1 : extent(step, columns);
  spec.batch = extent(step, 'b');
  spec.broadcast = from.dims.find('b') == std::string::npos;
  reference::Operand operand(spec);
  for (int64_t b = 0; b < spec.matrices(); ++b)
    for (int64_t r = 0; r < spec.rows; ++r)
      for (int64_t c = 0; c < spec.columns; ++c)
        operand.copy(b, r, c, from.value->image.data(),
                     b * strides['b'] + r * strides[rows] + c * strides[columns]);
  return operand;
}

reference::CheckResult PayloadTrial::check(const PayloadStep& step, const lathe_matmul_desc& desc) {
  reference::MatmulData data;
  data.a = gather(step, "a", 'm', 'k');
  data.b = gather(step, "b", 'k', 'n');
  data.d = gather(step, "d", 'm', 'n');
  if (step.json->contains("c")) data.c = gather(step, "c", 'm', 'n');
  if (step.json->contains("bias")) data.bias = gather(step, "bias", 'm', 'n');
  if (step.json->contains("residual")) data.residual = gather(step, "residual", 'm', 'n');
  reference::MatmulRequest r;
  r.m = extent(step, 'm');
  r.n = extent(step, 'n');
  r.k = extent(step, 'k');
  r.batch = extent(step, 'b');
  r.dtype = desc.a.dtype;
  r.out_dtype = desc.d.dtype;
  r.alpha = desc.epilogue.alpha;
  r.beta = desc.epilogue.beta;
  r.bias = data.bias.exists();
  r.residual = data.residual.exists();
  r.activation = desc.epilogue.activation;
  return reference::check_matmul(r, data, &random_);
}

reference::Operand PayloadTrial::gather_argmax(const PayloadStep& step) const {
  const auto copy = rows_.find(&step);
  if (copy == rows_.end()) return gather(step, "x", 'r', 'n');
  reference::OperandSpec spec;
  spec.dtype = copy->second.dtype;
  spec.rows = copy->second.shape[0];
  spec.columns = copy->second.shape[1];
  reference::Operand operand(spec);
  for (int64_t i = 0; i < copy->second.elements; ++i)
    operand.copy(0, i / spec.columns, i % spec.columns, copy->second.image.data(), i);
  return operand;
}

reference::CheckResult PayloadTrial::check(const PayloadStep& step, const lathe_argmax_desc& desc) {
  reference::ArgmaxData data;
  data.x = gather_argmax(step);
  data.indices = gather(step, "indices", ' ', 'r');
  if (step.json->contains("values")) data.values = gather(step, "values", ' ', 'r');
  reference::ArgmaxRequest r;
  r.rows = extent(step, 'r');
  r.n = extent(step, 'n');
  r.dtype = desc.x.dtype;
  r.index_dtype = desc.index_dtype;
  r.index_offset = desc.index_offset;
  r.values = data.values.exists();
  return reference::check_argmax(r, data);
}

reference::CheckResult PayloadTrial::check(const PayloadStep& step, const lathe_matmul_argmax_desc& desc) {
  reference::MatmulArgmaxData data;
  data.a = gather(step, "a", 'm', 'k');
  data.b = gather(step, "b", 'k', 'n');
  if (step.json->contains("bias")) data.bias = gather(step, "bias", 'm', 'n');
  data.indices = gather(step, "indices", ' ', 'm');
  if (step.json->contains("values")) data.values = gather(step, "values", ' ', 'm');
  reference::MatmulArgmaxRequest r;
  r.m = extent(step, 'm');
  r.n = extent(step, 'n');
  r.k = extent(step, 'k');
  r.dtype = desc.a.dtype;
  r.logits_dtype = desc.logits_dtype;
  r.bias = data.bias.exists();
  r.values = data.values.exists();
  r.index_dtype = desc.index_dtype;
  r.index_offset = desc.index_offset;
  return reference::check_matmul_argmax(r, data, &random_);
}

absl::Status PayloadTrial::download(Value* value) {
  if (absl::Status s = value->memory.download(stream_.get(), &value->image); !s.ok()) return s;
  return stream_.synchronize();
}

absl::StatusOr<reference::Evaluator> PayloadTrial::evaluator_with(const std::vector<size_t>& values) const {
  std::map<int64_t, reference::Evaluator::Bound> known;
  const Json& numbers = function_->at("numbers");
  for (size_t v = 0; v < values_.size(); ++v)
    known[numbers.at(v).get<int64_t>()] = {nullptr, values_[v].dtype, values_[v].shape};
  for (size_t v : values) known[numbers.at(v).get<int64_t>()].elements = values_[v].image.data();
  return reference::Evaluator::make(function_->at("meaning"), known);
}

absl::Status PayloadTrial::evaluate(const Elementwise& step) {
  if (function_->at("meaning").is_null())
    return absl::UnimplementedError(
        absl::StrCat("the host cannot evaluate an elementwise step in a function with ",
                     function_->at("unjudged").get<std::string>()));
  for (size_t v : step.reads)
    if (absl::Status s = download(&values_[v]); !s.ok()) return s;
  absl::StatusOr<reference::Evaluator> evaluator = evaluator_with(step.reads);
  if (!evaluator.ok()) return evaluator.status();
  Value& out = values_[step.value];
  std::vector<int64_t> index(out.shape.size(), 0);
  for (int64_t i = 0; i < out.elements; ++i) {
    const reference::Number n = evaluator->at(step.number, index);
    if (reference::is_integer(out.dtype))
      reference::store_integer(out.image.data(), out.dtype, i, n.i);
    else
      reference::store(out.image.data(), out.dtype, i, n.v);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < out.shape[d]) break;
      index[d] = 0;
    }
  }
  if (absl::Status s = out.memory.upload(stream_.get(), out.image); !s.ok()) return s;
  return stream_.synchronize();
}

absl::Status PayloadTrial::gather_rows(const PayloadStep& step) {
  const Access from = access(step, "x");
  if (absl::Status s = download(&values_[step.json->at("x").at("value").get<size_t>()]); !s.ok()) return s;
  Value& rows = rows_.at(&step);
  const size_t reduced = from.dims.find('n'), bytes = reference::bytes_of(rows.dtype);
  int64_t inner = 1;  // elements between neighbours along the reduced dimension
  for (size_t d = reduced + 1; d < from.value->shape.size(); ++d) inner *= from.value->shape[d];
  const int64_t n = from.value->shape[reduced], count = rows.elements;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i / n, source = (row / inner * n + i % n) * inner + row % inner;
    std::copy_n(from.value->image.data() + static_cast<size_t>(source) * bytes, bytes,
                rows.image.data() + static_cast<size_t>(i) * bytes);
  }
  if (absl::Status s = rows.memory.upload(stream_.get(), rows.image); !s.ok()) return s;
  return stream_.synchronize();
}

// Evaluates an elementwise step again and compares. This also shows that no later step overwrote the result.
reference::CheckResult PayloadTrial::check(const PayloadStep&, const Elementwise& step) {
  if (function_->at("meaning").is_null()) {  // verify() reports this
    reference::CheckResult unjudged;
    unjudged.ok = true;
    return unjudged;
  }
  absl::StatusOr<reference::Evaluator> evaluator = evaluator_with(step.reads);
  reference::CheckResult result;
  result.what = std::string(evaluator.status().message());
  if (!evaluator.ok()) return result;
  const Value& out = values_[step.value];
  const reference::Judgement j =
      reference::judge(&*evaluator, step.number, out.image.data(), out.dtype, out.shape, 0.1, &random_);
  result.ok = j.ok;
  result.checked = j.judged;
  result.total = j.total;
  result.worst = j.worst;
  result.what = j.what;
  return result;
}

absl::Status PayloadTrial::check_meaning(reference::CheckResult* all) {
  if (function_->at("meaning").is_null()) {
    all->unjudged = function_->at("unjudged").get<std::string>();
    return absl::OkStatus();
  }
  absl::StatusOr<reference::Evaluator> evaluator =
      evaluator_with(function_->at("arguments").get<std::vector<size_t>>());
  if (!evaluator.ok()) return evaluator.status();
  const std::vector<int64_t> numbers = function_->at("meaning").at("results").get<std::vector<int64_t>>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Value& result = values_[function_->at("results").at(i).get<size_t>()];
    const reference::Judgement j = reference::judge(&*evaluator, numbers[i], result.image.data(),
                                                    result.dtype, result.shape, 0.2, &random_);
    all->judged += j.judged;
    all->to_judge += j.total;
    if (j.ok) continue;
    all->ok = false;
    all->what = absl::StrCat("result ", i, " ", j.what);
  }
  return absl::OkStatus();
}

reference::CheckResult PayloadTrial::check_step(const PayloadStep& step) {
  return std::visit([&](const auto& desc) { return check(step, desc); }, step.desc);
}

absl::StatusOr<reference::CheckResult> PayloadTrial::verify() {
  for (Value& value : values_)
    if (absl::Status s = value.memory.download(stream_.get(), &value.image); !s.ok()) return s;
  if (absl::Status s = stream_.synchronize(); !s.ok()) return s;
  reference::CheckResult all;
  all.ok = true;
  for (const PayloadStep& step : steps_) {
    const reference::CheckResult result = check_step(step);
    all.checked += result.checked;
    all.total += result.total;
    all.worst = std::max(all.worst, result.worst);
    all.what = result.what;
    if (!result.ok) {
      all.ok = false;
      all.what = absl::StrCat(step.location, ": ", result.what);
      return all;
    }
  }
  if (absl::Status s = check_meaning(&all); !s.ok()) return s;
  return all;
}

}  // namespace lathe::cli
