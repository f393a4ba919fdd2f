// Whether this is compiled for ThreadSanitizer, where everything takes many times as long: what
// only repeats the same threads with other data is left to the other suites.
#pragma once

namespace ho::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace ho::test
