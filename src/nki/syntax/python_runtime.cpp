#define PY_SSIZE_T_CLEAN
#include <Python.h>

// Python.h comes first, as its manual asks.
#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <string>

#include "core/error.h"
#include "nki/syntax/python_runtime.h"

namespace accelopt::nki {

namespace {

/// Returns the prefix that libpython was installed under ("" when unknown). Left alone, Python
/// derives its standard library from whatever `python3` comes first on PATH, which may be another
/// build than the library linked here, without numpy.
std::string library_prefix() {
    // By name: the plain address may be a stub inside the executable.
    const void* symbol = dlsym(RTLD_DEFAULT, "Py_GetVersion");
    Dl_info info{};
    if (!symbol || dladdr(symbol, &info) == 0 || !info.dli_fname) return "";
    const std::string landmark = "lib/python" + std::to_string(PY_MAJOR_VERSION) + "." +
                                 std::to_string(PY_MINOR_VERSION) + "/os.py";
    std::error_code error;
    std::filesystem::path folder = std::filesystem::canonical(info.dli_fname, error).parent_path();
    while (!error && folder != folder.root_path()) {
        if (std::filesystem::exists(folder / landmark, error)) return folder.string();
        folder = folder.parent_path();
    }
    return "";
}

[[noreturn]] void throw_failure(const PyStatus& status) {
    throw Error(ErrorSource::kExternal, "python",
                std::string("the embedded Python cannot start: ") +
                    (status.err_msg ? status.err_msg : "unknown reason"));
}

PyStatus configure(PyConfig& config) {
    // Kernels may hold doubtful escapes or comparisons; their warnings belong on no one's terminal.
    for (const wchar_t* option : {L"ignore::DeprecationWarning", L"ignore::SyntaxWarning"}) {
        PyStatus status = PyWideStringList_Append(&config.warnoptions, option);
        if (PyStatus_Exception(status)) return status;
    }
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    const std::string prefix = library_prefix();
    if (!prefix.empty()) {
        PyStatus status = PyConfig_SetBytesString(&config, &config.home, prefix.c_str());
        if (PyStatus_Exception(status)) return status;
    }
    return Py_InitializeFromConfig(&config);
}

void initialise() {
    if (Py_IsInitialized()) return;
    PyPreConfig preconfig;
    PyPreConfig_InitIsolatedConfig(&preconfig);
    preconfig.utf8_mode = 1;  // file names are UTF-8 whatever the locale
    PyStatus status = Py_PreInitialize(&preconfig);
    if (PyStatus_Exception(status)) throw_failure(status);

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    status = configure(config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) throw_failure(status);
    PyEval_SaveThread();
}

}  // namespace

void start_python() {
    static std::once_flag once;
    std::call_once(once, initialise);
}

}  // namespace accelopt::nki
