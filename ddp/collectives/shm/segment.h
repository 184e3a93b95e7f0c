// Segment: the memory that the ranks of a group share. The first rank makes it, the others attach;
// it is gone with its last user.
//
// Ranks that are threads of the first rank's process use its very mapping, so that tools that
// follow addresses see what they do to each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ddp/collectives/operation.h"
#include "ddp/collectives/shm/counter.h"
#include "ddp/collectives/shm/memory.h"
#include "ddp/collectives/shm/process.h"

namespace ddp::shm {

inline constexpr int64_t kCacheLine = 64;

// What a rank is about, for all to see. Each rank writes its own.
struct Control {
  // Written while joining, before the rank's first slot.
  Process process;
  std::atomic<uint32_t> has_joined = 0;
  std::atomic<uint32_t> is_closed = 0;

  // Operations that this rank has completed: it reads no slots of theirs any more.
  alignas(kCacheLine) Counter completed;
  // Rounds (collectives.h) whose input this rank has staged, and that it has consumed.
  alignas(kCacheLine) Counter staged;
  alignas(kCacheLine) Counter consumed;
  // Incremented by peers that filled or emptied a mailbox of this rank's.
  alignas(kCacheLine) Counter bell;
};

// What a rank gives its peers at the beginning of an operation. Each rank has kNumSlots of them,
// used in turn: it may be that far ahead of the slowest peer.
struct alignas(kCacheLine) Slot {
  Counter posted;  // number of the operation, plus one
  uint32_t completed = 0;
  uint32_t num_freed = 0;  // regions (regions.h) that this rank has freed
  Call call;
  // A payload of a few bytes travels in the same cache line as the rest.
  std::byte small_payload[16];

  std::byte* payload(int64_t num_bytes) {
    return num_bytes <= int64_t{sizeof(small_payload)} ? small_payload
                                                       : reinterpret_cast<std::byte*>(this + 1);
  }
};
static_assert(sizeof(Slot) == kCacheLine);
inline constexpr uint32_t kNumSlots = 8;

// From one rank to another. Counts letters, of which there is room for kNumLetters.
struct Mailbox {
  alignas(kCacheLine) std::atomic<uint32_t> num_sent = 0;
  alignas(kCacheLine) std::atomic<uint32_t> num_taken = 0;
};
struct alignas(kCacheLine) Letter {
  Call call;  // of the message that it is a part of

  std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
};
inline constexpr uint32_t kNumLetters = 2;

class Segment {
 public:
  // For a group of `size` ranks.
  static std::unique_ptr<Segment> Create(int size);
  // By the name of a peer's segment. Null when it is gone; throws std::system_error.
  static std::unique_ptr<Segment> Attach(const std::string& name, int size);
  ~Segment();

  std::string name() const;
  // `rank` takes no further part; whoever sleeps looks at once.
  void Close(int rank);
  int size() const { return size_; }

  Control& control(int rank) const { return *At<Control>(rank * layout_.rank_bytes); }
  Slot& slot(int rank, uint32_t operation) const {
    return *At<Slot>(rank * layout_.rank_bytes + layout_.slots +
                     operation % kNumSlots * layout_.slot_bytes);
  }
  // Where a rank stages its input and its results of a round; rounds take turns with two places.
  std::byte* input_stage(int rank, uint32_t round) const {
    return At<std::byte>(rank * layout_.rank_bytes + layout_.stages +
                         round % 2 * layout_.stage_bytes);
  }
  std::byte* result_stage(int rank, uint32_t round) const {
    return input_stage(rank, round) + 2 * layout_.stage_bytes;
  }
  Mailbox& mailbox(int from, int to) const {
    return *At<Mailbox>(layout_.mailboxes + (from * size_ + to) * layout_.mailbox_bytes);
  }
  Letter& letter(int from, int to, uint32_t number) const {
    return *At<Letter>(layout_.mailboxes + (from * size_ + to) * layout_.mailbox_bytes +
                       static_cast<int64_t>(sizeof(Mailbox)) +
                       number % kNumLetters * layout_.letter_bytes);
  }

  int64_t payload_bytes() const { return layout_.slot_bytes - static_cast<int64_t>(sizeof(Slot)); }
  int64_t stage_bytes() const { return layout_.stage_bytes; }
  int64_t letter_payload_bytes() const {
    return layout_.letter_bytes - static_cast<int64_t>(sizeof(Letter));
  }

 private:
  // Bytes, and offsets from where the ranks' parts begin.
  struct Layout {
    explicit Layout(int size);

    int64_t slots = 0, slot_bytes = 0;    // in a rank's part
    int64_t stages = 0, stage_bytes = 0;  // in a rank's part
    int64_t rank_bytes = 0;
    int64_t mailboxes = 0, mailbox_bytes = 0, letter_bytes = 0;
    int64_t num_bytes = 0;  // of the whole, with the header
  };
  struct Header {
    // Ranks of the maker's process.
    std::atomic<int32_t> num_users = 1;
  };

  explicit Segment(int size) : size_(size), layout_(size) {}
  Header& header() const { return *reinterpret_cast<Header*>(mapping_.data()); }
  // Counts one more user of the maker's mapping, unless there is none any more.
  static bool Enter(Header& header);

  template <class T>
  T* At(int64_t offset) const {
    return reinterpret_cast<T*>(mapping_.data() + kCacheLine + offset);
  }

  const int size_;
  const Layout layout_;
  Process owner_;
  MemoryName name_;
  FileDescriptor file_;     // the maker's
  bool is_shared_ = false;  // whether the mapping is that of the maker's process
  Mapping mapping_;
};

}  // namespace ddp::shm
