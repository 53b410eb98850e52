#include "config/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "config/yaml_tree.h"
#include "core/error.h"
#include "core/text.h"

namespace accelopt::config {

/// One mapping, with what was asked of it. The node lives in a tree that `tree` keeps alive.
struct Section::Impl {
    std::shared_ptr<const Node> tree;
    const Node* node = nullptr;
    Origin origin;
    std::string path;  ///< dotted, "" for the root
    std::set<std::string> known;
    std::set<std::string> read;
    std::map<std::string, std::vector<std::shared_ptr<Impl>>> children;

    std::string path_of(const std::string& key) const {
        return path.empty() ? key : path + "." + key;
    }

    /// The entry, or null; remembers that the key is a known one.
    const Entry* ask(const std::string& key) {
        known.insert(key);
        return node->find(key);
    }

    const Entry* take(const std::string& key) {
        read.insert(key);
        return ask(key);
    }

    std::vector<std::string> unread() const {
        std::vector<std::string> result;
        for (const Entry& entry : node->entries) {
            if (read.count(entry.key) == 0) result.push_back(entry.key);
        }
        return result;
    }

    const Entry& require_entry(const std::string& key, const char* type) {
        if (const Entry* entry = take(key)) return *entry;
        std::string message = "missing key '" + path_of(key) + "' (" + type + ")";
        const std::string near = nearest_word(key, unread());
        if (!near.empty()) {
            message +=
                "; is it meant by '" + near + "' at " + node->find(near)->origin.text() + "?";
        }
        fail_at(origin, message);
    }

    [[noreturn]] void mistyped(const std::string& key, const Origin& at, const Node& found,
                               const char* type) const;

