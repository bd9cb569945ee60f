# The configuration of lit for these tests. RUN lines are shell commands; %dump runs dump.py.
import os
import shlex

import lit.formats

config.name = "lathe ir"
config.test_format = lit.formats.ShTest()
config.suffixes = [".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["output"]
# The tests check PTX, so no assembler may be used.
config.environment["LATHE_PTXAS"] = ""
config.environment["LATHE_CACHE_DIR"] = ""
config.environment["LATHE_COMPILER_LIBRARY"] = lit_config.params["compiler"]
for name in ("dump", "lathe", "filecheck", "clang"):
    config.substitutions.append(("%" + name, lit_config.params[name]))
