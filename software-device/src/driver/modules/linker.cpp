#include "modules/linker.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "engine.h"
#include "modules/grid_barrier.h"

namespace softdev::driver {
namespace {

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_name(char c) { return starts_name(c) || is_digit(c); }

// Words and punctuation of PTX, without comments and white space.
class Scanner {
 public:
  Scanner(std::string_view text, size_t at) : text_(text), at_(at) {}

  enum class Kind { kEnd, kName, kDirective, kNumber, kString, kMark };
  struct Token {
    Kind kind = Kind::kEnd;
    std::string_view text;  // of a directive: without its dot
    size_t begin = 0, end = 0;
    bool is(char mark) const { return kind == Kind::kMark && text[0] == mark; }
  };

  Token next() {
    skip();
    Token token;
    token.begin = at_;
    if (at_ >= text_.size()) {
      token.end = at_;
      return token;
    }
    char c = text_[at_];
    if (starts_name(c)) {
      token.kind = Kind::kName;
      take(in_name);
    } else if (c == '.' && at_ + 1 < text_.size() && in_name(text_[at_ + 1])) {
      token.kind = Kind::kDirective;
      at_++;
      take(in_name);
      token.text = text_.substr(token.begin + 1, at_ - token.begin - 1);
      token.end = at_;
      return token;
    } else if (is_digit(c)) {
      token.kind = Kind::kNumber;
      take([](char d) { return in_name(d) || d == '.'; });
    } else if (c == '"') {
      token.kind = Kind::kString;
      at_++;
      while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
      at_ = std::min(at_ + 1, text_.size());
    } else {
      token.kind = Kind::kMark;
      at_++;
    }
    token.text = text_.substr(token.begin, at_ - token.begin);
    token.end = at_;
    return token;
  }

  void seek(size_t at) { at_ = at; }
  size_t at() const { return at_; }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') at_++;
  }

