#include "formats/pickle/reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "formats/grouped.h"
#include "formats/pickle/danger.h"
#include "formats/pickle/text.h"

namespace weightfs::pickle {
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

PickleReader::Node PickleReader::text_node(Kind kind, Place place) {
  return {.kind = kind,
          .a = static_cast<Index>(place.offset),
          .b = static_cast<Index>(place.offset >> 32),
          .c = static_cast<Index>(place.spelling),
          .number = place.size};
}

Result<Pickle> PickleReader::read() && {
  begin_ = in_.position();
  auto root = run();
  if (!root && !is_about_the_bytes(root.error())) return tl::unexpected(root.error());
  TRY_VOID(add_reconstructed());
  if (!root) return failure(root.error().code, root.error().message + before_an_error(out_.globals_));
  out_.root_ = *root;
  return std::move(out_);
}

Result<Imports> PickleReader::imports() && {
  begin_ = in_.position();
  const auto root = run();
  if (!root && !is_about_the_bytes(root.error())) return tl::unexpected(root.error());
  TRY_VOID(add_reconstructed());
  Imports found{.globals = std::move(out_.globals_), .is_complete = root.has_value()};
  if (!root) found.lacks = std::max<uint64_t>(lacks_, in_.has_ended() ? 1 : 0);
  for (Index value = 0; value < out_.nodes_.size() && !found.has_calls; ++value)
    found.has_calls = out_.kind(value) == Kind::call;
  return found;
}

// The functions that are named by two texts: NumPy before 1.21 pickles a ufunc as _ufunc_reconstruct(module, name),
// which imports any function. Those that are not known to be harmless are among the globals, too.
Result<void> PickleReader::add_reconstructed() {
  std::vector<Global> found;
  for (const std::string_view importer : {"numpy.core._ufunc_reconstruct", "numpy._core._ufunc_reconstruct"}) {
    if (std::ranges::find(out_.globals_, importer, &Global::text) == out_.globals_.end()) continue;
    for (const Index use : out_.calls_of(importer)) {
      const bool is_call = out_.kind(use) == Kind::call;
      const auto named = is_call ? out_.items(out_.call(use).arguments, 2) : std::vector<Index>();
      const auto text = [&](size_t i) { return named.size() == 2 ? std::string(out_.text(named[i])) : ""; };
      const auto word = [&](size_t i) { return text(i).empty() ? "?" : text(i); };
      Global function{fmt::format("{}.{}", word(0), word(1)), word(0).size()};
      if (found.size() == kMaxGlobals || standing_of(function) == Standing::harmless) continue;
      TRY_VOID(out_.charges_.charge(Cost::kept, sizeof(Global) + function.text.size()));
      found.push_back(std::move(function));
    }
  }
  out_.globals_.insert(out_.globals_.end(), std::make_move_iterator(found.begin()),
                       std::make_move_iterator(found.end()));
  return {};
}

Result<Index> PickleReader::run() {
  while (true) {
    TRY_VOID(charge_input());
    const auto op = in_.number<uint8_t>();
    if (!op && is_about_the_bytes(op.error())) return fail("no STOP: the file was cut");
    if (!op) return tl::unexpected(op.error());
    if (*op == '.') break;
    TRY_VOID(step(*op));
  }
  if (!machine_.marks.empty()) return fail("STOP after an open MARK");
  return pop();
}

Result<void> PickleReader::charge_input() {
  const uint64_t done = in_.position() - begin_ - left_out_;
  if (done > kMaxPickleSize)
    return failure(Code::unsupported, fmt::format("pickle: more than {} bytes", kMaxPickleSize));
  for (; charged_ <= done; charged_ += kInputBlock) TRY_VOID(budget_.charge(Cost::input, kInputBlock));
  return {};
}

Result<Index> PickleReader::add(Node node) {
  if (out_.nodes_.size() >= kNoValue) return failure(Code::unsupported, "pickle: more than 2^32 values");
  TRY_VOID(out_.nodes_.push(node, out_.charges_));
  return static_cast<Index>(out_.nodes_.size() - 1);
}

Result<bool> PickleReader::push(Index value) {
  constexpr size_t kBlock = 1024;
  constexpr size_t kGrowth = 3;  // a vector that grows exists twice, once with twice its size
  if (machine_.stack.size() == stack_charged_) {
    TRY_VOID(out_.charges_.charge(Cost::kept, kBlock * kGrowth * sizeof(Index)));
    stack_charged_ += kBlock;
  }
  machine_.stack.push_back(value);
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
  if (size > in_.left()) {
    lacks_ = size - in_.left();
    return fail(fmt::format("a text of {}, {} left,", counted_bytes(size), in_.left()));
  }
  const Place place{in_.position(), size, Spelling::stored};
  if (size <= kMaxText) return push_kept(kind, TRY(in_.text(size)), place);
  TRY_VOID(in_.skip(size));
  left_out_ += size;
  return push_new(text_node(kind, place));
}

// The text of a line. Only the beginning of a long one is read for a name; all of it is skipped.
Result<bool> PickleReader::push_line(Spelling spelling) {
  const uint64_t begin = in_.position();
  std::string line;
  for (char c = 0; (c = static_cast<char>(TRY(in_.number<uint8_t>()))) != '\n';) {
    if (line.size() < kMaxLine) {
      line += c;
    } else {
      ++left_out_;
      if (left_out_ % kInputBlock == 0) TRY_VOID(budget_.charge(Cost::input, kInputBlock));
    }
  }
  const Place place{begin, in_.position() - 1 - begin, spelling};
  if (place.size > line.size()) return push_new(text_node(Kind::text, place));
  if (spelling == Spelling::unicode_escape) return push_kept(Kind::text, unescape_unicode(line), place);
  const auto bytes = unquote(line);
  if (!bytes) return fail("a string with an invalid escape");
  return push_kept(Kind::text, *bytes, place);
}

Result<bool> PickleReader::push_kept(Kind kind, std::string_view bytes, Place place) {
  Node node = text_node(kind, place);
  node.text = TRY(keep(bytes));
  node.number = bytes.size();
  return push_new(node);
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
  if (machine_.stack.size() <= (machine_.marks.empty() ? 0 : machine_.marks.back()))
    return fail("a value is missing on the stack");
  return machine_.stack.back();
}

Result<Index> PickleReader::pop() {
  const Index value = TRY(top());
  machine_.stack.pop_back();
  return value;
}

// Where the values above the last mark begin. The caller removes them.
Result<size_t> PickleReader::pop_mark() {
  if (machine_.marks.empty()) return fail("no MARK on the stack");
  const size_t begin = machine_.marks.back();
  machine_.marks.pop_back();
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
  if (with == Kind::dict && (machine_.stack.size() - begin) % 2 != 0) return fail("a key without a value");
  const Index container = TRY(filled(target, with));
  for (size_t i = begin; i < machine_.stack.size(); ++i) TRY_VOID(append_item(container, machine_.stack[i]));
  machine_.stack.resize(begin);
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
  if (slot < machine_.memo.size()) return machine_.memo[slot] = value, true;
  if (slot == machine_.memo.size() && !machine_.other_slots.contains(slot))
    return machine_.memo.push(value, out_.charges_).map([] { return true; });
  TRY_VOID(out_.charges_.charge(Cost::kept, kMapEntry));
  machine_.other_slots.insert_or_assign(slot, value);
  return true;
}

Result<bool> PickleReader::push_memo(uint64_t slot) {
  if (slot < machine_.memo.size()) return push(machine_.memo[slot]);
  const auto other = machine_.other_slots.find(slot);
  if (other == machine_.other_slots.end()) return fail(fmt::format("slot {} of the memo is not set", slot));
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
  std::string both = fmt::format("{}.{}", trimmed(module), trimmed(name));
  auto known = globals_.find(both);
  if (known == globals_.end()) {
    constexpr uint64_t kEntry = 200;
    if (globals_.size() == kMaxGlobals)
      return failure(Code::unsupported, fmt::format("pickle: more than {} names of globals", kMaxGlobals));
    TRY_VOID(out_.charges_.charge(Cost::kept, kEntry + 2 * both.size()));
    out_.globals_.push_back({both, trimmed(module).size()});
    known = globals_.emplace(std::move(both), static_cast<Index>(globals_.size())).first;
  }
  // Two names may be one text: "core.multiarray.os.system" of "numpy", and "system" of "numpy.core.multiarray.os".
  size_t& module_size = out_.globals_[known->second].module_size;
  module_size = std::min(module_size, trimmed(module).size());
  return push_new({.kind = Kind::global, .a = known->second});
}

Result<bool> PickleReader::push_call(Index callable, Index arguments) {
  constexpr uint64_t kEmpty = uint64_t{kNoValue} << 32 | kNoValue;
  return push_new({.kind = Kind::call, .a = callable, .b = arguments, .c = kNoValue, .number = kEmpty});
}

// The state of a value that is not created by a call is of no use. A second state is kept beside the first.
Result<bool> PickleReader::build(Index target, Index state) {
  if (out_.kind(target) != Kind::call) return true;
  if (const Index earlier = out_.call(target).state; earlier != kNoValue) state = TRY(pair(earlier, state));
  out_.nodes_[target].c = state;
  TRY_VOID(add_inline(target));
  return true;
}

Result<Index> PickleReader::pair(Index first, Index second) {
  const Index both = TRY(add({.kind = Kind::tuple}));
  TRY_VOID(append_item(both, first));
  TRY_VOID(append_item(both, second));
  return both;
}

Result<void> PickleReader::add_inline(Index object) {
  const auto data = inline_data_ == nullptr ? std::nullopt : TRY(inline_data_->after(out_, object));
  if (!data) return {};
  // An unpickler has read the frame into memory, and reads the data from behind it.
  if (in_.position() < machine_.frame_end) return fail("the bytes of an array inside of a frame");
  const Index bytes = TRY(data->is_pickle ? inline_pickle() : inline_bytes(*data));
  out_.nodes_[object].c = TRY(pair(out_.call(object).state, bytes));
  return {};
}

Result<Index> PickleReader::inline_bytes(const Inline& data) {
  if (data.has_padding) {
    const auto padding = TRY(in_.number<uint8_t>());
    TRY_VOID(in_.skip(padding));
  }
  const Place place{in_.position(), data.size, Spelling::stored};
  if (place.size > in_.left())
    return fail(fmt::format("an array of {}, {} left,", counted_bytes(place.size), in_.left()));
  TRY_VOID(in_.skip(place.size));
  left_out_ += place.size;
  return add(text_node(Kind::bytes, place));
}

Result<Index> PickleReader::inline_pickle() {
  if (depth_ == kMaxNestedPickles)
    return failure(Code::unsupported, fmt::format("pickle: arrays of objects nested deeper than {}", depth_));
  ++depth_;
  Machine outer = std::exchange(machine_, Machine());
  auto root = run();
  machine_ = std::move(outer);
  --depth_;
  return root;
}

Result<Pickle> read_pickle(Cursor& cursor, Budget& budget, const InlineData* inline_data) {
  return PickleReader(cursor, budget, inline_data).read();
}

Result<Imports> imports_of(Cursor& cursor, Budget& budget) { return PickleReader(cursor, budget, nullptr).imports(); }

}  // namespace weightfs::pickle
