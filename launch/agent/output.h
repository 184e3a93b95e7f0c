// Output: text on its way to a descriptor of this process whose reader may be slow, or have stopped
// reading. Nothing here waits: the owner polls for room, and stops adding when there is too much.
#pragma once

#include <string>
#include <string_view>

namespace launch {

class Output {
 public:
  // `destination` must stay open. It need not be non-blocking, a property that it would share with
  // every process that uses it.
  explicit Output(int destination) : destination_(destination) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  int destination() const { return destination_; }
  void Add(std::string_view text) { pending_ += text; }
  // Writes as much as there is room for now, pieces of whole lines where lines aren't very long. An
  // error, such as a full disk, loses the text: there is nobody to tell.
  void Write();

  // What to poll for room; -1 when there is nothing to write.
  int fd() const { return pending_.empty() ? -1 : destination_; }
  // Whether to add no more for now.
  bool is_full() const { return pending_.size() > kCapacity; }

 private:
  static constexpr size_t kCapacity = 1 << 20;

  int destination_;
  std::string pending_;
};

}  // namespace launch
