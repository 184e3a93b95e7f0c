#include "launch/agent/error_file.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "ddp/atomic_file.h"
#include "ddp/store/socket.h"

namespace launch {

std::string ErrorFileText(const Verdict& verdict, const std::string& host, int64_t unix_time) {
  nlohmann::ordered_json json = {{"exit_code", verdict.exit_code}, {"reason", verdict.reason}};
  if (verdict.failed_rank) json["failed_rank"] = *verdict.failed_rank;
  json["restarts"] = verdict.restarts;
  json["host"] = host;
  json["time"] = unix_time;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankEnd& end : verdict.ends) {
    nlohmann::ordered_json rank = {{"rank", end.rank}, {"exit_code", ExitCode(end.wait_status)}};
    if (end.report) rank["reason"] = end.report->reason;
    json["ranks"].push_back(std::move(rank));
  }
  // Text of programs need not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void WriteErrorFile(const std::string& path, const Verdict& verdict) {
  ddp::WriteFileAtomically(path, ErrorFileText(verdict, ddp::HostName(), std::time(nullptr)));
}

}  // namespace launch
