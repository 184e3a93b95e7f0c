#include "ddp/store/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace ddp {
namespace {

using Kind = Message::Kind;

constexpr char kMagic[] = "ddp file store 1";
constexpr size_t kBlockBytes = 64 << 10;
// A last look at a deadline may have to wait for its turn.
constexpr Duration kLockGrace = std::chrono::milliseconds(50);
constexpr Duration kFirstPause = std::chrono::microseconds(100);
constexpr Duration kLongestPause = std::chrono::milliseconds(5);

// Bytes of the file that are locked: one for changes, one shared by all who have it open.
enum LockedByte { kChange = 0, kUse = 1 };

// Locks of an open file description, so that threads with a store each exclude each other too.
bool TryLock(int fd, LockedByte byte, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool IsHeldByOthers(int error) { return error == EAGAIN || error == EACCES || error == EINTR; }

// Whether `bytes` agree with a store's header, as far as they go, up to the run's id. Too few to
// tell are not ours.
bool BeginsLikeHeader(std::string_view bytes) {
  constexpr size_t kRecordSizeBytes = 4;  // which depend on the id
  if (bytes.size() <= kRecordSizeBytes) return false;
  const std::string whole = Encode({.strings = {kMagic, ""}});
  const size_t end = std::min(bytes.size(), whole.size() - kRecordSizeBytes);
  return bytes.substr(kRecordSizeBytes, end - kRecordSizeBytes) ==
         std::string_view(whole).substr(kRecordSizeBytes, end - kRecordSizeBytes);
}

class ScopedUnlock {
 public:
  explicit ScopedUnlock(int fd) : fd_(fd) {}
  ~ScopedUnlock() { TryLock(fd_, kChange, F_UNLCK); }
  ScopedUnlock(const ScopedUnlock&) = delete;
  ScopedUnlock& operator=(const ScopedUnlock&) = delete;

 private:
  const int fd_;
};

// Sleeps a little longer each time, never beyond a deadline.
class Pause {
 public:
  void Sleep(Deadline deadline) {
    std::this_thread::sleep_for(std::min(next_, TimeLeft(deadline)));
    next_ = std::min(2 * next_, kLongestPause);
  }

 private:
  Duration next_ = kFirstPause;
};

}  // namespace

template <class F>
auto FileStore::WithLock(Deadline deadline, F operation) {
  std::lock_guard lock(mutex_);
  for (Pause pause; !TryLock(file_.get(), kChange, F_WRLCK); pause.Sleep(deadline)) {
    if (!IsHeldByOthers(errno)) ThrowErrno("can't lock");
    if (TimeLeft(deadline + kLockGrace) == Duration::zero()) {
      throw TimeoutError(fmt::format("store file {} stayed locked by another process", path_));
    }
  }
  ScopedUnlock unlock(file_.get());
  return operation();
}

template <class F>
auto FileStore::WithTable(Deadline deadline, F operation) {
  return WithLock(deadline, [&] {
    CatchUp();
    return operation();
  });
}

FileStore::FileStore(const std::string& path, const FileStoreOptions& options)
    : Store(options.timeout),
      path_(path),
      file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (!file_.is_open()) ThrowErrno("can't open");
  Start(options.run_id, DeadlineAfter(timeout()));
}

// Decides under the lock whether the file is this run's or a left-over.
void FileStore::Start(const std::string& run_id, Deadline deadline) {
  WithLock(deadline, [&] {
    const bool alone = TryLock(file_.get(), kUse, F_WRLCK);
    const std::optional<std::string> previous_run = ReadRunId();
    const bool same_run = previous_run == run_id;
    if (!alone && !same_run) {
      throw CollectiveError(fmt::format("{} is in use by run '{}', this is run '{}'", path_,
                                        previous_run.value_or(""), run_id));
    }
    if (alone && (!same_run || run_id.empty())) {
      Append({.strings = {kMagic, run_id}});
    }
    if (!TryLock(file_.get(), kUse, F_RDLCK)) ThrowErrno("can't lock");
  });
}

// The id in the file's header; nothing when the file is empty, or its maker was killed before the
// header was whole.
std::optional<std::string> FileStore::ReadRunId() const {
  const std::string bytes = ReadFrom(0, kBlockBytes);
  if (bytes.empty()) return std::nullopt;
  Message header;
  try {
    const size_t size = Decode(bytes, &header);
    if (size == 0 && BeginsLikeHeader(bytes)) return std::nullopt;
    if (size > 0 && header.strings.size() == 2 && header.strings[0] == kMagic) {
      return header.strings[1];
    }
  } catch (const MalformedMessage&) {
  }
  throw CollectiveError(fmt::format("{} is not a store's file; choose another path", path_));
}

