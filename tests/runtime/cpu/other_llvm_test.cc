// Linking must work if another LLVM of the same version was loaded first, with its symbols visible to
// everyone.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "../test_kernels.h"
#include "core/args.h"
#include "runtime/cpu/object_loader.h"

namespace lathe {
namespace {

TEST(OtherLlvm, LinkingWorksBesideAnotherLlvm) {
  void* llvm = dlopen(LATHE_OTHER_LLVM, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(llvm, nullptr) << dlerror();
  ObjectLoader loader;
  auto linked = loader.link(read_test_object("relocations"), {"relocations"});
  ASSERT_TRUE(linked.ok()) << linked.status();
  float out = 0;
  ArgumentBlock args;
  args.d = &out;
  reinterpret_cast<CpuTask>((*linked)[0])(&args, 0);
  EXPECT_EQ(out, 42.0f);
}

}  // namespace
}  // namespace lathe
