#include "compiler/config_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lathe {

std::string kernel_config_text(const KernelConfig& c) {
  std::string text = absl::StrCat("#lathe.kernel_config<family = \"", name_of(c.family()), "\", kernel = \"",
                                  name_of(c.kernel()), "\"");
  for (const FieldValue& f : c.fields()) absl::StrAppend(&text, ", ", f.field->name, " = ", f.value);
  return text + ">";
}

std::string config_aliases(const CompileConfig& c) {
  std::string text = absl::StrFormat("#config = %s\n", kernel_config_text(c));
  if (!c.ukernel.function.empty())
    absl::StrAppendFormat(
        &text, "#ukernel = #lathe.ukernel<function = \"%s\", bitcode = \"%s\", attributes = \"%s\">\n",
        c.ukernel.function, c.ukernel.bitcode, c.ukernel.attributes);
  if (!c.external.provider.empty())
    absl::StrAppendFormat(&text, "#external = #lathe.external<library = \"%s\", routine = \"%s\">\n",
                          c.external.provider, c.external.routine);
  return text;
}

std::string config_entries(const CompileConfig& c) {
  std::string text = "lathe.config = #config";
  if (!c.ukernel.function.empty()) text += ", lathe.ukernel = #ukernel";
  if (!c.external.provider.empty()) text += ", lathe.external = #external";
  return text;
}

}  // namespace lathe
