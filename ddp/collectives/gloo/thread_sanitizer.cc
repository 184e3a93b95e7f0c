// What ThreadSanitizer can't know: Gloo is a system library that it doesn't see into.

// A buffer's destructor waits until the reference count says that Gloo's thread has let go of it.
// The count is an atomic inside the library, so to the sanitizer the two threads look unordered:
// where the buffer ends, and where the memory does that it stood for.
extern "C" const char* __tsan_default_suppressions() {
  return "race:gloo::transport::tcp::UnboundBuffer::~UnboundBuffer\n"
         "race:std::default_delete<gloo::transport::UnboundBuffer>\n"
         "race:ddp::CallExchange::Lane::~Lane\n";
}
