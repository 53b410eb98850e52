#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace accelopt::config {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = 4u << 20;
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxBases = 32;

/// Builds the tree from yaml-cpp's events, which (unlike its nodes) show duplicate keys.
class TreeBuilder : public YAML::EventHandler {
  public:
    /// `first_line` is 1 for a file and 0 for a --set value, whose lines mean nothing.
    /// `text` is what is parsed, and outlives the builder.
    TreeBuilder(std::shared_ptr<const std::string> name, const std::string& text, bool has_lines)
        : name_(std::move(name)), text_(text), has_lines_(has_lines) {}

    Node take() {
        if (bad_key_) fail_at(*bad_key_, "a key must be a plain word, not a list or a mapping");
        return std::move(root_);
    }
    Origin origin(const YAML::Mark& mark) const {
        return {name_, has_lines_ ? std::max(mark.line, 0) + 1 : 0};
    }

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        Node node;
        check_plain(mark, "?", anchor);
        node.origin = origin(mark);
        add(std::move(node), "null");
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        fail_at(origin(mark), "YAML aliases (*name) are not supported: write the value out");
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check_plain(mark, tag, anchor);
        if (tag == "!") check_closed(mark);
        Node node;
        node.kind = NodeKind::kScalar;
        node.origin = origin(mark);
        node.text = value;
        node.quoted = tag == "!";
        add(std::move(node), value);
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, NodeKind::kList);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, NodeKind::kMapping);
    }
    void OnMapEnd() override { close(); }

  private:
    struct Frame {
        Node node;
        bool has_key = false;
        std::string key;
        Origin key_origin;
    };

    void check_plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
        if (anchor != YAML::NullAnchor) {
            fail_at(origin(mark), "YAML anchors (&name) are not supported: write the value out");
        }
        if (tag != "?" && tag != "!" && !tag.empty()) {
            fail_at(origin(mark), "YAML tags (" + tag + ") are not supported");
        }
    }
    /// yaml-cpp takes the rest of the file for a quoted text whose end is missing.
    void check_closed(const YAML::Mark& mark) const {
        std::size_t at = static_cast<std::size_t>(std::max(mark.pos, 0));
        const char quote = at < text_.size() ? text_[at] : '\0';
        if (quote != '"' && quote != '\'') return;  // a block scalar
        for (++at; at < text_.size(); ++at) {
            if (text_[at] == '\\' && quote == '"') {
                ++at;
            } else if (text_[at] == quote) {
                if (quote == '"' || at + 1 >= text_.size() || text_[at + 1] != quote) return;
                ++at;  // '' stands for one quote
            }
        }
        fail_at(origin(mark), "a quoted text is not closed");
    }
    void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
              NodeKind kind) {
        check_plain(mark, tag, anchor);
        if (frames_.size() >= kMaxDepth) {
            fail_at(origin(mark), "nested more than " + std::to_string(kMaxDepth) + " levels deep");
        }
        // Told only when the whole text is good: a bracket left open looks like such a key.
        if (!bad_key_ && !frames_.empty() && !frames_.back().has_key &&
            frames_.back().node.kind == NodeKind::kMapping) {
            bad_key_ = origin(mark);
        }
        Frame frame;
        frame.node.kind = kind;
        frame.node.origin = origin(mark);
        frames_.push_back(std::move(frame));
    }
    void close() {
        Node node = std::move(frames_.back().node);
        frames_.pop_back();
        add(std::move(node), "");
    }
    /// `as_key` is what the node says when it stands where a key is due.
    void add(Node node, const std::string& as_key) {
        if (bad_key_) return;
        if (frames_.empty()) {
            root_ = std::move(node);
            return;
        }
        Frame& frame = frames_.back();
        if (frame.node.kind == NodeKind::kList) {
            frame.node.items.push_back(std::move(node));
        } else if (!frame.has_key) {
            start_key(frame, as_key, node.origin);
        } else {
            frame.has_key = false;
            frame.node.entries.push_back({frame.key, frame.key_origin, std::move(node)});
        }
    }
    static void start_key(Frame& frame, const std::string& key, const Origin& at) {
        if (key == "<<") fail_at(at, "YAML merge keys (<<) are not supported: use base:");
        if (key.empty()) fail_at(at, "a key must not be empty");
        if (const Entry* earlier = frame.node.find(key)) {
            fail_at(at, "duplicate key '" + key + "' (first at " + earlier->origin.text() + ")");
        }
        frame.has_key = true;
        frame.key = key;
        frame.key_origin = at;
    }

    std::shared_ptr<const std::string> name_;
    const std::string& text_;
    bool has_lines_;
    std::optional<Origin> bad_key_;
    std::vector<Frame> frames_;
    Node root_;
};

