// lathe ukernel ...: adds a user's own inner function (LLVM bitcode) as a candidate.
#include <lathe/ukernel.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/files.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

absl::StatusOr<Json> list_of(const Context& context) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_ukernel_list(context.get(), collect_text, &pieces)); !s.ok()) return s;
  return parse_json(pieces, "ukernels");
}

absl::Status add(const Arguments& arguments) {
  if (!arguments.has("describe"))
    return absl::InvalidArgumentError("'lathe ukernel add' needs --describe ROW.YAML");
  absl::StatusOr<std::string> bitcode = read_file(arguments.words[0]);
  if (!bitcode.ok()) return bitcode.status();
  absl::StatusOr<std::string> description = read_file(arguments.text("describe", ""));
  if (!description.ok()) return description.status();
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  const absl::Status added = check(lathe_ukernel_add(context->get(), description->data(), description->size(),
                                                     reinterpret_cast<const uint8_t*>(bitcode->data()),
                                                     bitcode->size(), /*store=*/1));
  if (!added.ok()) return added;
  absl::StatusOr<Json> list = list_of(*context);
  if (!list.ok()) return list.status();
  absl::PrintF("added to %s; 'lathe ukernel ls' lists it, 'lathe explain' shows its rank\n",
               list->value("directory", ""));
  return absl::OkStatus();
}

absl::Status ls(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<Json> list = list_of(*context);
  if (!list.ok()) return list.status();
  if (arguments.has("json")) {
    std::puts(list->dump(2).c_str());
    return absl::OkStatus();
  }
  const Json ukernels = list->value("ukernels", Json::array());
  if (ukernels.empty()) {
    const std::string directory = list->value("directory", "");
    absl::PrintF("no ukernels of your own%s\n",
                 directory.empty() ? ": there is no directory for them" : " in " + directory);
  }
  for (const Json& u : ukernels) {
    const Json target = u.value("target", Json::object());
    const std::string defect = u.value("defect", "");
    absl::PrintF("%-20s %-7s %-5s %-8s %s  %s\n", u.value("name", ""), u.value("op", ""),
                 u.value("dtype", ""), target.value("arch", ""), u.value("function", ""),
                 defect.empty() ? u.value("digest", "") : defect);
  }
  return absl::OkStatus();
}

absl::Status remove(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  const absl::Status removed = check(lathe_ukernel_remove(context->get(), arguments.words[0].c_str()));
  if (removed.ok()) absl::PrintF("removed %s\n", arguments.words[0]);
  return removed;
}

}  // namespace

Verb ukernel_add_verb() {
  return {"ukernel add",
          "FILE.BC",
          1,
          "check LLVM bitcode of a function, and store it as a candidate for all later commands (in "
          "$LATHE_UKERNELS, or in "
          "'ukernels' in the cache directory)",
          {{"describe", "ROW.YAML",
            "YAML file with op, dtype, function, target, shapes, tiling and cost, see kernels/ukernels.md "
            "(required)"}},
          {"lathe ukernel add mine.bc --describe mine.yaml"},
          add};
}
Verb ukernel_ls_verb() {
  return {"ukernel ls",
          "",
          0,
          "list your ukernels, and say why one cannot be used",
          {{"json", nullptr, "print JSON"}},
          {},
          ls};
}
Verb ukernel_remove_verb() {
  return {"ukernel remove", "NAME", 1, "remove one of your ukernels", {}, {}, remove};
}

}  // namespace lathe::cli
