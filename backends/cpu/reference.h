/* First in every file of cpu:reference: products and sums are rounded one by one, as written. */
#ifndef CPU_REFERENCE_H
#define CPU_REFERENCE_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include "run.h"

#endif
