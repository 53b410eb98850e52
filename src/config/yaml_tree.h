#pragma once

#include <memory>
#include <string>
#include <vector>

namespace accelopt::config {

/// Where a key or value was written: a file and line, or a --set option (line 0).
struct Origin {
    std::shared_ptr<const std::string> file;
    int line = 0;

    /// "file:line", or "--set key=value".
    std::string text() const;
};

enum class NodeKind { kNull, kScalar, kList, kMapping };

struct Entry;

/// A YAML value with its origin; a plain tree (aliases and tags are refused at load).
struct Node {
    NodeKind kind = NodeKind::kNull;
    Origin origin;
    std::string text;            ///< kScalar
    bool quoted = false;         ///< kScalar: written in quotes, so text whatever it looks like
    std::vector<Node> items;     ///< kList
    std::vector<Entry> entries;  ///< kMapping, in file order

    const Entry* find(const std::string& key) const;
    Entry* find(const std::string& key);
};

struct Entry {
    std::string key;
    Origin origin;
    Node value;
};

/// Throws Error(kConfig, "config", "origin: message").
[[noreturn]] void fail_at(const Origin& origin, const std::string& message);

/// Parses one YAML document whose root is a mapping; `name` stands for the file in messages.
Node parse_mapping(const std::string& text, const std::string& name);

/// Reads a file, its chain of `base:` files below it, and applies the --set options on top.
Node load_tree(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace accelopt::config
