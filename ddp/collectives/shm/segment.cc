#include "ddp/collectives/shm/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <sstream>

namespace ddp::shm {
namespace {

constexpr int64_t kPage = 4096;
// Operations whose ranks give no more than this are done with one exchange of slots.
constexpr int64_t kPayloadBytes = 16 << 10;
// Twice this stays in the second-level cache.
constexpr int64_t kStageBytes = 128 << 10;
constexpr int64_t kLargestLetter = 64 << 10;
constexpr int64_t kLettersOfARank = 1 << 20;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Segment::Layout::Layout(int size) {
  // The counts of an uneven all-to-all and two placements fit too.
  const int64_t payload = std::max<int64_t>(kPayloadBytes, 256 + 16 * size);
  slot_bytes = RoundUp(sizeof(Slot) + payload, kCacheLine);
  stage_bytes = RoundUp(std::max(kStageBytes, size * kCacheLine), kPage);
  letter_bytes = RoundUp(sizeof(Letter) + std::clamp(kLettersOfARank / size, kPage, kLargestLetter),
                         kCacheLine);
  mailbox_bytes = sizeof(Mailbox) + kNumLetters * letter_bytes;

  slots = RoundUp(sizeof(Control), kCacheLine);
  stages = RoundUp(slots + kNumSlots * slot_bytes, kPage);
  rank_bytes = stages + 4 * stage_bytes;
  mailboxes = size * rank_bytes;
  num_bytes = RoundUp(kCacheLine + mailboxes + size * size * mailbox_bytes, kPage);
}

std::unique_ptr<Segment> Segment::Create(int size) {
  std::unique_ptr<Segment> segment(new Segment(size));
  SharedMemory memory = CreateMemory(segment->layout_.num_bytes, /*reserve=*/false);
  segment->owner_ = ThisProcess();
  segment->name_ = memory.name;
  segment->file_ = std::move(memory.file);
  segment->mapping_ = std::move(memory.mapping);
  segment->is_shared_ = true;
  new (segment->mapping_.data()) Header();
  return segment;
}

std::string Segment::name() const {
  return fmt::format("{} {} {} {} {} {} {}", owner_.pid, owner_.start_time, name_.device,
                     name_.inode, name_.address, name_.num_bytes, name_.fd);
}

std::unique_ptr<Segment> Segment::Attach(const std::string& name, int size) {
  std::unique_ptr<Segment> segment(new Segment(size));
  std::istringstream fields(name);
  fields >> segment->owner_.pid >> segment->owner_.start_time >> segment->name_.device >>
      segment->name_.inode >> segment->name_.address >> segment->name_.num_bytes >>
      segment->name_.fd;
  if (!fields || segment->name_.num_bytes != segment->layout_.num_bytes) {
    throw std::runtime_error(fmt::format("not the shared memory of {} ranks: \"{}\"", size, name));
  }
  const FileDescriptor file = OpenMemory(segment->owner_, segment->name_);
  if (!file.is_open()) return nullptr;
  if (segment->owner_ != ThisProcess()) {
    segment->mapping_ = Mapping(file.get(), segment->name_.num_bytes);
    return segment;
  }
  // The maker's mapping may be unmapped at any time, until it counts this user.
  const Mapping glance(file.get(), kPage);
  if (!Enter(*reinterpret_cast<Header*>(glance.data()))) return nullptr;
  segment->mapping_ =
      Mapping(reinterpret_cast<std::byte*>(segment->name_.address), segment->name_.num_bytes);
  segment->is_shared_ = true;
  return segment;
}

bool Segment::Enter(Header& header) {
  int32_t num_users = header.num_users.load(std::memory_order_relaxed);
  while (num_users > 0) {
    if (header.num_users.compare_exchange_weak(num_users, num_users + 1,
                                               std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

void Segment::Close(int rank) {
  Control& own = control(rank);
  own.is_closed.store(1, std::memory_order_release);
  for (Counter* const counter : {&own.completed, &own.staged, &own.consumed}) counter->Wake();
  for (uint32_t i = 0; i < kNumSlots; ++i) slot(rank, i).posted.Wake();
  for (int peer = 0; peer < size_; ++peer) control(peer).bell.Wake();
}

Segment::~Segment() {
  const bool others_use_it = is_shared_ && header().num_users.fetch_sub(1) > 1;
  if (others_use_it) mapping_.Release();
}

}  // namespace ddp::shm
