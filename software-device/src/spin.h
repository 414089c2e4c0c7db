// A moment's rest in a loop that looks at something again and again.
#pragma once

namespace softdev {

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace softdev
