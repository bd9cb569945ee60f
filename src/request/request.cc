#include "request/request.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

constexpr int32_t kMaxSplit = 65535;

absl::Status read_workspace(const lathe_chain* element, Request* out) {
  const auto* w = reinterpret_cast<const lathe_workspace*>(element);
  if (w->struct_size != sizeof(lathe_workspace)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lathe_workspace: struct_size ", w->struct_size, " is not ", sizeof(lathe_workspace)));
  }
  if ((w->flags & ~LATHE_WORKSPACE_ZEROED) != 0) {
    return absl::UnimplementedError(absl::StrCat("lathe_workspace: flags ", w->flags, " are unknown"));
  }
  if (w->data == nullptr && w->bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("lathe_workspace: data is NULL but bytes is ", w->bytes));
  }
  if (reinterpret_cast<uintptr_t>(w->data) % 64 != 0) {
    return absl::InvalidArgumentError("lathe_workspace: data is not 64-byte aligned");
  }
  out->workspace = w->data;
  out->workspace_bytes = w->bytes;
  out->workspace_is_zeroed = w->flags != 0;
  return absl::OkStatus();
}

absl::Status read_tuning(const lathe_chain* element, Request* out) {
  const auto* t = reinterpret_cast<const lathe_tuning*>(element);
  if (t->struct_size != sizeof(lathe_tuning)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lathe_tuning: struct_size ", t->struct_size, " is not ", sizeof(lathe_tuning)));
  }
  if (t->split_k < 0 || t->split_k > kMaxSplit) {
    return absl::InvalidArgumentError(
        absl::StrCat("split_k ", t->split_k, " is not in [0, ", kMaxSplit, "]"));
  }
  if (t->candidate < 0) return absl::InvalidArgumentError(absl::StrCat("candidate ", t->candidate, " < 0"));
  out->key.split_k = t->split_k;
  out->key.candidate = t->candidate;
  return absl::OkStatus();
}

absl::Status read_external_choice(const lathe_chain* element, Request* out) {
  const auto* e = reinterpret_cast<const lathe_external*>(element);
  if (e->struct_size != sizeof(lathe_external)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lathe_external: struct_size ", e->struct_size, " is not ", sizeof(lathe_external)));
  }
  LATHE_ASSIGN_OR_RETURN(const ExternalChoice choice, read_external("lathe_external", e->use, e->which));
  out->key.external = choice.use;
  out->key.external_which = choice.which;
  return absl::OkStatus();
}

