#include "formats/trees/document.h"

#include <utility>

#include "formats/model.h"

namespace weightfs::trees {

Result<void> skip(Document& document) {
  const Document::Kind kind = TRY(document.kind());
  if (kind == Document::Kind::text) {
    TRY(document.text());
  } else if (kind == Document::Kind::object) {
    TRY_VOID(document.enter());
    while (TRY(document.next_key())) TRY_VOID(skip(document));
  } else if (kind == Document::Kind::array) {
    TRY_VOID(document.enter());
    while (TRY(document.next_element())) TRY_VOID(skip(document));
  } else {
    TRY(document.number());
  }
  return {};
}

Result<std::optional<Run>> read_numbers(Document& document, Element element, RunList& list, Budget& budget) {
  if (TRY(document.kind()) != Document::Kind::array) {
    TRY_VOID(skip(document));
    return std::nullopt;
  }
  TRY_VOID(document.enter());
  const Document::Stored stored = TRY(document.stored_numbers(element));
  RunBuilder run(list, budget, stored.run);
  if (stored.count) {
    run.add_typed(*stored.count);
    return run.finish();
  }
  while (TRY(document.next_element())) {
    const uint64_t place = document.position();
    const Document::Kind kind = TRY(document.kind());
    if (kind == Document::Kind::number || kind == Document::Kind::boolean) {
      const auto number = TRY(document.number());
      TRY_VOID(run.add(number, place));
    } else {
      run.reject();
      TRY_VOID(skip(document));
    }
  }
  return run.finish();
}

Result<Value> MetadataReader::read(Document& document) {
  if (is_full()) {
    ++omitted_;
    TRY_VOID(skip(document));
    return Value();
  }
  ++values_;
  TRY_VOID(budget_.charge(Cost::value));
  const Document::Kind kind = TRY(document.kind());
  if (kind == Document::Kind::object) return read_map(document);
  if (kind == Document::Kind::array) return read_list(document);
  return read_scalar(document, kind);
}

Result<Value> MetadataReader::read_scalar(Document& document, Document::Kind kind) {
  if (kind == Document::Kind::text) {
    std::string text = TRY(document.text());
    TRY_VOID(budget_.charge(Cost::kept, text.size()));
    return Value(std::move(text));
  }
  const auto number = TRY(document.number());
  if (!number) return Value();
  if (kind == Document::Kind::boolean) return Value(number->integer != 0);
  return number->is_integer ? Value(number->integer) : Value(number->real);
}

Result<Value> MetadataReader::read_list(Document& document) {
  List list;
  TRY_VOID(document.enter());
  while (TRY(document.next_element())) {
    if (list.size() < kMaxInlineList && !is_full()) {
      Value value = TRY(read(document));
      list.push_back(std::move(value));
    } else {
      ++omitted_;
      TRY_VOID(skip(document));
    }
  }
  return Value(std::move(list));
}

Result<Value> MetadataReader::read_map(Document& document) {
  Map map;
  TRY_VOID(document.enter());
  while (auto key = TRY(document.next_key())) {
    if (is_full()) {
      ++omitted_;
      TRY_VOID(skip(document));
      continue;
    }
    TRY_VOID(budget_.charge(Cost::value));  // as footprint() counts a key
    TRY_VOID(budget_.charge(Cost::kept, key->size()));
    Value value = TRY(read(document));
    map.append(std::move(*key), std::move(value));
  }
  map.keep_last_of_each_key();
  return Value(std::move(map));
}

}  // namespace weightfs::trees
