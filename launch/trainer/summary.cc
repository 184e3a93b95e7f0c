#include "launch/trainer/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launch/text/text.h"

namespace launch {
std::string FormatSummary(const Summary& summary) {
  const std::string rate = summary.tokens_per_second
                               ? fmt::format("{:.0f} tokens/s", *summary.tokens_per_second)
                               : fmt::format("{:.0f} samples/s", summary.samples_per_second);
  std::string text = fmt::format(
      "done: {} steps in {}, {}, median step {:.3g} ms, data {:.0f}%, comm {:.0f}%\n"
      "loss {:.4f} -> {:.4f}, test loss {:.4f}",
      summary.steps, FormatSeconds(summary.train_seconds), rate, 1e3 * summary.step_seconds_median,
      100 * summary.data_share, 100 * summary.communication_share, summary.loss_first,
      summary.loss_last, summary.eval_loss);
  if (summary.eval_accuracy) {
    text += fmt::format(", test accuracy {:.2f} %", 100 * *summary.eval_accuracy);
  }
  if (summary.eval_perplexity) {
    text += fmt::format(", test perplexity {:.4g}", *summary.eval_perplexity);
  }
  if (summary.skipped_steps > 0) {
    text += fmt::format("\n{} left out, as gradients were not finite",
                        FormatCount(summary.skipped_steps, "step"));
  }
  return text;
}

std::string SummaryJson(const Summary& summary) {
  nlohmann::ordered_json json = {
      {"model", summary.model},
      {"parameters", summary.parameters},
      {"data", summary.data},
      {"world_size", summary.world_size},
      {"backend", summary.backend},
      {"optimizer", summary.optimizer},
      {"batch_size", summary.batch_size},
      {"steps", summary.steps},
      {"resumed_at_step", summary.resumed_at_step},
      {"skipped_steps", summary.skipped_steps},
      {"loss_first", summary.loss_first},
      {"loss_last", summary.loss_last},
      {"eval_loss", summary.eval_loss},
      {"eval_accuracy", nullptr},
      {"eval_perplexity", nullptr},
      {"samples_per_second", summary.samples_per_second},
      {"tokens_per_second", nullptr},
      {"step_seconds_median", summary.step_seconds_median},
      {"train_seconds", summary.train_seconds},
      {"save_seconds", summary.save_seconds},
      {"total_seconds", summary.total_seconds},
      {"time_to_first_loss_seconds", summary.time_to_first_loss_seconds},
      {"data_share", summary.data_share},
      {"communication_share", summary.communication_share},
      {"peak_rss_bytes", summary.peak_rss_bytes},
  };
  if (summary.eval_accuracy) json["eval_accuracy"] = *summary.eval_accuracy;
  if (summary.eval_perplexity) json["eval_perplexity"] = *summary.eval_perplexity;
  if (summary.tokens_per_second) json["tokens_per_second"] = *summary.tokens_per_second;
  return json.dump(2) + "\n";
}

std::string LossesText(const std::vector<float>& losses) {
  std::string text;
  for (const float loss : losses) text += fmt::format("{:a}\n", loss);
  return text;
}

}  // namespace launch
