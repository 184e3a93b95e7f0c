#include "launch/agent/group_records.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "ddp/errors.h"

namespace launch {
namespace {

using Json = nlohmann::json;
using std::chrono::steady_clock;
using std::chrono::system_clock;

// Each machine has a monotonic clock of its own: between them times are those of day.
int64_t ToTimeOfDay(TimePoint time) {
  const auto ago = steady_clock::now() - time;
  return (system_clock::now() - ago).time_since_epoch().count();
}

TimePoint FromTimeOfDay(int64_t time) {
  const system_clock::time_point point{system_clock::duration(time)};
  return steady_clock::now() - (system_clock::now() - point);
}

template <class T>
void SetIf(Json* json, const char* name, const std::optional<T>& value) {
  if (value) (*json)[name] = *value;
}

template <class T>
std::optional<T> GetIf(const Json& json, const char* name) {
  return json.contains(name) ? std::optional<T>(json.at(name).get<T>()) : std::nullopt;
}

Json ToJson(const NodeInfo& node) {
  Json json = {{"id", node.id},
               {"host", node.host},
               {"address", node.address},
               {"free_port", node.free_port},
               {"num_ranks", node.num_ranks}};
  SetIf(&json, "node_rank", node.node_rank);
  return json;
}

NodeInfo NodeFrom(const Json& json) {
  return {json.at("id"),        json.at("host"),      json.at("address"),
          json.at("free_port"), json.at("num_ranks"), GetIf<int>(json, "node_rank")};
}

Json ToJson(const RankEnd& end) {
  Json json = {{"rank", end.rank},
               {"wait_status", end.wait_status},
               {"time", ToTimeOfDay(end.time)},
               {"stop_signal", end.stop_signal},
               {"was_killed", end.was_killed}};
  if (end.report) {
    json["report"] = {{"time", ToTimeOfDay(end.report->time)}, {"reason", end.report->reason}};
    SetIf(&json["report"], "lost_peer", end.report->lost_peer);
  }
  return json;
}

RankEnd EndFrom(const Json& json) {
  RankEnd end{json.at("rank"),        json.at("wait_status"), FromTimeOfDay(json.at("time")),
              json.at("stop_signal"), json.at("was_killed"),  std::nullopt};
  if (json.contains("report")) {
    const Json& report = json.at("report");
    end.report = RankReport{FromTimeOfDay(report.at("time")), GetIf<int>(report, "lost_peer"),
                            report.at("reason")};
  }
  return end;
}

Json ToJson(const std::vector<RankEnd>& ends) {
  Json json = Json::array();
  for (const RankEnd& end : ends) json.push_back(ToJson(end));
  return json;
}

std::vector<RankEnd> EndsFrom(const Json& json) {
  std::vector<RankEnd> ends;
  for (const Json& end : json) ends.push_back(EndFrom(end));
  return ends;
}

Json ToJson(const Verdict& verdict) {
  Json json = {{"exit_code", verdict.exit_code},
               {"reason", verdict.reason},
               {"restarts", verdict.restarts},
               {"ends", ToJson(verdict.ends)}};
  SetIf(&json, "failed_rank", verdict.failed_rank);
  return json;
}

Verdict VerdictFrom(const Json& json) {
  return {json.at("exit_code"), json.at("reason"), GetIf<int>(json, "failed_rank"),
          json.at("restarts"), EndsFrom(json.at("ends"))};
}

// What programs print need not be UTF-8.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Read>
auto Parse(const std::string& text, Read read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    throw ddp::CollectiveError(
        fmt::format("an agent of another version, or none, wrote '{}': {}", text, error.what()));
  }
}

}  // namespace

std::string Encode(const NodeInfo& node) { return Text(ToJson(node)); }

std::string Encode(const GroupPlan& plan) {
  Json json = {{"nodes", Json::array()},  {"max_nodes", plan.max_nodes},
               {"restart", plan.restart}, {"store_address", plan.store_address},
               {"run_id", plan.run_id},   {"because", plan.because}};
  for (const NodeInfo& node : plan.nodes) json["nodes"].push_back(ToJson(node));
  if (plan.verdict) json["verdict"] = ToJson(*plan.verdict);
  return Text(json);
}

std::string Encode(const NodeEnd& end) {
  Json json = {{"ends", ToJson(end.report.ends)}, {"has_left", end.has_left}};
  SetIf(&json, "progress", end.report.progress);
  SetIf(&json, "lost", end.lost);
  return Text(json);
}

std::string Encode(const Over& over) {
  return Text({{"reason", over.reason}, {"is_failure", over.is_failure}});
}

NodeInfo DecodeNodeInfo(const std::string& text) { return Parse(text, NodeFrom); }

GroupPlan DecodeGroupPlan(const std::string& text) {
  return Parse(text, [](const Json& json) {
    GroupPlan plan{{},
                   json.at("max_nodes"),
                   json.at("restart"),
                   json.at("store_address"),
                   json.at("run_id"),
                   json.at("because"),
                   std::nullopt};
    for (const Json& node : json.at("nodes")) plan.nodes.push_back(NodeFrom(node));
    if (json.contains("verdict")) plan.verdict = VerdictFrom(json.at("verdict"));
    return plan;
  });
}

NodeEnd DecodeNodeEnd(const std::string& text) {
  return Parse(text, [](const Json& json) {
    return NodeEnd{{EndsFrom(json.at("ends")), GetIf<int64_t>(json, "progress")},
                   json.at("has_left"),
                   GetIf<std::string>(json, "lost")};
  });
}

Over DecodeOver(const std::string& text) {
  return Parse(text, [](const Json& json) {
    return Over{json.at("reason"), json.at("is_failure")};
  });
}

std::optional<Assignment> AssignmentOf(const GroupPlan& plan, int64_t id) {
  std::optional<Assignment> found;
  int num_ranks = 0;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.nodes[i].id == id) {
      found = Assignment{.restart = plan.restart,
                         .node_rank = static_cast<int>(i),
                         .num_nodes = static_cast<int>(plan.nodes.size()),
                         .first_rank = num_ranks,
                         .master_addr = plan.nodes[0].address,
                         .master_port = plan.nodes[0].free_port,
                         .store_address = plan.store_address,
                         .run_id = plan.run_id,
                         .because = plan.because};
    }
    num_ranks += plan.nodes[i].num_ranks;
  }
  if (found) found->world_size = num_ranks;
  return found;
}

}  // namespace launch
