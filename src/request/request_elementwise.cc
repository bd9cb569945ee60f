#include <string>

#include "absl/strings/str_cat.h"
#include "request/elementwise_programs.h"
#include "request/request.h"

namespace lathe {
namespace {

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

constexpr OperandName kNames[kMostElementwiseInputs] = {
    {"inputs[0]", "inputs[0]: leading_dimension", "m", "n"},
    {"inputs[1]", "inputs[1]: leading_dimension", "m", "n"},
    {"inputs[2]", "inputs[2]: leading_dimension", "m", "n"},
    {"inputs[3]", "inputs[3]: leading_dimension", "m", "n"},
    {"inputs[4]", "inputs[4]: leading_dimension", "m", "n"}};
constexpr OperandName kD = {"d", "ldd", "m", "n"};
static_assert(LATHE_ELEMENTWISE_INPUTS == kMostElementwiseInputs,
              "the descriptor holds all inputs that a program may have");

struct Regions {
  Region d, inputs[kMostElementwiseInputs];
};

[[gnu::cold]] absl::Status explain_class(const OperandName& name, const lathe_operand& o, DType dtype) {
  if (raw(o.dtype) != static_cast<uint32_t>(dtype))
    return invalid(absl::StrCat(name.name, ": dtype ", name_of(known_dtype(o.dtype)),
                                ", but the program's is ", name_of(dtype)));
  return invalid(absl::StrCat(name.name, ": the program's dims need a ",
                              o.layout == LATHE_ROW_MAJOR ? "COLUMN_MAJOR" : "ROW_MAJOR", " operand"));
}

bool check_operand(const OperandName& name, const lathe_operand& o, DType dtype, bool column_major,
                   absl::Status* why) {
  if (!plain(o)) return refuse(why, explain_operand(name.name, o));
  if (raw(o.dtype) == static_cast<uint32_t>(dtype) && (o.layout == LATHE_COLUMN_MAJOR) == column_major)
    return true;
  return refuse(why, explain_class(name, o, dtype));
}

bool read_dims(const lathe_elementwise_desc& d, Purpose purpose, Request* out, absl::Status* why) {
  if (purpose == Purpose::kWarm) return true;  // all sizes are one class
  out->dims = {d.m, d.n, 0, d.batch};
  const auto most = static_cast<uint64_t>(kMaxDim);
  if (static_cast<uint64_t>(d.m) > most || static_cast<uint64_t>(d.n) > most ||
      static_cast<uint64_t>(d.batch) > most) {
    return refuse(why, explain_dims(out->dims));
  }
  out->nothing_to_do = d.m == 0 || d.n == 0 || d.batch == 0;
  return true;
}

// Places an input as a matrix. A loop (batch, m or n) that the input does not depend on has size 1.
bool place_input(const OperandName& name, const ElementwiseInput& input, const lathe_operand& o,
                 const Dims& dims, const Placement& out, absl::Status* why) {
  if (!input.batch && o.batch_stride != 0)
    return refuse(why, invalid(absl::StrCat(name.name, ": batch_stride ", o.batch_stride,
                                            " is not 0, but the input has no batch")));
  if (!input.m && o.leading_dimension != 0)
    return refuse(why, invalid(absl::StrCat(name.name, ": leading_dimension ", o.leading_dimension,
                                            " is not 0, but the input has no rows")));
  if (!place_operand(name, o, {input.batch ? dims.batch : 1, input.m ? dims.m : 1, input.n ? dims.n : 1}, out,
                     why))
    return false;
  if (!input.m) *out.leading = 0;  // all rows are the same one
  return true;
}

bool place_operands(const lathe_elementwise_desc& d, const ElementwiseProgram& program, Request* out,
                    Regions* r, absl::Status* why) {
  ArgumentBlock& args = out->args;
  if (!check_operand(kD, d.d, program.d, false, why)) return false;
  const Placement placed = {&args.ldd, &args.stride_d, &r->d};
  if (!place_operand(kD, d.d, {out->dims.batch, out->dims.m, out->dims.n}, placed, why)) return false;
  if (!disjoint_within(r->d)) return refuse(why, explain_overlap(kD, placed));
  int64_t unused = 0;
  int64_t* const leading[] = {&args.lda, &args.ldb, &args.ldc, &args.ldr, &unused};
  int64_t* const strides[] = {&args.stride_a, &args.stride_b, &args.stride_c, &args.stride_r, &unused};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ElementwiseInput& input = program.inputs[i];
    const auto slot = static_cast<size_t>(input.slot);
    if (!check_operand(kNames[i], d.inputs[i], input.dtype, input.along_m, why) ||
        !place_input(kNames[i], input, d.inputs[i], out->dims, {leading[slot], strides[slot], &r->inputs[i]},
                     why))
      return false;
  }
  return true;
}

// Inputs that lie along n are read in vectors; all others one element at a time.
void align_class(const ElementwiseProgram& program, const lathe_elementwise_desc& d, const Regions& r,
                 bool with_pointers, Request* out) {
  OperandAlignment alignment(with_pointers);
  alignment.add(r.d, program.d);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ElementwiseInput& input = program.inputs[i];
    if (input.n && !input.along_m)
      alignment.add(r.inputs[i], input.dtype);
    else
      alignment.add_elements(d.inputs[i].data, input.dtype);
  }
  ProblemClass& c = out->key.problem;
  c = with_alignment(c, alignment.largest(), /*is_cpu=*/false);
}

