#include "compiler/launch_facts.h"

#include <algorithm>

namespace lathe::emit {
using namespace mlir;

namespace {

StringAttr text(OpBuilder& b, llvm::StringRef s) { return b.getStringAttr(s); }

DictionaryAttr to_attribute(OpBuilder& b, const TensorMap& m) {
  return b.getDictionaryAttr({
      b.getNamedAttr("operand", text(b, m.operand)),
      b.getNamedAttr("dtype", b.getI64IntegerAttr(static_cast<int64_t>(m.dtype))),
      b.getNamedAttr("columns", b.getI64IntegerAttr(static_cast<int64_t>(m.columns))),
      b.getNamedAttr("rows", b.getI64IntegerAttr(static_cast<int64_t>(m.rows))),
      b.getNamedAttr("box", b.getDenseI64ArrayAttr({m.box_columns, m.box_rows})),
      b.getNamedAttr("swizzle", b.getI64IntegerAttr(m.swizzle)),
      b.getNamedAttr("shared_rows", b.getI64IntegerAttr(m.shared_rows)),
  });
}

int64_t integer(DictionaryAttr d, llvm::StringRef name) { return d.getAs<IntegerAttr>(name).getInt(); }

TensorMap tensor_map_of(DictionaryAttr d) {
  TensorMap m;
  m.operand = d.getAs<StringAttr>("operand").str();
  m.dtype = static_cast<DType>(integer(d, "dtype"));
  m.columns = static_cast<Var>(integer(d, "columns"));
  m.rows = static_cast<Var>(integer(d, "rows"));
  ArrayRef<int64_t> box = d.getAs<DenseI64ArrayAttr>("box").asArrayRef();
  m.box_columns = static_cast<int32_t>(box[0]);
  m.box_rows = static_cast<int32_t>(box[1]);
  m.swizzle = static_cast<int32_t>(integer(d, "swizzle"));
  m.shared_rows = static_cast<int32_t>(integer(d, "shared_rows"));
  return m;
}

}  // namespace

void set_launch_facts(ModuleOp module, llvm::StringRef symbol, const LaunchFacts& facts) {
  OpBuilder b(module.getContext());
  SmallVector<Attribute> maps, attributes;
  for (const TensorMap& m : facts.tensor_maps) maps.push_back(to_attribute(b, m));
  for (const std::string& a : facts.attributes) attributes.push_back(text(b, a));
  SmallVector<NamedAttribute> function;
  for (const auto& [name, value] : facts.function_attributes)
    function.push_back(b.getNamedAttr(name, text(b, value)));
  NamedAttrList all(module->getAttrOfType<DictionaryAttr>(kLaunchAttr));
  all.set(symbol, b.getDictionaryAttr({
                      b.getNamedAttr("attributes", b.getArrayAttr(attributes)),
                      b.getNamedAttr("cluster", b.getDenseI64ArrayAttr(facts.cluster)),
                      b.getNamedAttr("function", b.getDictionaryAttr(function)),
                      b.getNamedAttr("ptx", b.getI64IntegerAttr(facts.ptx)),
                      b.getNamedAttr("shared_bytes", b.getI64IntegerAttr(facts.shared_bytes)),
                      b.getNamedAttr("tensor_maps", b.getArrayAttr(maps)),
                  }));
  module->setAttr(kLaunchAttr, all.getDictionary(module.getContext()));
}

LaunchFacts launch_facts(ModuleOp module, llvm::StringRef symbol) {
  LaunchFacts facts;
  auto all = module->getAttrOfType<DictionaryAttr>(kLaunchAttr);
  auto mine = all ? all.getAs<DictionaryAttr>(symbol) : DictionaryAttr();
  if (!mine) return facts;
  facts.shared_bytes = integer(mine, "shared_bytes");
  facts.ptx = integer(mine, "ptx");
  for (auto map : mine.getAs<ArrayAttr>("tensor_maps").getAsRange<DictionaryAttr>())
    facts.tensor_maps.push_back(tensor_map_of(map));
  for (auto a : mine.getAs<ArrayAttr>("attributes").getAsRange<StringAttr>())
    facts.attributes.push_back(a.str());
  facts.cluster.assign(mine.getAs<DenseI64ArrayAttr>("cluster").asArrayRef());
  for (NamedAttribute a : mine.getAs<DictionaryAttr>("function"))
    facts.function_attributes.emplace_back(a.getName().str(), cast<StringAttr>(a.getValue()).str());
  return facts;
}

int64_t least_ptx(ModuleOp module) {
  int64_t least = 0;
  if (auto all = module->getAttrOfType<DictionaryAttr>(kLaunchAttr))
    for (NamedAttribute kernel : all)
      least = std::max(least, launch_facts(module, kernel.getName().getValue()).ptx);
  return least;
}

void complete_recipe(ModuleOp module, Recipe* recipe) {
  for (Step& step : recipe->steps) {
    LaunchFacts facts = launch_facts(module, step.symbol);
    step.tensor_maps = std::move(facts.tensor_maps);
    step.argument_bytes = parameter_bytes(step.tensor_maps.size());
    if (facts.shared_bytes > 0) step.dynamic_shared_memory = constant(facts.shared_bytes);
    step.attributes = std::move(facts.attributes);
    for (size_t i = 0; i < 3; ++i) step.cluster[i] = static_cast<int32_t>(facts.cluster[i]);
  }
}

}  // namespace lathe::emit
