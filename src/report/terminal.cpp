#include "report/terminal.h"

#include <algorithm>
#include <cmath>

namespace accelopt::report {
namespace {

constexpr bool begins_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

const char* code_of(Colour colour) {
    switch (colour) {
        case Colour::kBold:
            return "1";
        case Colour::kDim:
            return "2";
        case Colour::kRed:
            return "31";
        case Colour::kYellow:
            return "33";
        case Colour::kGreen:
            return "32";
        case Colour::kCyan:
            return "36";
    }
    return "0";
}

}  // namespace

std::string coloured(const std::string& text, Colour colour, const TerminalStyle& style) {
    if (!style.colour || text.empty()) return text;
    return std::string("\x1b[") + code_of(colour) + "m" + text + "\x1b[0m";
}

std::size_t columns_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_to(std::string_view text, std::size_t columns) {
    if (columns_of(text) <= columns) return std::string(text);
    if (columns == 0) return "";
    std::size_t characters = 0;
    std::size_t at = 0;
    for (; at < text.size(); ++at) {
        if (begins_character(text[at]) && ++characters == columns) break;
    }
    return std::string(text.substr(0, at)) + "…";
}

std::string pad_right(std::string_view text, std::size_t columns) {
    const std::size_t have = columns_of(text);
    return std::string(text) + std::string(have < columns ? columns - have : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t columns) {
    const std::size_t have = columns_of(text);
    return std::string(have < columns ? columns - have : 0, ' ') + std::string(text);
}

std::string bar(double share, int cells) {
    const auto filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * cells));
    return std::string(static_cast<std::size_t>(filled), '#') +
           std::string(static_cast<std::size_t>(cells - filled), '.');
}

std::string sparkline(const std::vector<double>& values, double full, std::size_t columns) {
    static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    constexpr int kLevels = 8;
    const std::size_t cells = std::min(columns, values.size());
    std::string line;
    for (std::size_t c = 0; c < cells; ++c) {
        const std::size_t first = c * values.size() / cells;
        const std::size_t last = (c + 1) * values.size() / cells;
        double sum = 0;
        for (std::size_t v = first; v < last; ++v) sum += values[v];
        const double share = full > 0 ? sum / static_cast<double>(last - first) / full : 0;
        // Anything at all is drawn: an empty cell means empty.
        const int level =
            share <= 0 ? 0 : std::clamp(static_cast<int>(std::lround(share * kLevels)), 1, kLevels);
        line += kBlocks[level];
    }
    return line;
}

}  // namespace accelopt::report
