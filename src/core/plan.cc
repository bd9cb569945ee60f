#include "core/plan.h"

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "core/json_object.h"

namespace lathe {
namespace {

// This text is pasted into the payload's MLIR text, so it must not contain a quote, a backslash or a control
// character.
std::string name_field(const Json& j, const char* name) {
  std::string text = text_field(j, name);
  for (char c : text)
    if (c < ' ' || c > '~' || c == '"' || c == '\\')
      throw std::invalid_argument(
          absl::StrCat("\"", name, "\" contains a character that is not allowed in a name"));
  return text;
}

}  // namespace

bool UkernelRef::operator==(const UkernelRef& o) const {
  return function == o.function && bitcode == o.bitcode && attributes == o.attributes;
}

bool CompileConfig::operator==(const CompileConfig& o) const {
  return KernelConfig::operator==(o) && ukernel == o.ukernel && external == o.external;
}

Json to_json(const CompileConfig& c) {
  Json json = json_object(
      "kernel", std::string(name_of(c.kernel())), "family", std::string(name_of(c.family())), "ukernel",
      json_object("function", c.ukernel.function, "bitcode", c.ukernel.bitcode, "attributes",
                  c.ukernel.attributes),
      "external", json_object("library", c.external.provider, "routine", c.external.routine));
  for (const FieldValue& f : c.fields()) set_fields(&json, f.field->name, f.value);
  return json;
}

absl::StatusOr<CompileConfig> compile_config_from_json(const Json& j) {
  return read_json("compile config", [&] {
    const std::string kernel_name = text_field(j, "kernel"), family_name = text_field(j, "family");
    KernelKind kernel;
    ConfigFamily family;
    if (!parse(kernel_name, &kernel))
      throw std::invalid_argument(absl::StrCat("no kernel is named \"", kernel_name, "\""));
    if (!parse(family_name, &family) || !row_of(family).covers(kernel))
      throw std::invalid_argument(
          absl::StrCat("kernel \"", kernel_name, "\" has no configs of family \"", family_name, "\""));
    CompileConfig c(family, kernel);
    const std::vector<FieldValue> fields = c.fields();
    expect_fields(j, fields.size() + 4);
    for (const auto& [field, initial] : fields)
      c.set(field->name, int_field(j, field->name, field->least, field->most));
    const Json& ukernel = j.at("ukernel");
    expect_fields(ukernel, 3);
    c.ukernel.function = name_field(ukernel, "function");
    c.ukernel.bitcode = name_field(ukernel, "bitcode");
    c.ukernel.attributes = name_field(ukernel, "attributes");
    const bool named = !c.ukernel.function.empty();
    if (named != (kernel == KernelKind::kUkernel) || named != !c.ukernel.bitcode.empty())
      throw std::invalid_argument(
          "\"ukernel\" must name a function and its bitcode for kernel \"ukernel\", and nothing otherwise");
    const Json& external = j.at("external");
    expect_fields(external, 2);
    c.external.provider = name_field(external, "library");
    c.external.routine = name_field(external, "routine");
    const bool outside = !c.external.provider.empty();
    if (outside != (kernel == KernelKind::kExternal) || outside != !c.external.routine.empty())
      throw std::invalid_argument(
          "\"external\" must name a library and its routine for kernel \"external\", and nothing otherwise");
    return c;
  });
}

}  // namespace lathe
