// Which tokens the post-processor of a tokenizer.json adds to a text. It is read as roughly as the converter reads it,
// because a GGUF has no more than three flags for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/values/value.h"

namespace weightfs::mapping {

/// A special token as a file names it: nothing, a text, or an object with its content. An object is never equal to the
/// text of a template, which makes a difference in the converter.
struct StatedToken {
  std::string text = {};
  bool is_stated = false;
  bool is_object = false;

  static StatedToken of(const Value* value);
  static StatedToken of(std::string_view text) { return {std::string(text), !text.empty()}; }
  bool is(std::string_view other) const { return is_stated && !is_object && text == other; }
};

/// The tokens of tokenizer_config.json by their type ("bos"), as the post-processor changes them, and what it adds.
struct PostProcessing {
  /// Sets or changes a flag; it keeps its place.
  void set_added(std::string_view type, bool is_added);
  /// The token of a type; null if tokenizer_config.json has none and none was set.
  const StatedToken* token(std::string_view type) const;
  void set_token(std::string_view type, const StatedToken& token);

  bool has_config = false;  ///< tokenizer_config.json has fields
  std::vector<std::pair<std::string, StatedToken>> tokens = {};
  std::vector<std::pair<std::string, bool>> added = {};
  std::vector<std::string> more_types = {};  ///< "eot", "eom": a former eos
};

/// The special tokens that the first template puts before and after one text.
struct TextsAround {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

TextsAround texts_around(const Value& post_processor);

void apply_post_processor(const Value& post_processor, PostProcessing& to);

}  // namespace weightfs::mapping
