// FileStore: a store in a file that all ranks can open, on one host or on a shared file system.
//
//   FileStore store("/shared/job-17", {.timeout = 30s});
//
// The file is a log of changes; locks on it (fcntl) make the operations atomic, and tell whether
// anybody uses it. A file that an earlier run left behind is started anew by whoever opens it first
// while nobody else has it open. With a run id, what was set stays as long as the id is the same,
// also after all have closed the file; without one it stays only while somebody has it open.
// Waiting means looking again every few milliseconds: with many ranks a TcpStore is better.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/store/message.h"
#include "ddp/store/socket.h"
#include "ddp/store/store.h"
#include "ddp/store/table.h"

namespace ddp {

struct FileStoreOptions {
  Duration timeout = kDefaultTimeout;
  // What distinguishes this run from others that used the file, such as the job's id.
  std::string run_id = "";
};

class FileStore : public Store {
 public:
  // Creates the file if need be. Throws std::system_error with the path, CollectiveError when
  // another run is using the file or when it is no store's.
  explicit FileStore(const std::string& path, const FileStoreOptions& options = {});

 private:
  void DoSet(const std::string& key, const std::string& value, Duration timeout) override;
  std::string DoGet(const std::string& key, Duration timeout) override;
  int64_t DoAdd(const std::string& key, int64_t amount, Duration timeout) override;
  std::string DoCompareAndSet(const std::string& key, const std::string& expected,
                              const std::string& desired, Duration timeout) override;
  void DoWait(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoCheck(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoDelete(const std::string& key, Duration timeout) override;

  // Calls `operation` while no other process changes the file.
  template <class F>
  auto WithLock(Deadline deadline, F operation);
  // The same with the table up to date.
  template <class F>
  auto WithTable(Deadline deadline, F operation);
  void Start(const std::string& run_id, Deadline deadline);
  std::optional<std::string> ReadRunId() const;
  void CatchUp();
  void Apply(Message record);
  void Append(const Message& record);
  bool WriteAt(int64_t position, std::string_view bytes) const;
  std::string ReadFrom(int64_t position, size_t max_bytes) const;
  [[noreturn]] void ThrowErrno(const char* what) const;

  const std::string path_;
  const FileDescriptor file_;
  std::mutex mutex_;
  // Guarded by mutex_.
  Table table_;
  int64_t position_ = 0;  // the log up to here is in the table
};

}  // namespace ddp