/// Whether `text` is UTF-8 without NUL bytes from `at` on; advances to the first bad character.
bool skip_text(const std::string& text, std::size_t& at) {
    while (at < text.size()) {
        const auto lead = static_cast<unsigned char>(text[at]);
        if (lead == 0) return false;
        std::size_t length = 1;
        if (lead >= 0x80) {
            if (lead < 0xc2 || lead > 0xf4) return false;
            length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
            if (at + length > text.size()) return false;
        }
        for (std::size_t i = 1; i < length; ++i) {
            if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return false;
        }
        at += length;
    }
    return true;
}

void check_bytes(const std::string& text, const std::shared_ptr<const std::string>& name,
                 bool has_lines) {
    if (text.size() > kMaxBytes) {
        fail_at({name, has_lines ? 1 : 0}, "has " + std::to_string(text.size()) +
                                               " bytes; the limit is " + std::to_string(kMaxBytes));
    }
    std::size_t bad = 0;
    if (skip_text(text, bad)) return;
    const auto lines =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    fail_at({name, has_lines ? static_cast<int>(lines) + 1 : 0}, "is not UTF-8 text");
}

Node parse_value(std::string text, const std::string& name, bool has_lines) {
    if (text.rfind("\xef\xbb\xbf", 0) == 0) text.erase(0, 3);
    const auto shared_name = std::make_shared<const std::string>(name);
    check_bytes(text, shared_name, has_lines);
    TreeBuilder builder(shared_name, text, has_lines);
    try {
        std::istringstream in(text);
        YAML::Parser parser(in);
        if (!parser.HandleNextDocument(builder)) {
            Node empty;
            empty.origin = {shared_name, has_lines ? 1 : 0};
            return empty;
        }
        Node root = builder.take();
        TreeBuilder second(shared_name, text, has_lines);
        if (parser.HandleNextDocument(second)) {
            fail_at(second.take().origin, "holds more than one YAML document");
        }
        return root;
    } catch (const YAML::Exception& error) {
        fail_at(builder.origin(error.mark), "YAML syntax: " + error.msg);
    }
}

std::string read_regular_file(const std::string& path, const std::string& blame) {
    const auto refuse = [&](const std::string& reason) {
        throw Error(ErrorSource::kConfig, "config", blame + path + ": " + reason);
    };
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) refuse("no such file");
    if (error) refuse(error.message());
    if (fs::is_directory(status)) refuse("is a directory, not a file");
    if (!fs::is_regular_file(status)) refuse("is not a regular file");
    if (fs::file_size(path, error) > kMaxBytes || error) {
        refuse("is larger than " + std::to_string(kMaxBytes) + " bytes");
    }
    try {
        return read_file(path);
    } catch (const Error& failure) {
        throw Error(ErrorSource::kConfig, "config", blame + failure.what());
    }
}

/// Lays `over` on `under`: mappings key by key, anything else replaced.
void merge(Node& under, Node over) {
    if (under.kind != NodeKind::kMapping || over.kind != NodeKind::kMapping) {
        under = std::move(over);
        return;
    }
    under.origin = over.origin;
    for (Entry& entry : over.entries) {
        if (Entry* existing = under.find(entry.key)) {
            existing->origin = entry.origin;
            merge(existing->value, std::move(entry.value));
        } else {
            under.entries.push_back(std::move(entry));
        }
    }
}

/// Takes the `base:` entry out of a root; its value is null when there is none.
Entry take_base(Node& root) {
    Entry base;
    const auto at = std::find_if(root.entries.begin(), root.entries.end(),
                                 [](const Entry& entry) { return entry.key == "base"; });
    if (at == root.entries.end()) return base;
    base = std::move(*at);
    root.entries.erase(at);
    return base;
}

/// One file of a chain of bases, to tell a cycle.
struct Link {
    std::string shown;
    std::string canonical;
};