absl::Status walk_chain(const lathe_chain* chain, Request* out) {
  uint32_t seen = 0;
  for (; chain != nullptr; chain = chain->next) {
    if (chain->struct_size < sizeof(lathe_chain)) {
      return absl::InvalidArgumentError(
          absl::StrCat("chain element: struct_size ", chain->struct_size, " is too small"));
    }
    if (chain->kind < LATHE_CHAIN_WORKSPACE || chain->kind > LATHE_CHAIN_EXTERNAL) {
      return absl::UnimplementedError(absl::StrCat("chain element of unknown kind ", chain->kind));
    }
    if (chain->reserved != 0 && chain->kind != LATHE_CHAIN_WORKSPACE)  // a workspace has its flags there
      return absl::UnimplementedError("chain element: reserved is not 0");
    // This also ends the walk if the chain is a ring by mistake.
    if (seen & 1u << chain->kind) {
      return absl::InvalidArgumentError(
          absl::StrCat("chain element of kind ", chain->kind, " appears twice"));
    }
    seen |= 1u << chain->kind;
    switch (chain->kind) {
      case LATHE_CHAIN_WORKSPACE: LATHE_RETURN_IF_ERROR(read_workspace(chain, out)); break;
      case LATHE_CHAIN_TUNING: LATHE_RETURN_IF_ERROR(read_tuning(chain, out)); break;
      default: LATHE_RETURN_IF_ERROR(read_external_choice(chain, out));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool refuse(absl::Status* why, absl::Status cause) {
  *why = std::move(cause);
  return false;
}

bool read_chain(const lathe_chain* chain, Request* out, absl::Status* why) {
  *why = walk_chain(chain, out);
  return why->ok();
}

absl::Status explain_operand(absl::string_view name, const lathe_operand& o) {
  if (o.struct_size != sizeof(lathe_operand)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": struct_size ", o.struct_size, " is not ", sizeof(lathe_operand)));
  }
  if (o.next != nullptr)
    return absl::UnimplementedError(absl::StrCat(name, ": no chain element is supported here"));
  if (o.scale != nullptr)
    return absl::UnimplementedError(absl::StrCat(name, ": scale is reserved and must be NULL"));
  if (o.zero_point != nullptr)
    return absl::UnimplementedError(absl::StrCat(name, ": zero_point is reserved and must be NULL"));
  if (o.packed_layout != 0) {
    return absl::UnimplementedError(
        absl::StrCat(name, ": packed_layout ", o.packed_layout, ": only the B of a product can be packed"));
  }
  if (o.reserved != 0) return absl::UnimplementedError(absl::StrCat(name, ": reserved is not 0"));
  return absl::InvalidArgumentError(absl::StrCat(name, ": layout ", raw(o.layout), " is unknown"));
}

bool check_known(absl::string_view name, const lathe_dtype& t, absl::Status* why) {
  if (raw(t) == LATHE_DTYPE_NONE)
    return refuse(why, absl::InvalidArgumentError(absl::StrCat(name, ": dtype is not set")));
  if (!has_row(to_dtype(t)))
    return refuse(why, absl::InvalidArgumentError(absl::StrCat(name, ": dtype ", raw(t), " is unknown")));
  return true;
}

absl::Status explain_dtype(absl::string_view name, const lathe_dtype& t, Set<DType> allowed) {
  absl::Status why;
  if (!check_known(name, t, &why)) return why;
  return absl::UnimplementedError(absl::StrCat(name, ": ", dtype_refusal(to_dtype(t), allowed)));
}

absl::Status explain_class(const ProblemClass& c, Devices devices) {
  const ClassDefect defect = find_defect(c, devices);
  return absl::Status(defect.code, defect.ok() ? "" : absl::StrCat(defect.field, ": ", defect.reason));
}

DType known_dtype(const lathe_dtype& t) { return row_of(to_dtype(t)).value; }

absl::Status explain_dims(const Dims& dims) {
  const std::pair<const char*, int64_t> named[] = {
      {"m", dims.m}, {"n", dims.n}, {"k", dims.k}, {"batch", dims.batch}};
  for (const auto& [name, value] : named) {
    if (value < 0) return absl::InvalidArgumentError(absl::StrCat(name, " ", value, " < 0"));
    if (value > kMaxDim) return absl::InvalidArgumentError(absl::StrCat(name, " ", value, " > ", kMaxDim));
  }
  return absl::OkStatus();
}

absl::Status explain_distance(const OperandName& name, lathe_layout layout, const Distances& apart,
                              int64_t width) {
  if (apart.leading < 0)
    return absl::InvalidArgumentError(absl::StrCat(name.leading, " ", apart.leading, " < 0"));
  if (apart.batch < 0)
    return absl::InvalidArgumentError(absl::StrCat(name.name, ": batch_stride ", apart.batch, " < 0"));
  if (apart.leading < width) {
    return absl::InvalidArgumentError(absl::StrCat(name.leading, " ", apart.leading, " < ",
                                                   layout == LATHE_COLUMN_MAJOR ? name.rows : name.columns,
                                                   " ", width));
  }
  return absl::InvalidArgumentError(absl::StrCat(name.name, ": spans more than 2^63 - 1 bytes"));
}

absl::Status explain_overlap(const OperandName& name, const Placement& placed) {
  std::string text = absl::StrCat(name.name, " overlaps itself: batch_stride ", *placed.stride);
  if (placed.region->lines > 1) absl::StrAppend(&text, " with ", name.leading, " ", *placed.leading);
  return absl::InvalidArgumentError(text);
}

absl::Status in_request(absl::string_view request, absl::string_view device, const absl::Status& cause) {
  return absl::Status(cause.code(), absl::StrCat(request, " on ", device, ": ", cause.message()));
}

void become_zero_product(ProblemClass* c) {
  c->k = 1;
  if (is_blocks(c->b)) {  // a single zero is no block
    if (is_blocks(c->a)) c->a = DType::kF32;
    c->b = c->a;
    c->math = Math::kStrict;
  }
  c->trans_a = 0;
  c->trans_b = 1;
}

void become_zero_product(Request* out) {
  out->empty_product = false;
  out->zero_product = true;
  out->dims.k = 1;
  become_zero_product(&out->key.problem);
  ArgumentBlock& args = out->args;
  args.lda = args.ldb = args.stride_a = args.stride_b = 0;  // all elements of A and B are the one zero
}

std::string describe(const Request& request) {
  Dims dims = request.dims;
  if (request.zero_product) dims.k = 0;
  return describe(request.key.problem, dims);
}

std::string describe(const Request& request, absl::string_view device) {
  return absl::StrCat(describe(request), " on ", device);
}

}  // namespace lathe
