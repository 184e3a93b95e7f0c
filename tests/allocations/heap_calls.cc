#include "tests/allocations/heap_calls.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <new>
#include <string_view>

// glibc's own names for what is replaced below.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace allocations {
namespace {

// Where the calls came from. They are looked up only when somebody asks: that needs the heap.
constexpr int64_t kMaxCalls = 1 << 16;
std::atomic<bool> counting = false;
std::atomic<int64_t> num_calls = 0;
void* callers[kMaxCalls];

void Note(void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  const int64_t index = num_calls.fetch_add(1, std::memory_order_relaxed);
  if (index < kMaxCalls) callers[index] = caller;
}

int64_t NumNoted() { return std::min<int64_t>(num_calls, kMaxCalls); }

std::string_view FileOf(void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0) return "unknown";
  const std::string_view path = info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

bool IsLoadedLibrary(std::string_view file) {
  return file.starts_with("libdnnl") || file.starts_with("libopenblas") ||
         file.starts_with("libgomp");
}

ptrdiff_t OffsetOf(void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0) return 0;
  return static_cast<char*>(caller) - static_cast<char*>(info.dli_fbase);
}

}  // namespace

HeapCalls::HeapCalls() {
  num_calls = 0;
  counting = true;
}

HeapCalls::~HeapCalls() { counting = false; }

int64_t HeapCalls::ours() const {
  const bool was_counting = counting.exchange(false);
  int64_t count = num_calls - NumNoted();
  for (int64_t i = 0; i < NumNoted(); ++i) count += !IsLoadedLibrary(FileOf(callers[i]));
  counting = was_counting;
  return count;
}

std::string HeapCalls::Describe() const {
  const bool was_counting = counting.exchange(false);
  std::map<std::string, int64_t> counts;
  for (int64_t i = 0; i < NumNoted(); ++i) {
    const std::string_view file = FileOf(callers[i]);
    const std::string place = IsLoadedLibrary(file)
                                  ? std::string(file)
                                  : fmt::format("{}+{:#x}", file, OffsetOf(callers[i]));
    ++counts[place];
  }
  std::string text;
  for (const auto& [place, count] : counts) text += fmt::format("{} {}\n", place, count);
  counting = was_counting;
  return text;
}

namespace {

void* NewOrThrow(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace
}  // namespace allocations

using allocations::Note;

extern "C" {

void* malloc(size_t size) {
  Note(__builtin_return_address(0));
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  Note(__builtin_return_address(0));
  return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  Note(__builtin_return_address(0));
  return __libc_realloc(block, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  Note(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  Note(__builtin_return_address(0));
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"

// Libraries use these too: the linker lets a program's own come first.
void* operator new(size_t size) {
  Note(__builtin_return_address(0));
  return allocations::NewOrThrow(__libc_malloc(size));
}

void* operator new[](size_t size) {
  Note(__builtin_return_address(0));
  return allocations::NewOrThrow(__libc_malloc(size));
}

void* operator new(size_t size, std::align_val_t alignment) {
  Note(__builtin_return_address(0));
  return allocations::NewOrThrow(__libc_memalign(static_cast<size_t>(alignment), size));
}

void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