// Whether the input is D itself. That is legal: each element is read before it is written.
bool is_d(const ElementwiseInput& input, const Region& r, const Region& d, const Dims& dims, DType dtype) {
  return input.m && input.n && !input.along_m && input.dtype == dtype && r.base == d.base &&
         (dims.m == 1 || r.pitch == d.pitch) && (dims.batch == 1 || (input.batch && r.stride == d.stride));
}

bool set_pointers(const ElementwiseProgram& program, const lathe_elementwise_desc& d, const Regions& r,
                  Request* out, absl::Status* why) {
  ArgumentBlock& args = out->args;
  if (d.d.data == nullptr) return refuse(why, invalid("d is NULL"));
  args.d = d.d.data;
  void** const pointers[] = {&args.a, &args.b, &args.c, &args.residual, &args.bias};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ElementwiseInput& input = program.inputs[i];
    if (d.inputs[i].data == nullptr) return refuse(why, invalid(absl::StrCat(kNames[i].name, " is NULL")));
    if (!is_d(input, r.inputs[i], r.d, out->dims, program.d) && !known_disjoint(r.d, r.inputs[i]))
      return refuse(why, invalid(absl::StrCat("d overlaps ", kNames[i].name, " but is not the same matrix")));
    *pointers[static_cast<size_t>(input.slot)] = d.inputs[i].data;
  }
  args.m = static_cast<int32_t>(out->dims.m);
  args.n = static_cast<int32_t>(out->dims.n);
  args.batch = static_cast<int32_t>(out->dims.batch);
  return true;
}

bool read(const lathe_elementwise_desc& d, const ElementwiseProgram& program, Purpose purpose,
          const RequestContext& context, void* stream, Request* out, absl::Status* why) {
  if (d.next != nullptr && !read_chain(d.next, out, why)) return false;
  if (!read_policy(d.miss_policy, context, out, why)) return false;
  if (!read_dependent_launch(d.dependent_launch, context, out, why)) return false;
  if (out->key.problem.dependent_launch == DependentLaunch::kConstantB)
    out->key.problem.dependent_launch = DependentLaunch::kOn;
  if (!read_dims(d, purpose, out, why)) return false;
  if (purpose == Purpose::kWarm) return true;
  Regions regions;
  if (!place_operands(d, program, out, &regions, why)) return false;
  if (!context.is_cpu) align_class(program, d, regions, purpose == Purpose::kRun, out);
  if (purpose != Purpose::kRun) return true;

  if (context.is_cpu && stream != nullptr)
    return refuse(why, invalid("the stream is not NULL; the CPU has no streams"));
  out->stream = stream;
  return out->nothing_to_do || set_pointers(program, d, regions, out, why);
}

}  // namespace

absl::Status read_elementwise(const lathe_elementwise_desc* desc, Purpose purpose,
                              const RequestContext& context, void* stream, Request* out) {
  if (desc == nullptr) return invalid("elementwise: desc is NULL");
  if (desc->struct_size != sizeof(lathe_elementwise_desc)) {
    return invalid(absl::StrCat("elementwise: lathe_elementwise_desc: struct_size ", desc->struct_size,
                                " is not ", sizeof(lathe_elementwise_desc)));
  }
  if (desc->program == nullptr) return invalid("elementwise: program is NULL");
  const ElementwiseProgram& program = *desc->program->program;
  out->program = desc->program;
  out->key.problem = class_of(program);
  absl::Status why;
  if (__builtin_expect(!read(*desc, program, purpose, context, stream, out, &why), 0)) {
    return in_request(describe(class_of(program), Dims{desc->m, desc->n, 0, desc->batch}), context.device,
                      why);
  }
  return absl::OkStatus();
}

}  // namespace lathe
