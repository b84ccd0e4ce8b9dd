#include "formats/pytorch/pickle_reader.h"

#include <fmt/core.h>

#include <cstring>

#include "base/text.h"
#include "formats/pytorch/pickle_text.h"

namespace weightfs::pytorch {
namespace {

// Bytes of text that are allocated at once.
constexpr size_t kTextBlock = 4 << 10;

// The maximum length of a line: of a name, or of a number or text of protocol 0.
constexpr size_t kMaxLine = 32 << 10;

// Names of globals are kept in the model. Whole modules have some hundreds.
constexpr size_t kMaxGlobals = 10'000;

// The longest integer that is read, in bytes.
constexpr uint64_t kMaxInteger = 255;

// Bytes of input that are charged at once.
constexpr uint64_t kInputBlock = 4096;

}  // namespace

Result<Pickle> PickleReader::read() && {
  const uint64_t begin = in_.position();
  uint64_t charged = 0;
  while (true) {
    const uint64_t done = in_.position() - begin;
    if (done > kMaxPickleSize)
      return failure(Code::unsupported, fmt::format("pickle: more than {} bytes", kMaxPickleSize));
    for (; charged <= done; charged += kInputBlock) TRY_VOID(budget_.charge(Cost::input, kInputBlock));
    const auto op = in_.number<uint8_t>();
    if (!op && is_about_the_bytes(op.error())) return fail("no STOP: the file was cut");
    if (!op) return tl::unexpected(op.error());
    if (*op == '.') break;
    TRY_VOID(step(*op));
  }
  if (!marks_.empty()) return fail("STOP after an open MARK");
  out_.root_ = TRY(pop());
  return std::move(out_);
}

Result<Index> PickleReader::add(Node node) {
  if (out_.nodes_.size() >= kNoValue) return failure(Code::unsupported, "pickle: more than 2^32 values");
  TRY_VOID(out_.nodes_.push(node, out_.charges_));
  return static_cast<Index>(out_.nodes_.size() - 1);
}

Result<bool> PickleReader::push(Index value) {
  constexpr size_t kBlock = 1024;
  constexpr size_t kGrowth = 3;  // a vector that grows exists twice, once with twice its size
  if (stack_.size() == stack_charged_) {
    TRY_VOID(out_.charges_.charge(Cost::kept, kBlock * kGrowth * sizeof(Index)));
    stack_charged_ += kBlock;
  }
  stack_.push_back(value);
  return true;
}

Result<bool> PickleReader::push_new(Node node) { return push(TRY(add(node))); }

// A little-endian integer in two's complement.
Result<bool> PickleReader::push_long(uint64_t size) {
  if (size > INT32_MAX) return fail("an integer of negative length");
  if (size > kMaxInteger)
    return failure(Code::unsupported,
                   fmt::format("pickle: an integer of {} bytes, at most {} are read", size, kMaxInteger));
  return push_decimal(decimal(TRY(in_.text(size))));
}

Result<bool> PickleReader::push_decimal(std::string_view digits) {
  if (digits.ends_with('L')) digits.remove_suffix(1);
  if (const auto n = parse_integer(digits)) return push_integer(*n);
  if (!is_decimal(digits)) return fail("not a valid integer");
  return push_kept(Kind::big_integer, digits);
}

Result<bool> PickleReader::push_text(Kind kind, uint64_t size) {
  if (size > in_.left()) return fail(fmt::format("a text of {} bytes, {} are left,", size, in_.left()));
  if (size <= kMaxText) return push_kept(kind, TRY(in_.text(size)));
  TRY_VOID(in_.skip(size));
  return push_new({.kind = kind, .number = size});
}

Result<bool> PickleReader::push_kept(Kind kind, std::string_view bytes) {
  const char* const kept = TRY(keep(bytes));
  return push_new({.kind = kind, .number = bytes.size(), .text = kept});
}

// Short texts share a block.
Result<const char*> PickleReader::keep(std::string_view bytes) {
  if (bytes.size() > text_left_ || text_place_ == nullptr) {
    const size_t block = std::max(bytes.size(), kTextBlock);
    TRY_VOID(out_.charges_.charge(Cost::kept, block));
    out_.texts_.push_back(std::make_unique_for_overwrite<char[]>(block));
    text_place_ = out_.texts_.back().get();
    text_left_ = block;
  }
  const char* const place = text_place_;
  if (!bytes.empty()) std::memcpy(text_place_, bytes.data(), bytes.size());
  text_place_ += bytes.size();
  text_left_ -= bytes.size();
  return place;
}

Result<std::string> PickleReader::line() {
  std::string line;
  while (true) {
    const char c = static_cast<char>(TRY(in_.number<uint8_t>()));
    if (c == '\n') return line;
    if (line.size() == kMaxLine) return fail(fmt::format("a line of more than {} bytes", kMaxLine));
    line += c;
  }
}

Result<Index> PickleReader::top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return fail("a value is missing on the stack");
  return stack_.back();
}

Result<Index> PickleReader::pop() {
  const Index value = TRY(top());
  stack_.pop_back();
  return value;
}

