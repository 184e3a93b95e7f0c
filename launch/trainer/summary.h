// Summary: what a run has come to, for people (two lines) and programs (JSON).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace launch {

// Losses are means over the ranks. Each field is a key of the JSON file.
struct Summary {
  std::string model;
  int64_t parameters = 0;
  std::string data;
  int world_size = 1;
  std::string backend;
  std::string optimizer;
  int64_t batch_size = 0;
  int64_t steps = 0;            // taken by this run
  int64_t resumed_at_step = 0;  // steps that a checkpoint came with
  int64_t skipped_steps = 0;    // of all, left out as gradients weren't finite
  double loss_first = 0;        // of the first step
  double loss_last = 0;         // of the last step
  double eval_loss = 0;
  std::optional<double> eval_accuracy;      // from 0 to 1; null but for classification
  std::optional<double> eval_perplexity;    // null but for language
  double samples_per_second = 0;            // of all ranks, evaluation left out
  std::optional<double> tokens_per_second;  // the same; null but for language
  double step_seconds_median = 0;
  double train_seconds = 0;               // in steps
  double save_seconds = 0;                // of the training, waiting for checkpoints
  double total_seconds = 0;               // since the launcher started
  double time_to_first_loss_seconds = 0;  // since the launcher started
  double data_share = 0;                  // of train_seconds, waiting for data
  double communication_share = 0;         // of train_seconds, waiting for other ranks
  std::vector<int64_t> peak_rss_bytes;    // by rank
};

std::string FormatSummary(const Summary& summary);
std::string SummaryJson(const Summary& summary);

// One line a loss, in hexadecimal ("0x1.8p+0"), which reads back to the same bits.
std::string LossesText(const std::vector<float>& losses);

}  // namespace launch