 private:
  template <class Test>
  void take(Test test) {
    while (at_ < text_.size() && test(text_[at_])) at_++;
  }
  void skip() {
    for (;;) {
      while (at_ < text_.size() && static_cast<unsigned char>(text_[at_]) <= ' ') at_++;
      if (text_.substr(at_, 2) == "//") {
        skip_line();
      } else if (text_.substr(at_, 2) == "/*") {
        size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_;
};

using TokenKind = Scanner::Kind;
using Token = Scanner::Token;

enum class Linkage { kLocal, kVisible, kWeak, kExtern };

// One definition or declaration at the top of a text.
struct Item {
  Linkage linkage = Linkage::kLocal;
  bool function = false;
  bool defined = false;  // a function with a body, or a variable that is not extern
  bool alias = false;
  std::string_view name;
  size_t begin = 0, end = 0;
};

struct Piece {
  const LinkInput *input;
  std::vector<Item> items;
  std::string_view version, target;
  std::unordered_map<std::string_view, std::string> renamed;
};

int number_in(std::string_view text) {
  int value = 0;
  for (char c : text)
    if (is_digit(c) && value < 100000) value = value * 10 + (c - '0');
  return value;
}

// ---------------------------------------------------------------------------------------------

class Splitter {
 public:
  Splitter(std::string_view text, Piece *out) : text_(text), scanner_(text, 0), out_(out) {}

  // False, and what is wrong, when the text is not like PTX.
  bool run(std::string *problem) {
    for (;;) {
      Token token = scanner_.next();
      if (token.kind == TokenKind::kEnd) return true;
      if (token.is(';')) continue;
      if (token.is('@')) {  // debug lines of old compilers
        scanner_.skip_line();
        continue;
      }
      if (token.kind != TokenKind::kDirective || !directive(token)) {
        *problem = out_->input->name + ": the text is not PTX at '" +
                   std::string(text_.substr(token.begin, 30)) + "'";
        return false;
      }
    }
  }

 private:
  bool directive(const Token &token) {
    if (token.text == "version" || token.text == "target" || token.text == "address_size") {
      size_t begin = scanner_.next().begin;
      scanner_.seek(begin);
      scanner_.skip_line();
      size_t end = std::min(text_.find('\n', begin), text_.size());
      std::string_view rest = text_.substr(begin, end - begin);
      rest = rest.substr(0, rest.find("//"));
      if (token.text == "version") out_->version = rest;
      if (token.text == "target") out_->target = rest;
      return true;
    }
    if (token.text == "file" || token.text == "loc") {
      scanner_.skip_line();
      return true;
    }
    if (token.text == "section") return skip_braces();
    if (token.text == "pragma") return to_semicolon();
    return item(token);
  }

  bool to_semicolon() {
    for (;;) {
      Token token = scanner_.next();
      if (token.kind == TokenKind::kEnd) return false;
      if (token.is(';')) return true;
    }
  }

  // From before '{' to behind its '}'.
  bool skip_braces() {
    for (int depth = 0;;) {
      Token token = scanner_.next();
      if (token.kind == TokenKind::kEnd) return false;
      if (token.is('{')) depth++;
      if (token.is('}') && --depth <= 0) return true;
    }
  }

  bool item(Token token) {
    Item item;
    item.begin = token.begin;
    for (; token.kind == TokenKind::kDirective; token = scanner_.next()) {
      if (token.text == "visible")
        item.linkage = Linkage::kVisible;
      else if (token.text == "weak" || token.text == "common")
        item.linkage = Linkage::kWeak;
      else if (token.text == "extern")
        item.linkage = Linkage::kExtern;
      else
        break;
    }
    if (token.kind != TokenKind::kDirective) return false;
    item.alias = token.text == "alias";
    item.function = token.text == "func" || token.text == "entry";
    bool pragma = false;
    // The name is the first word outside of parentheses. A function ends with its body.
    for (int round = 0, curly = 0;;) {
      token = scanner_.next();
      if (token.kind == TokenKind::kEnd) return false;
      if (token.is('(')) round++;
      if (token.is(')')) round--;
      if (token.kind == TokenKind::kName && round == 0 && item.name.empty()) item.name = token.text;
      if (token.kind == TokenKind::kDirective) pragma = token.text == "pragma";
      if (token.is('{')) {
        if (item.function) {
          scanner_.seek(token.begin);
          if (!skip_braces()) return false;
          item.defined = true;
          break;
        }
        curly++;
      }
      if (token.is('}')) curly--;
      if (token.is(';') && curly <= 0 && !(pragma && item.function)) {
        item.defined = !item.function && item.linkage != Linkage::kExtern;
        break;
      }
      if (token.is(';')) pragma = false;
    }
    if (item.name.empty()) return false;
    item.end = scanner_.at();
    out_->items.push_back(item);
    return true;
  }

  std::string_view text_;
  Scanner scanner_;
  Piece *out_;
};

// ---------------------------------------------------------------------------------------------

// What is known of a name that pieces share.
struct Symbol {
  size_t definer = SIZE_MAX;  // the piece whose definition stays
  bool strong = false;
  bool needed = false;  // somewhere declared as extern
  size_t locals = 0;    // pieces that have one of their own
};

class Linker {
 public:
  explicit Linker(const std::vector<LinkInput> &inputs) {
    for (const LinkInput &input : inputs) pieces_.push_back({&input, {}, {}, {}, {}});
  }

  LinkResult run() {
    LinkResult result;
    for (Piece &piece : pieces_)
      if (!Splitter(piece.input->text, &piece).run(&result.problem)) return result;
    if (wants_grid_barrier()) {
      Piece &piece = pieces_.emplace_back(Piece{&grid_barrier_functions(), {}, {}, {}, {}});
      if (!Splitter(piece.input->text, &piece).run(&result.problem)) return result;
    }
    if (!resolve(&result.problem)) return result;
    rename();
    write(&result.text);
    for (const auto &[name, symbol] : symbols_)
      if (symbol.needed && symbol.definer == SIZE_MAX && !is_builtin_function(name))
        result.unresolved.emplace_back(name);
    result.ok = true;
    return result;
  }

 private:
  bool wants_grid_barrier() const {
    for (const Piece &piece : pieces_)
      for (const Item &item : piece.items)
        if (item.function && !item.defined && is_grid_barrier_function(item.name)) return true;
    return false;
  }

  bool resolve(std::string *problem) {
    for (size_t i = 0; i < pieces_.size(); i++) {
      std::unordered_map<std::string_view, bool> own;
      for (const Item &item : pieces_[i].items) {
        Symbol &symbol = symbols_[item.name];
        if (item.alias) {
          symbol.definer = i;
          continue;
        }
        if (item.linkage == Linkage::kLocal) {
          if (own.emplace(item.name, true).second) symbol.locals++;
        } else if (!item.defined) {
          // Shared memory of the size that the launch says is defined nowhere.
          symbol.needed |= item.linkage == Linkage::kExtern && !is_shared(pieces_[i], item);
        } else if (item.linkage == Linkage::kWeak) {
          if (symbol.definer == SIZE_MAX) symbol.definer = i;
        } else {
          if (symbol.strong && symbol.definer != i) {
            *problem = "'" + std::string(item.name) + "' is defined in " +
                       pieces_[symbol.definer].input->name + " and in " + pieces_[i].input->name;
            return false;
          }
          symbol.definer = i;
          symbol.strong = true;
        }
      }
    }
    return true;
  }

  static bool is_shared(const Piece &piece, const Item &item) {
    Scanner scanner(piece.input->text, item.begin);
    for (int i = 0; i < 3; i++)
      if (scanner.next().text == "shared") return true;
    return false;
  }

  void rename() {
    for (size_t i = 0; i < pieces_.size(); i++)
      for (const Item &item : pieces_[i].items) {
        if (item.linkage != Linkage::kLocal || item.alias) continue;
        const Symbol &symbol = symbols_[item.name];
        if (symbol.locals > 1 || symbol.definer != SIZE_MAX || symbol.needed)
          pieces_[i].renamed.try_emplace(item.name,
                                         std::string(item.name) + "$piece" + std::to_string(i));
      }
  }

  bool stays(size_t piece, const Item &item) const {
    if (!item.defined || item.linkage == Linkage::kLocal) return true;
    return symbols_.at(item.name).definer == piece;
  }

  void write(std::string *text) {
    size_t bytes = 256;
    for (const Piece &piece : pieces_) bytes += piece.input->text.size();
    text->reserve(bytes);
    auto highest = [&](auto member) {
      std::string_view best;
      for (const Piece &piece : pieces_)
        if (best.empty() || key(piece.*member) > key(best)) best = piece.*member;
      return best;
    };
    *text += ".version ";
    *text += highest(&Piece::version);
    *text += "\n.target ";
    *text += highest(&Piece::target);
    *text += "\n.address_size 64\n";
    // Aliases name what must be known before.
    for (bool aliases : {false, true})
      for (size_t i = 0; i < pieces_.size(); i++) {
        for (const Item &item : pieces_[i].items) {
          if (item.alias != aliases || !stays(i, item)) continue;
          append(pieces_[i], item, text);
        }
      }
  }

  // "8.5" and "sm_90a, debug" in an order.
  static int key(std::string_view text) {
    text = text.substr(0, text.find(','));
    size_t dot = text.find('.');
    if (dot == std::string_view::npos) return number_in(text);
    return number_in(text.substr(0, dot)) * 100 + number_in(text.substr(dot + 1));
  }

  static void append(const Piece &piece, const Item &item, std::string *text) {
    std::string_view from = piece.input->text;
    if (!piece.renamed.empty()) {
      Scanner scanner(from.substr(0, item.end), item.begin);
      size_t copied = item.begin;
      for (Token token = scanner.next(); token.kind != TokenKind::kEnd; token = scanner.next()) {
        if (token.kind != TokenKind::kName) continue;
        auto found = piece.renamed.find(token.text);
        if (found == piece.renamed.end()) continue;
        text->append(from, copied, token.begin - copied);
        *text += found->second;
        copied = token.end;
      }
      text->append(from, copied, item.end - copied);
    } else {
      text->append(from, item.begin, item.end - item.begin);
    }
    *text += '\n';
  }

  std::vector<Piece> pieces_;
  std::map<std::string_view, Symbol> symbols_;
};

}  // namespace

LinkResult link_ptx(const std::vector<LinkInput> &inputs) { return Linker(inputs).run(); }

}  // namespace softdev::driver
