#include "core/plan.h"

#include <algorithm>
#include <iterator>
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

bool KernelConfig::operator==(const KernelConfig& o) const {
  return kernel == o.kernel &&
         std::all_of(std::begin(kConfigFields), std::end(kConfigFields),
                     [&](const ConfigField& f) { return this->*f.member == o.*f.member; });
}

bool CompileConfig::operator==(const CompileConfig& o) const {
  return KernelConfig::operator==(o) && ukernel == o.ukernel && external == o.external;
}

Json to_json(const CompileConfig& c) {
  Json json =
      json_object("kernel", std::string(name_of(c.kernel)), "ukernel",
                  json_object("function", c.ukernel.function, "bitcode", c.ukernel.bitcode, "attributes",
                              c.ukernel.attributes),
                  "external", json_object("library", c.external.provider, "routine", c.external.routine));
  for (const ConfigField& f : kConfigFields) set_fields(&json, f.name, c.*f.member);
  return json;
}

absl::StatusOr<CompileConfig> compile_config_from_json(const Json& j) {
  return read_json("compile config", [&] {
    expect_fields(j, std::size(kConfigFields) + 3);
    CompileConfig c;
    const std::string kernel = text_field(j, "kernel");
    if (!parse(kernel, &c.kernel))
      throw std::invalid_argument(absl::StrCat("no kernel is named \"", kernel, "\""));
    for (const ConfigField& f : kConfigFields)
      c.*f.member = static_cast<int32_t>(int_field(j, f.name, f.least, f.most));
    const Json& ukernel = j.at("ukernel");
    expect_fields(ukernel, 3);
    c.ukernel.function = name_field(ukernel, "function");
    c.ukernel.bitcode = name_field(ukernel, "bitcode");
    c.ukernel.attributes = name_field(ukernel, "attributes");
    const bool named = !c.ukernel.function.empty();
    if (named != (c.kernel == KernelKind::kUkernel) || named != !c.ukernel.bitcode.empty())
      throw std::invalid_argument(
          "\"ukernel\" must name a function and its bitcode for kernel \"ukernel\", and nothing otherwise");
    const Json& external = j.at("external");
    expect_fields(external, 2);
    c.external.provider = name_field(external, "library");
    c.external.routine = name_field(external, "routine");
    const bool outside = !c.external.provider.empty();
    if (outside != (c.kernel == KernelKind::kExternal) || outside != !c.external.routine.empty())
      throw std::invalid_argument(
          "\"external\" must name a library and its routine for kernel \"external\", and nothing otherwise");
    return c;
  });
}

}  // namespace lathe
