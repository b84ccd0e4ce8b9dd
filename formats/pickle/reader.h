// The machine that reads pickles: it has a stack and a memo, as the unpickler has, but its objects are nodes of a
// Pickle.
#pragma once

#include <fmt/core.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/pickle/pickle.h"

namespace weightfs::pickle {

class PickleReader {
 public:
  PickleReader(Cursor& in, Budget& budget, const InlineData* inline_data)
      : in_(in), budget_(budget), inline_data_(inline_data), out_(budget) {}

  Result<Pickle> read() &&;
  Result<Imports> imports() &&;

 private:
  using Node = Pickle::Node;

  // What each of nested pickles has.
  struct Machine {
    std::vector<Index> stack;
    std::vector<size_t> marks;  // sizes of the stack
    Arena<Index> memo;          // slots 0, 1, 2, …
    std::map<uint64_t, Index> other_slots;
    uint64_t frame_end = 0;
  };

  static Node text_node(Kind kind, Place place);
  Result<Index> run();
  Result<void> add_reconstructed();
  Result<void> charge_input();

  // One function for each group of opcodes; whether it knows the opcode.
  Result<bool> constant(uint8_t op);
  Result<bool> number(uint8_t op);
  Result<bool> text(uint8_t op);
  Result<bool> container(uint8_t op);
  Result<bool> filling(uint8_t op);
  Result<bool> stack_or_memo(uint8_t op);
  Result<bool> memo_line(uint8_t op);
  Result<bool> object(uint8_t op);
  Result<bool> object_line(uint8_t op);
  Result<void> step(uint8_t op);

  Result<Index> add(Node node);
  Result<bool> push(Index value);
  Result<bool> push_new(Node node);
  Result<bool> push_integer(int64_t n) { return push_new({.kind = Kind::integer, .number = static_cast<uint64_t>(n)}); }
  Result<bool> push_long(uint64_t size);
  Result<bool> push_decimal(std::string_view digits);
  Result<bool> push_text(Kind kind, uint64_t size);
  Result<bool> push_line(Spelling spelling);
  Result<bool> push_kept(Kind kind, std::string_view bytes, Place place = {});
  Result<bool> push_global(std::string_view module, std::string_view name);
  Result<bool> push_call(Index callable, Index arguments);
  Result<bool> push_persistent(Index identifier);
  Result<bool> push_memo(uint64_t slot);
  Result<bool> push_filled(Kind kind, size_t begin);

  Result<const char*> keep(std::string_view bytes);
  Result<std::string> line();
  Result<Index> pop();
  Result<Index> top() const;
  Result<size_t> pop_mark();
  Result<bool> store(uint64_t slot);
  Result<void> append_item(Index container, Index value);
  Result<bool> fill(Index target, Kind with, size_t begin);
  Result<Index> filled(Index target, Kind with);
  Result<bool> build(Index target, Index state);
  Result<void> add_inline(Index object);
  Result<Index> inline_bytes(const Inline& data);
  Result<Index> inline_pickle();
  Result<Index> pair(Index first, Index second);
  std::string_view name_part(Index value) const;

  Error wrong(std::string_view what) const {
    return Error{Code::corrupt, fmt::format("pickle: {} at byte {}", what, in_.position())};
  }
  tl::unexpected<Error> fail(std::string_view what) const { return tl::unexpected(wrong(what)); }

  Cursor& in_;
  Budget& budget_;
  const InlineData* inline_data_;
  Pickle out_;
  Machine machine_;
  int depth_ = 0;          // of nested pickles
  uint64_t begin_ = 0;     // of the outermost one
  uint64_t left_out_ = 0;  // bytes that are not kept
  uint64_t lacks_ = 0;     // as Imports::lacks
  uint64_t charged_ = 0;
  size_t stack_charged_ = 0;
  std::map<std::string, Index, std::less<>> globals_;  // the number of each name
  char* text_place_ = nullptr;                         // the first free byte of the last block of texts
  size_t text_left_ = 0;
};

}  // namespace weightfs::pickle