    std::shared_ptr<Impl> make_child(const Node& value, const Origin& at,
                                     const std::string& child_path) const {
        auto child = std::make_shared<Impl>();
        child->tree = tree;
        child->node = &value;
        child->origin = at;
        child->path = child_path;
        return child;
    }
};

namespace {

constexpr const char* kText = "a text";
constexpr const char* kInteger = "an integer";
constexpr const char* kNumber = "a number";
constexpr const char* kBoolean = "true or false";
constexpr const char* kList = "a list";
constexpr const char* kMapping = "a mapping";

std::string describe(const Node& node) {
    switch (node.kind) {
        case NodeKind::kNull:
            return "nothing";
        case NodeKind::kList:
            return "a list";
        case NodeKind::kMapping:
            return "a mapping";
        case NodeKind::kScalar:
            break;
    }
    const bool longer = node.text.size() > 60;
    return std::string(node.quoted ? "the text '" : "'") + node.text.substr(0, 60) +
           (longer ? "..." : "") + "'";
}

/// Parses the whole of `text`; false when it is anything else or out of range.
template <typename T>
bool parse_number(std::string_view text, T& out) {
    if (!text.empty() && text.front() == '+') text.remove_prefix(1);
    if (text.empty() || text.front() == '+') return false;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
}

bool to_int(const Node& node, std::int64_t& out) {
    return node.kind == NodeKind::kScalar && !node.quoted && parse_number(node.text, out);
}

bool to_double(const Node& node, double& out) {
    return node.kind == NodeKind::kScalar && !node.quoted && parse_number(node.text, out) &&
           std::isfinite(out);
}

bool to_bool(const Node& node, bool& out) {
    if (node.kind != NodeKind::kScalar || node.quoted) return false;
    const std::string& t = node.text;
    out = t == "true" || t == "True" || t == "TRUE";
    return out || t == "false" || t == "False" || t == "FALSE";
}

bool to_string(const Node& node, std::string& out) {
    if (node.kind != NodeKind::kScalar) return false;
    out = node.text;
    return true;
}

}  // namespace

void Section::Impl::mistyped(const std::string& key, const Origin& at, const Node& found,
                             const char* type) const {
    fail_at(at, path_of(key) + ": expected " + type + ", found " + describe(found));
}

namespace {

template <typename T>
using Convert = bool (*)(const Node&, T&);

template <typename T>
T require_scalar(Section::Impl& impl, const std::string& key, const char* type,
                 Convert<T> convert) {
    const Entry& entry = impl.require_entry(key, type);
    T value{};
    if (!convert(entry.value, value)) impl.mistyped(key, entry.origin, entry.value, type);
    return value;
}

template <typename T>
std::optional<T> optional_scalar(Section::Impl& impl, const std::string& key, const char* type,
                                 Convert<T> convert) {
    const Entry* entry = impl.take(key);
    if (!entry || entry->value.kind == NodeKind::kNull) return std::nullopt;
    return require_scalar(impl, key, type, convert);
}

template <typename T>
T scalar_or(Section::Impl& impl, const std::string& key, T fallback, const char* type,
            Convert<T> convert) {
    return impl.take(key) ? require_scalar(impl, key, type, convert) : fallback;
}

template <typename T>
std::vector<T> scalar_list(Section::Impl& impl, const std::string& key, const char* item_type,
                           Convert<T> convert) {
    const Entry& entry = impl.require_entry(key, kList);
    if (entry.value.kind != NodeKind::kList) {
        impl.mistyped(key, entry.origin, entry.value, kList);
    }
    std::vector<T> result;
    for (const Node& item : entry.value.items) {
        T value{};
        if (!convert(item, value)) {
            impl.mistyped(key + "[" + std::to_string(result.size()) + "]", item.origin, item,
                          item_type);
        }
        result.push_back(std::move(value));
    }
    return result;
}

void finish_section(const Section::Impl& impl) {
    for (const Entry& entry : impl.node->entries) {
        if (impl.read.count(entry.key) == 0) {
            const std::vector<std::string> known(impl.known.begin(), impl.known.end());
            std::string message = "unknown key '" + impl.path_of(entry.key) + "'";
            const std::string near = nearest_word(entry.key, known);
            if (!near.empty()) {
                message += "; did you mean '" + near + "'?";
            } else if (!known.empty()) {
                message += "; the keys here are " + join(known, ", ");
            }
            fail_at(entry.origin, message);
        }
        const auto children = impl.children.find(entry.key);
        if (children == impl.children.end()) continue;
        for (const auto& child : children->second) finish_section(*child);
    }
}

Section root_section(Node root) {
    auto impl = std::make_shared<Section::Impl>();
    auto tree = std::make_shared<const Node>(std::move(root));
    impl->node = tree.get();
    impl->origin = tree->origin;
    impl->tree = std::move(tree);
    return Section(std::move(impl));
}

}  // namespace

std::string Section::where() const { return impl_->origin.text(); }

std::string Section::where(const std::string& key) const {
    const Entry* entry = impl_->node->find(key);
    return entry ? entry->origin.text() : where();
}

std::vector<std::string> Section::keys() const {
    std::vector<std::string> result;
    for (const Entry& entry : impl_->node->entries) result.push_back(entry.key);
    return result;
}

bool Section::has(const std::string& key) const { return impl_->ask(key) != nullptr; }

bool Section::is_null(const std::string& key) const {
    const Entry* entry = impl_->ask(key);
    return entry && entry->value.kind == NodeKind::kNull;
}

std::string Section::get_string(const std::string& key) const {
    return require_scalar<std::string>(*impl_, key, kText, to_string);
}
std::int64_t Section::get_int(const std::string& key) const {
    return require_scalar<std::int64_t>(*impl_, key, kInteger, to_int);
}
double Section::get_double(const std::string& key) const {
    return require_scalar<double>(*impl_, key, kNumber, to_double);
}
bool Section::get_bool(const std::string& key) const {
    return require_scalar<bool>(*impl_, key, kBoolean, to_bool);
}

std::string Section::string_or(const std::string& key, const std::string& fallback) const {
    return scalar_or<std::string>(*impl_, key, fallback, kText, to_string);
}
std::int64_t Section::int_or(const std::string& key, std::int64_t fallback) const {
    return scalar_or<std::int64_t>(*impl_, key, fallback, kInteger, to_int);
}
double Section::double_or(const std::string& key, double fallback) const {
    return scalar_or<double>(*impl_, key, fallback, kNumber, to_double);
}
bool Section::bool_or(const std::string& key, bool fallback) const {
    return scalar_or<bool>(*impl_, key, fallback, kBoolean, to_bool);
}

std::optional<std::string> Section::optional_string(const std::string& key) const {
    return optional_scalar<std::string>(*impl_, key, kText, to_string);
}
std::optional<double> Section::optional_double(const std::string& key) const {
    return optional_scalar<double>(*impl_, key, kNumber, to_double);
}
std::optional<std::int64_t> Section::optional_int(const std::string& key) const {
    return optional_scalar<std::int64_t>(*impl_, key, kInteger, to_int);
}

std::vector<std::string> Section::string_list(const std::string& key) const {
    return scalar_list<std::string>(*impl_, key, kText, to_string);
}
std::vector<std::int64_t> Section::int_list(const std::string& key) const {
    return scalar_list<std::int64_t>(*impl_, key, kInteger, to_int);
}

Section Section::child(const std::string& key) const {
    const Entry& entry = impl_->require_entry(key, kMapping);
    if (entry.value.kind != NodeKind::kMapping) {
        impl_->mistyped(key, entry.origin, entry.value, kMapping);
    }
    auto& made = impl_->children[key];
    if (made.empty()) {
        made.push_back(impl_->make_child(entry.value, entry.origin, impl_->path_of(key)));
    }
    return Section(made.front());
}

Section Section::child_or_empty(const std::string& key) const {
    const Entry* entry = impl_->take(key);
    if (entry && entry->value.kind != NodeKind::kNull) return child(key);
    static const Node* const kEmpty = new Node{NodeKind::kMapping, {}, {}, false, {}, {}};
    return Section(
        impl_->make_child(*kEmpty, entry ? entry->origin : impl_->origin, impl_->path_of(key)));
}

std::vector<Section> Section::children(const std::string& key) const {
    const Entry* entry = impl_->take(key);
    std::vector<Section> result;
    if (!entry || entry->value.kind == NodeKind::kNull) return result;
    if (entry->value.kind != NodeKind::kList) {
        impl_->mistyped(key, entry->origin, entry->value, "a list of mappings");
    }
    auto& made = impl_->children[key];
    for (std::size_t i = made.size(); i < entry->value.items.size(); ++i) {
        const Node& item = entry->value.items[i];
        const std::string name = key + "[" + std::to_string(i) + "]";
        if (item.kind != NodeKind::kMapping) impl_->mistyped(name, item.origin, item, kMapping);
        made.push_back(impl_->make_child(item, item.origin, impl_->path_of(name)));
    }
    for (const auto& child : made) result.emplace_back(child);
    return result;
}

void Section::require_one_of(const std::string& key, const std::string& value,
                             const std::vector<std::string>& allowed) const {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::string message = "'" + value + "' is not one of " + join(allowed, ", ");
    const std::string near = nearest_word(value, allowed);
    if (!near.empty()) message += "; did you mean '" + near + "'?";
    fail(key, message);
}

void Section::fail(const std::string& key, const std::string& message) const {
    const Entry* entry = impl_->node->find(key);
    fail_at(entry ? entry->origin : impl_->origin, impl_->path_of(key) + ": " + message);
}

void Section::finish() const { finish_section(*impl_); }

Section load_file(const std::string& path, const std::vector<std::string>& overrides) {
    return root_section(load_tree(path, overrides));
}

Section load_text(const std::string& text, const std::string& name) {
    Node root = parse_mapping(text, name);
    const Entry* base = root.find("base");
    if (base && base->value.kind != NodeKind::kNull) {
        fail_at(base->origin, "base: a file is needed to inherit from another file");
    }
    return root_section(std::move(root));
}

}  // namespace accelopt::config
