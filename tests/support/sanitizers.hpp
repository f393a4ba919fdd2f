// Which sanitizer this is compiled for.
#pragma once

namespace ho::test {

// kThreadSanitizer: everything takes many times as long there, and what only repeats the same
// threads with other data is left to the other suites. kSanitized: that one or AddressSanitizer;
// both keep what is freed, so that memory that grows says nothing.
#if defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
inline constexpr bool kSanitized = kThreadSanitizer || __has_feature(address_sanitizer);
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
inline constexpr bool kSanitized = true;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool kThreadSanitizer = false;
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kThreadSanitizer = false;
inline constexpr bool kSanitized = false;
#endif

}  // namespace ho::test
