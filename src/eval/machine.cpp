#include <cmath>

#include "config/reader.h"
#include "core/data_path.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "trainium/machine_fields.h"

namespace accelopt::eval {

std::string machine_file(const std::string& target) {
    const bool is_path = target.find('/') != std::string::npos ||
                         (target.size() > 5 && target.substr(target.size() - 5) == ".yaml");
    if (is_path) return target;
    for (const char c : target) {
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') {
            throw Error(ErrorSource::kUser, "unknown_target", "not a target name: " + target);
        }
    }
    return data_root() + "/configs/hardware/" + target + ".yaml";
}

trainium::Machine load_machine(const std::string& target) {
    const std::string file = machine_file(target);
    std::string text;
    try {
        text = read_file(file);
    } catch (const Error& error) {
        throw Error(ErrorSource::kUser, "unknown_target",
                    "unknown target '" + target + "': " + error.what());
    }
    const config::Section root = config::load_text(text, file);
    trainium::Machine machine;
    machine.name = root.get_string("name");
    machine.hash = sha256_hex(text).substr(0, 12);
    for (const trainium::MachineField& field : trainium::kMachineFields) {
        const std::string key(field.key);
        const double value =
            is_integer(field) ? static_cast<double>(root.get_int(key)) : root.get_double(key);
        set_field(machine, field, value);
    }
    root.finish();
    const std::string invalid = trainium::invalid_field(machine);
    if (!invalid.empty()) root.fail(invalid, invalid + " is out of range");
    return machine;
}

}  // namespace accelopt::eval
