// The opcodes of pickles, by groups.
#include <fmt/core.h>

#include <bit>

#include "formats/pytorch/pickle_reader.h"
#include "formats/pytorch/pickle_text.h"

namespace weightfs::pytorch {
namespace {

// The maximum number of open marks; pickles have one or two for each level of nesting.
constexpr size_t kMaxMarks = 1000;

}  // namespace

Result<void> PickleReader::step(uint8_t op) {
  using Group = Result<bool> (PickleReader::*)(uint8_t);
  constexpr Group kGroups[] = {&PickleReader::stack_or_memo, &PickleReader::number,    &PickleReader::text,
                               &PickleReader::container,     &PickleReader::object,    &PickleReader::constant,
                               &PickleReader::filling,       &PickleReader::memo_line, &PickleReader::object_line};
  for (const Group group : kGroups)
    if (TRY((this->*group)(op))) return {};
  const bool known = (op >= 0x82 && op <= 0x84) || op == 0x97 || op == 0x98;
  if (known)
    return failure(Code::unsupported, fmt::format("pickle: an extension or an out-of-band buffer (opcode {:#04x}) at "
                                                  "byte {}",
                                                  op, in_.position() - 1));
  return fail(fmt::format("unknown opcode {:#04x}", op));
}

Result<bool> PickleReader::constant(uint8_t op) {
  switch (op) {
    case 0x80:  // PROTO
      return TRY(in_.number<uint8_t>()), true;
    case 0x95:  // FRAME: its length only helps to read ahead
      return TRY(in_.number<uint64_t>()), true;
    case 'N':
      return push_new({});
    case 0x88:
    case 0x89:
      return push_new({.kind = Kind::boolean, .number = op == 0x88});
    default:
      return false;
  }
}

Result<bool> PickleReader::number(uint8_t op) {
  switch (op) {
    case 'K':
      return push_integer(TRY(in_.number<uint8_t>()));
    case 'M':
      return push_integer(TRY(in_.number<uint16_t>()));
    case 'J':
      return push_integer(TRY(in_.number<int32_t>()));
    case 0x8A:
      return push_long(TRY(in_.number<uint8_t>()));
    case 0x8B:
      return push_long(static_cast<uint64_t>(int64_t{TRY(in_.number<int32_t>())}));
    case 'G':
      return push_new({.kind = Kind::real, .number = __builtin_bswap64(TRY(in_.number<uint64_t>()))});
    case 'F': {
      const auto n = parse_real(TRY(line()));
      if (!n) return fail("not a valid number");
      return push_new({.kind = Kind::real, .number = std::bit_cast<uint64_t>(*n)});
    }
    case 'I':
    case 'L': {
      const std::string digits = TRY(line());
      if (op == 'I' && (digits == "00" || digits == "01"))
        return push_new({.kind = Kind::boolean, .number = digits == "01"});
      return push_decimal(digits);
    }
    default:
      return false;
  }
}

Result<bool> PickleReader::text(uint8_t op) {
  switch (op) {
    case 'X':
      return push_text(Kind::text, TRY(in_.number<uint32_t>()));
    case 'U':
    case 0x8C:
      return push_text(Kind::text, TRY(in_.number<uint8_t>()));
    case 'T':
      return push_text(Kind::text, static_cast<uint64_t>(int64_t{TRY(in_.number<int32_t>())}));
    case 0x8D:
      return push_text(Kind::text, TRY(in_.number<uint64_t>()));
    case 'C':
      return push_text(Kind::bytes, TRY(in_.number<uint8_t>()));
    case 'B':
      return push_text(Kind::bytes, TRY(in_.number<uint32_t>()));
    case 0x8E:
    case 0x96:
      return push_text(Kind::bytes, TRY(in_.number<uint64_t>()));
    case 'V':
      return push_kept(Kind::text, unescape_unicode(TRY(line())));
    case 'S':
      return push_kept(Kind::text, unquote(TRY(line())));
    default:
      return false;
  }
}

Result<bool> PickleReader::container(uint8_t op) {
  switch (op) {
    case ']':
      return push_new({.kind = Kind::list});
    case '}':
      return push_new({.kind = Kind::dict});
    case 0x8F:
      return push_new({.kind = Kind::set});
    case ')':
      return push_new({.kind = Kind::tuple});
    case 0x85:
    case 0x86:
    case 0x87: {
      const size_t size = op - 0x84U;
      const size_t floor = marks_.empty() ? 0 : marks_.back();
      if (stack_.size() - floor < size) return fail("a value is missing on the stack");
      return push_filled(Kind::tuple, stack_.size() - size);
    }
    case 't':
      return push_filled(Kind::tuple, TRY(pop_mark()));
    case 'l':
      return push_filled(Kind::list, TRY(pop_mark()));
    case 'd':
      return push_filled(Kind::dict, TRY(pop_mark()));
    case 0x91:  // FROZENSET
      return push_filled(Kind::set, TRY(pop_mark()));
    default:
      return false;
  }
}

Result<bool> PickleReader::filling(uint8_t op) {
  const auto from_mark = [&](Kind with) -> Result<bool> {
    const size_t begin = TRY(pop_mark());
    if (begin == (marks_.empty() ? 0 : marks_.back())) return fail("a value is missing on the stack");
    return fill(stack_[begin - 1], with, begin);
  };
  const auto last = [&](Kind with, size_t count) -> Result<bool> {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count + 1) return fail("a value is missing on the stack");
    return fill(stack_[stack_.size() - count - 1], with, stack_.size() - count);
  };
  switch (op) {
    case 'a':
      return last(Kind::list, 1);
    case 's':
      return last(Kind::dict, 2);
    case 'e':
      return from_mark(Kind::list);
    case 'u':
      return from_mark(Kind::dict);
    case 0x90:
      return from_mark(Kind::set);
    default:
      return false;
  }
}