void FileStore::DoSet(const std::string& key, const std::string& value, Duration timeout) {
  WithTable(DeadlineAfter(timeout), [&] { Append({.kind = Kind::kSet, .strings = {key, value}}); });
}

std::string FileStore::DoGet(const std::string& key, Duration timeout) {
  const Deadline deadline = DeadlineAfter(timeout);
  for (Pause pause;; pause.Sleep(deadline)) {
    const bool last_look = TimeLeft(deadline) == Duration::zero();
    std::optional<std::string> value;
    WithTable(deadline, [&] {
      if (const std::string* found = table_.Find(key)) value = *found;
    });
    if (value) return *std::move(value);
    if (last_look) ThrowMissingKeys({key}, timeout);
  }
}

int64_t FileStore::DoAdd(const std::string& key, int64_t amount, Duration timeout) {
  return WithTable(DeadlineAfter(timeout), [&] {
    const int64_t sum = table_.Add(key, amount);
    Append({.kind = Kind::kSet, .strings = {key, std::to_string(sum)}});
    return sum;
  });
}

std::string FileStore::DoCompareAndSet(const std::string& key, const std::string& expected,
                                       const std::string& desired, Duration timeout) {
  return WithTable(DeadlineAfter(timeout), [&] {
    const std::string value = table_.CompareAndSet(key, expected, desired);
    if (value == desired) Append({.kind = Kind::kSet, .strings = {key, value}});
    return value;
  });
}

void FileStore::DoWait(const std::vector<std::string>& keys, Duration timeout) {
  const Deadline deadline = DeadlineAfter(timeout);
  for (Pause pause;; pause.Sleep(deadline)) {
    const bool last_look = TimeLeft(deadline) == Duration::zero();
    const auto missing = WithTable(deadline, [&] { return table_.Missing(keys); });
    if (missing.empty()) return;
    if (last_look) ThrowMissingKeys(missing, timeout);
  }
}

bool FileStore::DoCheck(const std::vector<std::string>& keys, Duration timeout) {
  return WithTable(DeadlineAfter(timeout), [&] { return table_.HasAll(keys); });
}

bool FileStore::DoDelete(const std::string& key, Duration timeout) {
  return WithTable(DeadlineAfter(timeout), [&] {
    const bool found = table_.Find(key) != nullptr;
    if (found) Append({.kind = Kind::kDelete, .strings = {key}});
    return found;
  });
}

// Takes in what others have appended.
void FileStore::CatchUp() {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) ThrowErrno("can't look at");
  if (status.st_size <= position_) return;
  const std::string bytes = ReadFrom(position_, status.st_size - position_);
  size_t used = 0;
  Message record;
  while (const size_t size = Decode(std::string_view(bytes).substr(used), &record)) {
    Apply(std::move(record));
    used += size;
  }
  position_ += static_cast<int64_t>(used);
}

void FileStore::Apply(Message record) {
  if (record.kind == Kind::kSet && record.strings.size() == 2) {
    table_.Set(record.strings[0], std::move(record.strings[1]));
  } else if (record.kind == Kind::kDelete && record.strings.size() == 1) {
    table_.Delete(record.strings[0]);
  }
}

// What follows position_ is half a record of a process that was killed while it wrote, or an
// earlier run's: it goes.
void FileStore::Append(const Message& record) {
  const std::string bytes = Encode(record);
  const bool written = ftruncate(file_.get(), position_) == 0 && WriteAt(position_, bytes);
  if (!written) {
    const int error = errno;
    // The table may be ahead of the file now: the next operation reads it again.
    table_.Clear();
    position_ = 0;
    ThrowSystemError(error, fmt::format("can't write store file {}", path_));
  }
  position_ += static_cast<int64_t>(bytes.size());
  Apply(record);
}

bool FileStore::WriteAt(int64_t position, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t size = pwrite(file_.get(), bytes.data(), bytes.size(), position);
    if (size < 0 && errno != EINTR) return false;
    if (size <= 0) continue;
    bytes.remove_prefix(size);
    position += size;
  }
  return true;
}

std::string FileStore::ReadFrom(int64_t position, size_t max_bytes) const {
  std::string bytes(max_bytes, '\0');
  size_t num_bytes = 0;
  while (num_bytes < max_bytes) {
    const ssize_t size = pread(file_.get(), bytes.data() + num_bytes, max_bytes - num_bytes,
                               position + static_cast<int64_t>(num_bytes));
    if (size < 0 && errno != EINTR) ThrowErrno("can't read");
    if (size == 0) break;
    if (size > 0) num_bytes += size;
  }
  bytes.resize(num_bytes);
  return bytes;
}

void FileStore::ThrowErrno(const char* what) const {
  ThrowSystemError(errno, fmt::format("{} store file {}", what, path_));
}

}  // namespace ddp
