#include "formats/mapping/tokenizer/post_processor.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace weightfs::mapping {
namespace {

constexpr size_t kMaxAround = 16;  // texts before or after; templates have one or two

using Items = std::span<const Value>;

const Value* field_of(const Value& value, std::string_view name) {
  const auto* const map = std::get_if<Map>(&value);
  return map == nullptr ? nullptr : map->find(name);
}

Items items_of(const Value& value, std::string_view name) {
  const Value* const field = field_of(value, name);
  const auto* const list = field == nullptr ? nullptr : std::get_if<List>(field);
  return list == nullptr ? Items() : Items(*list);
}

std::string_view text_of(const Value* value) {
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string_view() : *text;
}

// The id of an item of a template, {"SpecialToken": {"id": "<s>"}} or {"Sequence": {"id": "A"}}; empty if it is
// another.
std::string_view id_in(const Value& item, std::string_view form) {
  const Value* const object = field_of(item, form);
  return object == nullptr ? std::string_view() : text_of(field_of(*object, "id"));
}
std::string_view special_id(const Value& item) { return id_in(item, "SpecialToken"); }
std::string_view sequence_id(const Value& item) { return id_in(item, "Sequence"); }

// Those of a sequence, or itself.
Items processors_of(const Value& post_processor) {
  return field_of(post_processor, "processors") == nullptr ? Items(&post_processor, 1)
                                                           : items_of(post_processor, "processors");
}

// Follows SpecialVocab step by step: the tokens stand in for each other, and change while a template is read.
class Processor {
 public:
  explicit Processor(PostProcessing& to) : to_(to) {
    bos_ = stated("bos");
    cls_ = stated("cls");
    eos_ = stated("eos");
    sep_ = stated("sep");
    if (!bos_.is_stated && cls_.is_stated) bos_ = set("bos", cls_);
    if (!eos_.is_stated && sep_.is_stated) eos_ = set("eos", sep_);
  }

  void apply(const Value& processor) {
    const std::string_view type = text_of(field_of(processor, "type"));
    if (type == "RobertaProcessing") apply_roberta(processor);
    if (type == "TemplateProcessing") apply_template(items_of(processor, "single"), items_of(processor, "pair"));
  }

 private:
  StatedToken stated(std::string_view type) const {
    const StatedToken* const token = to_.token(type);
    return token == nullptr ? StatedToken() : *token;
  }

  const StatedToken& set(std::string_view type, const StatedToken& token) {
    if (to_.has_config) to_.set_token(type, token);
    return token;
  }

  void apply_roberta(const Value& processor) {
    for (const char* const type : {"bos", "eos", "sep"}) to_.set_added(type, true);
    if (!to_.has_config) return;
    const auto named = [&](std::string_view name, const StatedToken& other) {
      const Items pair = items_of(processor, name);
      return pair.empty() ? other : StatedToken::of(text_of(pair.data()));
    };
    if (!cls_.is_stated) cls_ = set("cls", named("cls", bos_));
    if (!sep_.is_stated) sep_ = set("sep", named("sep", eos_));
  }

  void apply_template(Items single, Items pair) {
    std::string_view first;
    std::string_view last;
    if (single.size() > 1) {
      first = special_id(single.front());
      last = special_id(single.back());
      if (!first.empty()) begin_with(first);
      if (!last.empty()) end_with(last);
    }
    if (!first.empty() && !pair.empty() && special_id(pair.front()) == first) pair = pair.subspan(1);
    if (!last.empty() && !pair.empty() && special_id(pair.back()) == last) pair = pair.first(pair.size() - 1);
    if (pair.size() > 2 && sequence_id(pair.front()) == "A" && sequence_id(pair.back()) == "B")
      separate_by(pair.subspan(1, pair.size() - 2), !last.empty());
  }

  void begin_with(std::string_view first) {
    const StatedToken token = StatedToken::of(first);
    if (!to_.has_config) {
      bos_ = token;
    } else if (!bos_.is(first) && !cls_.is(first)) {
      if (!bos_.is_stated) bos_ = set("bos", token);
      if (!cls_.is_stated) cls_ = set("cls", token);
    }
    to_.set_added("bos", bos_.is(first) || cls_.is(first));
  }

  void end_with(std::string_view last) {
    const StatedToken token = StatedToken::of(last);
    if (to_.has_config && !eos_.is(last)) {
      keep_former_eos();
      set("eos", token);
    }
    if (!eos_.is(last)) eos_ = token;
    to_.set_added("eos", true);
  }

  void keep_former_eos() {
    for (const char* const type : {"eot", "eom"}) {
      if (std::ranges::find(to_.more_types, type) != to_.more_types.end()) continue;
      to_.more_types.emplace_back(type);
      set(type, eos_);
      return;
    }
  }

  void separate_by(Items between, bool has_last) {
    const auto is_separator = [&](const Value& item) {
      const std::string_view id = special_id(item);
      return !id.empty() && (sep_.is(id) || eos_.is(id));
    };
    bool is_added = is_separator(between[0]) && !has_last;
    if (between.size() == 2 && is_separator(between[1])) is_added = true;
    to_.set_added("sep", is_added);
    if (is_added && !sep_.is_stated) set("sep", eos_);
  }

  PostProcessing& to_;
  StatedToken bos_, cls_, eos_, sep_;
};

}  // namespace

StatedToken StatedToken::of(const Value* value) {
  if (value == nullptr) return {};
  if (const auto* const text = std::get_if<std::string>(value)) return of(*text);
  const auto* const object = std::get_if<Map>(value);
  if (object == nullptr || object->empty()) return {};
  return {std::string(text_of(object->find("content"))), true, true};
}

void PostProcessing::set_added(std::string_view type, bool is_added) {
  const auto known = std::ranges::find(added, type, &std::pair<std::string, bool>::first);
  if (known == added.end())
    added.emplace_back(type, is_added);
  else
    known->second = is_added;
}

const StatedToken* PostProcessing::token(std::string_view type) const {
  const auto known = std::ranges::find(tokens, type, &std::pair<std::string, StatedToken>::first);
  return known == tokens.end() ? nullptr : &known->second;
}

void PostProcessing::set_token(std::string_view type, const StatedToken& token) {
  const auto known = std::ranges::find(tokens, type, &std::pair<std::string, StatedToken>::first);
  if (known == tokens.end())
    tokens.emplace_back(type, token);
  else
    known->second = token;
}

TextsAround texts_around(const Value& post_processor) {
  TextsAround out;
  for (const Value& processor : processors_of(post_processor)) {
    if (text_of(field_of(processor, "type")) != "TemplateProcessing") continue;
    bool is_after = false;
    for (const Value& item : items_of(processor, "single")) {
      std::vector<std::string>& texts = is_after ? out.after : out.before;
      if (const std::string_view id = special_id(item); !id.empty() && texts.size() < kMaxAround)
        texts.emplace_back(id);
      is_after = is_after || !sequence_id(item).empty();
    }
    break;
  }
  return out;
}

void apply_post_processor(const Value& post_processor, PostProcessing& to) {
  Processor processor(to);
  for (const Value& each : processors_of(post_processor)) processor.apply(each);
}

}  // namespace weightfs::mapping
