#define PY_SSIZE_T_CLEAN
#include <Python.h>

// Python.h comes first, as its manual asks.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "nki/syntax/parser.h"
#include "nki/syntax/python_runtime.h"

using namespace accelopt::nki;

TEST_CASE("Python starts without signal handlers and releases the GIL") {
    start_python();
    start_python();
    CHECK(PyGILState_Check() == 0);
    struct sigaction action {};
    REQUIRE(sigaction(SIGPIPE, nullptr, &action) == 0);
    CHECK(action.sa_handler == SIG_DFL);
    CHECK(parse("x = 1").ok());
    CHECK(PyGILState_Check() == 0);
}

TEST_CASE("numpy can be imported beside the parser, from any thread") {
    start_python();
    bool imported = false;
    std::thread([&] {
        const PyGILState_STATE state = PyGILState_Ensure();
        PyObject* numpy = PyImport_ImportModule("numpy");
        imported = numpy != nullptr;
        if (!imported) PyErr_Print();
        Py_XDECREF(numpy);
        PyGILState_Release(state);
    }).join();
    CHECK(imported);
    CHECK(parse("x = 1").ok());
}

TEST_CASE("parsing works while the caller holds the GIL, and keeps it") {
    start_python();
    const PyGILState_STATE state = PyGILState_Ensure();
    CHECK(parse("x = 1").ok());
    CHECK_FALSE(parse("x = = 1").ok());
    CHECK(PyErr_Occurred() == nullptr);
    CHECK(PyGILState_Check() == 1);
    PyGILState_Release(state);
}
