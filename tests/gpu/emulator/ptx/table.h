// The table of decode functions: X(name, function), one row per instruction name.
#pragma once

#include "tests/gpu/emulator/ptx/decoder.h"

// clang-format off
#define LATHE_PTX_INSTRUCTIONS(X) \
  X(add, decode_add) \
  X(addc, decode_addc) \
  X(sub, decode_sub) \
  X(subc, decode_subc) \
  X(mul, decode_mul) \
  X(mad, decode_mad) \
  X(div, decode_div) \
  X(rem, decode_rem) \
  X(min, decode_min) \
  X(max, decode_max) \
  X(abs, decode_abs) \
  X(neg, decode_neg) \
  X(sad, decode_sad) \
  X(popc, decode_popc) \
  X(clz, decode_clz) \
  X(bfind, decode_bfind) \
  X(dp4a, decode_dp4a) \
  X(fma, decode_fma) \
  X(sqrt, decode_sqrt) \
  X(rsqrt, decode_rsqrt) \
  X(rcp, decode_rcp) \
  X(sin, decode_sin) \
  X(cos, decode_cos) \
  X(lg2, decode_lg2) \
  X(ex2, decode_ex2) \
  X(tanh, decode_tanh) \
  X(testp, decode_testp) \
  X(copysign, decode_copysign) \
  X(mov, decode_mov) \
  X(and, decode_and) \
  X(or, decode_or) \
  X(xor, decode_xor) \
  X(not, decode_not) \
  X(cnot, decode_cnot) \
  X(brev, decode_brev) \
  X(lop3, decode_lop3) \
  X(shl, decode_shl) \
  X(shr, decode_shr) \
  X(shf, decode_shf) \
  X(prmt, decode_prmt) \
  X(bfe, decode_bfe) \
  X(bfi, decode_bfi) \
  X(bmsk, decode_bmsk) \
  X(szext, decode_szext) \
  X(selp, decode_selp) \
  X(slct, decode_slct) \
  X(setp, decode_setp) \
  X(set, decode_set) \
  X(cvt, decode_cvt) \
  X(ld, decode_ld) \
  X(ldu, decode_ld) \
  X(st, decode_st) \
  X(cvta, decode_cvta) \
  X(isspacep, decode_isspacep) \
  X(mapa, decode_mapa) \
  X(getctarank, decode_getctarank) \
  X(atom, decode_atom) \
  X(red, decode_red) \
  X(bra, decode_bra) \
  X(brx, decode_brx) \
  X(ret, decode_exit) \
  X(exit, decode_exit) \
  X(trap, decode_trap) \
  X(bar, decode_bar) \
  X(barrier, decode_bar) \
  X(membar, decode_fence) \
  X(fence, decode_fence) \
  X(nanosleep, decode_nanosleep) \
  X(griddepcontrol, decode_griddepcontrol) \
  X(setmaxnreg, decode_setmaxnreg) \
  X(prefetch, decode_nothing) \
  X(prefetchu, decode_nothing) \
  X(discard, decode_nothing) \
  X(applypriority, decode_nothing) \
  X(pmevent, decode_nothing) \
  X(createpolicy, decode_createpolicy) \
  X(shfl, decode_shfl) \
  X(vote, decode_vote) \
  X(match, decode_match) \
  X(redux, decode_redux) \
  X(elect, decode_elect) \
  X(activemask, decode_activemask) \
  X(mma, decode_mma) \
  X(ldmatrix, decode_ldmatrix) \
  X(stmatrix, decode_stmatrix) \
  X(movmatrix, decode_movmatrix) \
  X(mbarrier, decode_mbarrier) \
  X(cp, decode_cp) \
  X(wgmma, decode_wgmma) \
  X(tcgen05, decode_tcgen05)
// clang-format on

namespace lathe::ptx {

#define LATHE_PTX_DECLARE(name, function) void function(Decoder& d);
LATHE_PTX_INSTRUCTIONS(LATHE_PTX_DECLARE)
#undef LATHE_PTX_DECLARE

// The forms of st and red that signal an mbarrier.
void decode_st_async(Decoder& d);
void decode_red_async(Decoder& d);

}  // namespace lathe::ptx