Result<bool> PickleReader::stack_or_memo(uint8_t op) {
  switch (op) {
    case '(':
      if (marks_.size() == kMaxMarks)
        return failure(Code::unsupported, fmt::format("pickle: values nested deeper than {}", kMaxMarks));
      marks_.push_back(stack_.size());
      return true;
    case '0':
      // The unpickler removes the mark if there is no value above it.
      if (!marks_.empty() && marks_.back() == stack_.size()) return marks_.pop_back(), true;
      return TRY(pop()), true;
    case '1':
      return stack_.resize(TRY(pop_mark())), true;
    case '2':
      return push(TRY(top()));
    case 'q':
      return store(TRY(in_.number<uint8_t>()));
    case 'r':
      return store(TRY(in_.number<uint32_t>()));
    case 0x94:
      return store(memo_.size() + other_slots_.size());
    case 'h':
      return push_memo(TRY(in_.number<uint8_t>()));
    case 'j':
      return push_memo(TRY(in_.number<uint32_t>()));
    default:
      return false;
  }
}

Result<bool> PickleReader::memo_line(uint8_t op) {
  if (op != 'p' && op != 'g') return false;
  const auto slot = parse_integer(TRY(line()));
  if (!slot || *slot < 0) return fail("not a valid slot of the memo");
  return op == 'p' ? store(static_cast<uint64_t>(*slot)) : push_memo(static_cast<uint64_t>(*slot));
}

Result<bool> PickleReader::object(uint8_t op) {
  switch (op) {
    case 'Q':
      return push_persistent(TRY(pop()));
    case 0x93: {  // STACK_GLOBAL
      const Index name = TRY(pop());
      const Index module = TRY(pop());
      return push_global(name_part(module), name_part(name));
    }
    case 'R':
    case 0x81: {  // REDUCE, NEWOBJ
      const Index arguments = TRY(pop());
      return push_call(TRY(pop()), arguments);
    }
    case 0x92: {  // NEWOBJ_EX: the class, arguments, keyword arguments
      if (stack_.size() - (marks_.empty() ? 0 : marks_.back()) < 3) return fail("a value is missing on the stack");
      TRY_VOID(push_filled(Kind::tuple, stack_.size() - 2));
      const Index arguments = TRY(pop());
      return push_call(TRY(pop()), arguments);
    }
    case 'o': {  // OBJ: the class is the first value after the mark
      const size_t begin = TRY(pop_mark());
      if (begin == stack_.size()) return fail("a value is missing on the stack");
      const Index callable = stack_[begin];
      TRY_VOID(push_filled(Kind::tuple, begin + 1));
      const Index arguments = TRY(pop());
      stack_.resize(begin);
      return push_call(callable, arguments);
    }
    case 'b': {
      const Index state = TRY(pop());
      return build(TRY(top()), state);
    }
    default:
      return false;
  }
}

Result<bool> PickleReader::object_line(uint8_t op) {
  switch (op) {
    case 'P': {
      const std::string identifier = TRY(line());
      TRY_VOID(push_kept(Kind::text, identifier));
      return push_persistent(TRY(pop()));
    }
    case 'c': {
      const std::string module = TRY(line());
      return push_global(module, TRY(line()));
    }
    case 'i': {  // INST: a global, called with the values after the mark
      const std::string module = TRY(line());
      const std::string name = TRY(line());
      const size_t begin = TRY(pop_mark());
      TRY_VOID(push_filled(Kind::tuple, begin));
      const Index arguments = TRY(pop());
      TRY_VOID(push_global(module, name));
      return push_call(TRY(pop()), arguments);
    }
    default:
      return false;
  }
}

}  // namespace weightfs::pytorch
