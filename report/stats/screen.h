// The output of `weightfs stats`: on a terminal, in a pipe, and as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/value.h"
#include "report/stats/figures.h"
#include "report/stats/lora.h"
#include "report/text/style.h"

namespace weightfs::stats {

/// The names of the columns, in their order: those of the pipe, of --sort and of the terminal (which leaves out what
/// does not fit).
std::vector<std::string> column_names();

/// Sorts tensors by a column: numbers from the largest on, texts ascending; tensors without figures come last.
void sort_by(std::string_view column, std::vector<TensorFigures>& tensors);

/// Lines for a terminal: the tensors, the layers if there are several, and the total of more than one tensor.
std::vector<std::string> table_lines(std::span<const TensorFigures> tensors, const AllGroups& groups,
                                     const info::Style& style);

/// One tensor in detail: all figures, a histogram of the terminal's width, scales and channels.
std::vector<std::string> detail_lines(const TensorFigures& one, const info::Style& style);

/// The largest channels of each axis of each tensor.
std::vector<std::string> channel_lines(const TensorFigures& one, const info::Style& style);

/// The norm and the singular values of the products of LoRA factors.
std::vector<std::string> lora_lines(const std::vector<LoraFigures>& pairs, const info::Style& style);

/// Lines for a pipe, with tabs: a header, and those of each tensor.
std::string tab_header();
std::string tab_line(const TensorFigures& one);
std::string channel_tab_header();
std::vector<std::string> channel_tab_lines(const TensorFigures& one);

/// The parts of the JSON.
Map tensor_value(const TensorFigures& one);
Map group_value(const GroupFigures& group);
Map lora_value(const LoraFigures& pair);

}  // namespace weightfs::stats