Node load_chain(const std::string& path, const std::string& blame, std::vector<Link>& chain) {
    Node root = parse_mapping(read_regular_file(path, blame), path);
    std::error_code error;
    chain.push_back({path, fs::weakly_canonical(path, error).string()});
    const Entry base = take_base(root);
    if (base.value.kind == NodeKind::kNull) return root;
    if (base.value.kind != NodeKind::kScalar || base.value.text.empty()) {
        fail_at(base.origin, "base: expected the path of a file");
    }
    const std::string next =
        (fs::path(path).parent_path() / base.value.text).lexically_normal().string();
    const std::string canonical = fs::weakly_canonical(next, error).string();
    const bool cycle = std::any_of(chain.begin(), chain.end(),
                                   [&](const Link& link) { return link.canonical == canonical; });
    if (cycle || chain.size() >= kMaxBases) {
        std::string files;
        for (const Link& link : chain) files += link.shown + " -> ";
        fail_at(base.origin, "base: the files " +
                                 std::string(cycle ? "form a cycle: " : "are too many: ") + files +
                                 next);
    }
    Node under = load_chain(next, base.origin.text() + ": base: ", chain);
    merge(under, std::move(root));
    return under;
}

/// The part of `path` before its first dot that is a key: an existing key with dots of its own
/// (a model such as "llama-3.1-8b") wins over a shorter word.
std::string first_key(const Node& mapping, const std::string& path) {
    std::string best;
    for (const Entry& entry : mapping.entries) {
        const std::string& key = entry.key;
        const bool fits = path == key || path.compare(0, key.size() + 1, key + ".") == 0;
        if (fits && key.size() > best.size()) best = key;
    }
    return best.empty() ? path.substr(0, path.find('.')) : best;
}

void apply_override(Node& root, const std::string& option) {
    const Origin origin{std::make_shared<const std::string>("--set " + option), 0};
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) fail_at(origin, "expected key=value");
    std::string rest = option.substr(0, equals);
    if (rest == "base") fail_at(origin, "base belongs in the file");
    Node value = parse_value(option.substr(equals + 1), *origin.file, false);

    Node* at = &root;
    std::string walked;
    while (true) {
        const std::string key = first_key(*at, rest);
        if (key.empty()) fail_at(origin, "a part of the key is empty");
        walked += (walked.empty() ? "" : ".") + key;
        Entry* entry = at->find(key);
        if (!entry) {
            at->entries.push_back({key, origin, Node{}});
            entry = &at->entries.back();
            entry->value.origin = origin;
        }
        if (key.size() == rest.size()) {
            if (entry->value.kind == NodeKind::kMapping && value.kind != NodeKind::kMapping) {
                fail_at(origin, "'" + walked + "' is a mapping; set one of its keys instead");
            }
            entry->origin = origin;
            return merge(entry->value, std::move(value));
        }
        rest = rest.substr(key.size() + 1);
        at = &entry->value;
        if (at->kind == NodeKind::kNull) {
            at->kind = NodeKind::kMapping;
            at->origin = origin;
        }
        if (at->kind != NodeKind::kMapping) {
            fail_at(origin, "'" + walked + "' has no keys: it is set at " + entry->origin.text());
        }
    }
}

}  // namespace

std::string Origin::text() const { return line > 0 ? *file + ":" + std::to_string(line) : *file; }

const Entry* Node::find(const std::string& key) const {
    for (const Entry& entry : entries) {
        if (entry.key == key) return &entry;
    }
    return nullptr;
}

Entry* Node::find(const std::string& key) {
    return const_cast<Entry*>(std::as_const(*this).find(key));
}

void fail_at(const Origin& origin, const std::string& message) {
    throw Error(ErrorSource::kConfig, "config", origin.text() + ": " + message);
}

Node parse_mapping(const std::string& text, const std::string& name) {
    Node root = parse_value(text, name, true);
    if (root.kind == NodeKind::kNull) fail_at(root.origin, "the file is empty");
    if (root.kind != NodeKind::kMapping) {
        fail_at(root.origin, "expected keys and values (key: value), found a " +
                                 std::string(root.kind == NodeKind::kList ? "list" : "text"));
    }
    root.origin.line = 1;
    return root;
}

Node load_tree(const std::string& path, const std::vector<std::string>& overrides) {
    std::vector<Link> chain;
    Node root = load_chain(path, "", chain);
    for (const std::string& option : overrides) apply_override(root, option);
    return root;
}

}  // namespace accelopt::config
