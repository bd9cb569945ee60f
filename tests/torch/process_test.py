"""lathe.torch in a process: other copies of LLVM, forks, threads, and a processor without AVX2."""

import os
import subprocess
import sys

import pytest

# Each loads another copy of LLVM and compiles with it.
OTHERS = {
    "numba": """
import numba
assert numba.njit(lambda x: x * 2 + 1)(20) == 41
""",
    "triton": """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
kernels = __import__("tempfile").mkdtemp()
sys.path.insert(0, kernels)
with open(kernels + "/triton_kernel.py", "w") as file:
    file.write("import triton, triton.language as tl\\n@triton.jit\\ndef double(x, n: tl.constexpr):\\n"
               "    i = tl.arange(0, n)\\n    tl.store(x + i, tl.load(x + i) * 2)\\n")
import triton_kernel
source = ASTSource(fn=triton_kernel.double, signature={"x": "*fp32", "n": "constexpr"}, constexprs={(1,): 128})
assert "ld.global" in triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
""",
    "iree": '''
import numpy, iree.compiler, iree.runtime
text = """func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""
binary = iree.compiler.compile_str(text, target_backends=["llvm-cpu"],
                                   extra_args=["--iree-llvmcpu-target-cpu=generic"])
module = iree.runtime.load_vm_flatbuffer(binary, driver="local-sync")
assert module.twice(numpy.ones(4, numpy.float32)).to_host().tolist() == [2, 2, 2, 2]
''',
    "torch": """
import torch
assert torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)).sum() == 24
""",
}
LATHE = """
import numpy, lathe
a, b = numpy.ones((3, {k}), numpy.float32), numpy.ones(({k}, 5), numpy.float32)
before = lathe.statistics()["compiles"]
assert (lathe.matmul(a, b) == {k}).all()
assert lathe.statistics()["compiles"] == before + 1
"""


def run(program, *before, **environment):
    return subprocess.run([*before, sys.executable, "-c", "import sys\n" + program], text=True, capture_output=True,
                          env={**os.environ, **environment}, timeout=300)


@pytest.mark.parametrize("names", [*((name,) for name in OTHERS), tuple(OTHERS)])
def test_other_copies_of_llvm(names, tmp_path):
    """Each is imported, and compiles, before and after Lathe does."""
    others = "".join(OTHERS[name] for name in names)
    for number, program in enumerate([others + LATHE.format(k=31) + others + LATHE.format(k=33),
                                      LATHE.format(k=31) + others + LATHE.format(k=33)]):
        done = run(program, LATHE_CACHE_DIR=str(tmp_path / f"cache{number}"))
        assert done.returncode == 0, done.stderr


def test_a_child_of_a_fork_computes():
    done = run("""
import os, torch, lathe.torch
torch.set_num_threads(2)
lathe.torch.share_threads()
model = lathe.torch.optimize(torch.nn.Linear(512, 1024).requires_grad_(False), m_max=64, progress=False)
x = torch.randn(64, 512)
expected = model(x)
child = os.fork()
if child == 0:
    torch.set_num_threads(1)
    os._exit(0 if torch.equal(model(x), expected) else 1)
assert os.waitpid(child, 0)[1] == 0
assert torch.equal(model(x), expected)
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_of_python_call_at_once():
    done = run("""
import threading, torch, lathe.torch
layer = torch.nn.Linear(256, 512).requires_grad_(False)
inputs = [torch.randn(m, 256) for m in range(1, 9)]
expected = [layer(x) for x in inputs]
fast = lathe.torch.optimize(layer, m_max=8, progress=False)
wrong = []
def work(x, y):
    with torch.inference_mode():
        for _ in range(50):
            if not torch.allclose(fast(x), y, atol=1e-4):
                wrong.append(x.shape)
threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not wrong
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_tasks_run_on_pytorchs_threads():
    """Lathe starts no thread of its own once lathe.torch is imported."""
    done = run("""
import os, torch
torch.set_num_threads(2)
a = torch.randn(600, 600)
a @ a
import lathe, lathe.torch
assert lathe.torch.share_threads()
lathe.matmul(a, a)  # compiles, on threads of its own that may stay
before = len(os.listdir("/proc/self/task"))
for m in range(590, 600):
    torch.testing.assert_close(lathe.matmul(a[:m], a), a[:m] @ a, atol=1e-3, rtol=1e-4)
assert len(os.listdir("/proc/self/task")) == before
torch.set_num_threads(1)  # takes effect at once
torch.testing.assert_close(lathe.matmul(a, a), a @ a, atol=1e-3, rtol=1e-4)
""")
    assert done.returncode == 0, done.stderr


def test_a_processor_without_avx2_is_told_at_import():
    program = "from lathe import _core\n_core.has_avx2 = lambda: {}\nimport lathe.torch"
    assert "RuntimeWarning: this processor has no AVX2" in run(program.format(False)).stderr
    assert run(program.format(True)).stderr == ""