// Where the values above the last mark begin. The caller removes them.
Result<size_t> PickleReader::pop_mark() {
  if (marks_.empty()) return fail("no MARK on the stack");
  const size_t begin = marks_.back();
  marks_.pop_back();
  return begin;
}

// Replaces the values of the stack from `begin` on by a container of them.
Result<bool> PickleReader::push_filled(Kind kind, size_t begin) {
  const Index made = TRY(add({.kind = kind}));
  TRY_VOID(fill(made, kind, begin));
  return push(made);
}

// Moves the values of the stack from `begin` on into `target`, as items of a container of the kind `with`.
Result<bool> PickleReader::fill(Index target, Kind with, size_t begin) {
  if (with == Kind::dict && (stack_.size() - begin) % 2 != 0) return fail("a key without a value");
  const Index container = TRY(filled(target, with));
  for (size_t i = begin; i < stack_.size(); ++i) TRY_VOID(append_item(container, stack_[i]));
  stack_.resize(begin);
  return true;
}

// The container that gets items of `target`: itself, or that of an object which a call creates.
Result<Index> PickleReader::filled(Index target, Kind with) {
  if (out_.kind(target) == with) return target;
  if (out_.kind(target) != Kind::call) return fail("items for a value that has none");
  const bool pairs = with == Kind::dict;
  const Call call = out_.call(target);
  if (const Index made = pairs ? call.dict : call.list; made != kNoValue) return made;
  const Index made = TRY(add({.kind = pairs ? Kind::dict : Kind::list}));
  const uint64_t list = pairs ? call.list : made;
  const uint64_t dict = pairs ? made : call.dict;
  out_.nodes_[target].number = dict << 32 | list;
  return made;
}

Result<void> PickleReader::append_item(Index container, Index value) {
  TRY_VOID(out_.items_.push({value, kNoValue}, out_.charges_));
  const auto item = static_cast<Index>(out_.items_.size() - 1);
  Node& node = out_.nodes_[container];
  if (node.c++ == 0)
    node.a = item;
  else
    out_.items_[node.b].next = item;
  node.b = item;
  return {};
}

// Slots are used in order, as a rule. No memory is allocated for a slot that is skipped.
Result<bool> PickleReader::store(uint64_t slot) {
  constexpr uint64_t kMapEntry = 64;
  const Index value = TRY(top());
  if (slot < memo_.size()) return memo_[slot] = value, true;
  if (slot == memo_.size() && !other_slots_.contains(slot))
    return memo_.push(value, out_.charges_).map([] { return true; });
  TRY_VOID(out_.charges_.charge(Cost::kept, kMapEntry));
  other_slots_.insert_or_assign(slot, value);
  return true;
}

Result<bool> PickleReader::push_memo(uint64_t slot) {
  if (slot < memo_.size()) return push(memo_[slot]);
  const auto other = other_slots_.find(slot);
  if (other == other_slots_.end()) return fail(fmt::format("slot {} of the memo is not set", slot));
  return push(other->second);
}

Result<bool> PickleReader::push_persistent(Index identifier) {
  const Index made = TRY(add({.kind = Kind::persistent, .a = identifier}));
  TRY_VOID(out_.charges_.charge(Cost::kept, 3 * sizeof(Index)));
  out_.persistent_.push_back(made);
  return push(made);
}

// A module or a name that unpickling computes.
std::string_view PickleReader::name_part(Index value) const {
  const std::string_view text = out_.kind(value) == Kind::text ? out_.text(value) : std::string_view();
  return text.empty() ? "?" : text;
}

Result<bool> PickleReader::push_global(std::string_view module, std::string_view name) {
  std::string both = fmt::format("{}.{}", module, name);
  auto known = globals_.find(both);
  if (known == globals_.end()) {
    constexpr uint64_t kEntry = 200;
    if (globals_.size() == kMaxGlobals)
      return failure(Code::unsupported, fmt::format("pickle: more than {} names of globals", kMaxGlobals));
    TRY_VOID(out_.charges_.charge(Cost::kept, kEntry + 2 * both.size()));
    out_.globals_.push_back(both);
    known = globals_.emplace(std::move(both), static_cast<Index>(globals_.size())).first;
  }
  return push_new({.kind = Kind::global, .a = known->second});
}

Result<bool> PickleReader::push_call(Index callable, Index arguments) {
  constexpr uint64_t kEmpty = uint64_t{kNoValue} << 32 | kNoValue;
  return push_new({.kind = Kind::call, .a = callable, .b = arguments, .c = kNoValue, .number = kEmpty});
}

// The state of a value that is not created by a call is of no use. A second state is kept beside the first.
Result<bool> PickleReader::build(Index target, Index state) {
  if (out_.kind(target) != Kind::call) return true;
  if (const Index earlier = out_.call(target).state; earlier != kNoValue) {
    const Index both = TRY(add({.kind = Kind::tuple}));
    TRY_VOID(append_item(both, earlier));
    TRY_VOID(append_item(both, state));
    state = both;
  }
  out_.nodes_[target].c = state;
  return true;
}

Result<Pickle> read_pickle(Cursor& cursor, Budget& budget) { return PickleReader(cursor, budget).read(); }

}  // namespace weightfs::pytorch
