// One entry for each name in forwarded.inc: a jump through its slot. The slots start at a stub that asks
// lathe_blas_resolve for the next BLAS' function, so a process that never calls BLAS opens no other library. All
// argument registers stay as they are, because the entries do not know the signatures.
#define FORWARD(name) forward name
        .set    index, 0

#if defined(__x86_64__)
        .macro forward name
        .text
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:  endbr64
        jmp     *slot_\name(%rip)
        .size   \name, . - \name
first_\name:
        endbr64
        pushq   $index
        jmp     resolve
        .section .data.rel.local.forwarded, "aw", @progbits
slot_\name:
        .quad   first_\name
        .set    index, index + 1
        .endm

        .text
        .type   resolve, @function
resolve:                                // the stack: index, return address
        .cfi_startproc
        .cfi_adjust_cfa_offset 8
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        subq    $192, %rsp
        andq    $-16, %rsp
        movups  %xmm0, (%rsp)
        movups  %xmm1, 16(%rsp)
        movups  %xmm2, 32(%rsp)
        movups  %xmm3, 48(%rsp)
        movups  %xmm4, 64(%rsp)
        movups  %xmm5, 80(%rsp)
        movups  %xmm6, 96(%rsp)
        movups  %xmm7, 112(%rsp)
        movq    %rdi, 128(%rsp)
        movq    %rsi, 136(%rsp)
        movq    %rdx, 144(%rsp)
        movq    %rcx, 152(%rsp)
        movq    %r8, 160(%rsp)
        movq    %r9, 168(%rsp)
        movq    %rax, 176(%rsp)         // al: the number of vector registers of a call with variable arguments
        movl    8(%rbp), %edi
        call    lathe_blas_resolve
        movq    %rax, %r11
        movups  (%rsp), %xmm0
        movups  16(%rsp), %xmm1
        movups  32(%rsp), %xmm2
        movups  48(%rsp), %xmm3
        movups  64(%rsp), %xmm4
        movups  80(%rsp), %xmm5
        movups  96(%rsp), %xmm6
        movups  112(%rsp), %xmm7
        movq    128(%rsp), %rdi
        movq    136(%rsp), %rsi
        movq    144(%rsp), %rdx
        movq    152(%rsp), %rcx
        movq    160(%rsp), %r8
        movq    168(%rsp), %r9
        movq    176(%rsp), %rax
        leave
        .cfi_def_cfa %rsp, 16
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
        .cfi_endproc
        .size   resolve, . - resolve

#elif defined(__aarch64__)
        .macro forward name
        .text
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:  hint    #34                     // bti c
        adrp    x16, slot_\name
        ldr     x16, [x16, #:lo12:slot_\name]
        br      x16
        .size   \name, . - \name
first_\name:
        hint    #34
        mov     w17, #index
        b       resolve
        .section .data.rel.local.forwarded, "aw", %progbits
        .p2align 3
slot_\name:
        .quad   first_\name
        .set    index, index + 1
        .endm

        .text
        .type   resolve, %function
resolve:
        .cfi_startproc
        stp     x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov     x29, sp
        stp     q0, q1, [sp, #16]
        stp     q2, q3, [sp, #48]
        stp     q4, q5, [sp, #80]
        stp     q6, q7, [sp, #112]
        stp     x0, x1, [sp, #144]
        stp     x2, x3, [sp, #160]
        stp     x4, x5, [sp, #176]
        stp     x6, x7, [sp, #192]
        str     x8, [sp, #208]
        mov     w0, w17
        bl      lathe_blas_resolve
        mov     x16, x0
        ldp     q0, q1, [sp, #16]
        ldp     q2, q3, [sp, #48]
        ldp     q4, q5, [sp, #80]
        ldp     q6, q7, [sp, #112]
        ldp     x0, x1, [sp, #144]
        ldp     x2, x3, [sp, #160]
        ldp     x4, x5, [sp, #176]
        ldp     x6, x7, [sp, #192]
        ldr     x8, [sp, #208]
        ldp     x29, x30, [sp], #224
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        br      x16
        .cfi_endproc
        .size   resolve, . - resolve
#else
#error "forward.S has no code for this processor"
#endif

        .section .data.rel.local.forwarded, "aw"
        .p2align 3
        .globl  lathe_blas_slots
        .hidden lathe_blas_slots
lathe_blas_slots:

#include "forwarded.inc"

        .section .note.GNU-stack, "", %progbits
