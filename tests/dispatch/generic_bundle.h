// The fallback bundle for tests with a fake device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cache/bundle.h"
#include "core/generic.h"
#include "core/json.h"
#include "core/key.h"
#include "kernels/candidates_generic.h"

namespace lathe {

// A bundle with all generic kernels. Their code is the text "generic".
inline std::string generic_bundle_bytes(const std::string& codegen = std::string(codegen_id())) {
  std::vector<std::pair<std::string, std::string>> artifacts;
  for (const Target& target : generic_targets())
    for (const ProblemClass& c : generic_classes(target)) {
      Artifact a;
      a.format = target.backend == Backend::kCuda   ? CodeFormat::kPtx
                 : target.backend == Backend::kRocm ? CodeFormat::kHsaco
                                                    : CodeFormat::kElfObject;
      a.code = "generic";
      Step step;
      step.symbol = "generic";
      step.grid = {product(1, {{Var::kM, 4}}), product(1, {{Var::kN, 4}}), constant(1)};
      a.recipe.steps.push_back(step);
      a.recipe.workspace_bytes = product(4, {{Var::kM, 1}, {Var::kN, 1}});
      artifacts.emplace_back(key_of(c, plan_generic(c, target), target, codegen_id()).text, serialize(a));
    }
  return make_bundle(canonical_text({{"kind", "fallback"}, {"codegen", codegen}}), artifacts);
}

}  // namespace lathe
