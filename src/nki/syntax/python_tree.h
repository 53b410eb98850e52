#pragma once

#include "nki/syntax/convert.h"

// convert.h brings Python.h, which comes first, as its manual asks.
#include <functional>
#include <string>
#include <string_view>
#include <utility>

/// Reading attributes of Python's `ast` objects; for convert.cpp alone.
namespace accelopt::nki::python {

/// Owns one reference.
class Ref {
  public:
    explicit Ref(PyObject* object) : object_(object) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    Ref& operator=(Ref&&) = delete;
    ~Ref() { Py_XDECREF(object_); }
    PyObject* get() const { return object_; }

  private:
    PyObject* object_;
};

/// Interned attribute names; made once, under the GIL, and kept for the process's life.
struct Keys {
    static PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }
    PyObject* lineno = intern("lineno");
    PyObject* col_offset = intern("col_offset");
    PyObject* end_lineno = intern("end_lineno");
    PyObject* end_col_offset = intern("end_col_offset");
    PyObject* body = intern("body");
    PyObject* orelse = intern("orelse");
    PyObject* name = intern("name");
    PyObject* names = intern("names");
    PyObject* asname = intern("asname");
    PyObject* module = intern("module");
    PyObject* level = intern("level");
    PyObject* args = intern("args");
    PyObject* arg = intern("arg");
    PyObject* posonlyargs = intern("posonlyargs");
    PyObject* vararg = intern("vararg");
    PyObject* kwonlyargs = intern("kwonlyargs");
    PyObject* kw_defaults = intern("kw_defaults");
    PyObject* kwarg = intern("kwarg");
    PyObject* defaults = intern("defaults");
    PyObject* annotation = intern("annotation");
    PyObject* decorator_list = intern("decorator_list");
    PyObject* returns = intern("returns");
    PyObject* value = intern("value");
    PyObject* values = intern("values");
    PyObject* targets = intern("targets");
    PyObject* target = intern("target");
    PyObject* op = intern("op");
    PyObject* ops = intern("ops");
    PyObject* iter = intern("iter");
    PyObject* ifs = intern("ifs");
    PyObject* is_async = intern("is_async");
    PyObject* test = intern("test");
    PyObject* msg = intern("msg");
    PyObject* items = intern("items");
    PyObject* context_expr = intern("context_expr");
    PyObject* optional_vars = intern("optional_vars");
    PyObject* id = intern("id");
    PyObject* attr = intern("attr");
    PyObject* slice = intern("slice");
    PyObject* lower = intern("lower");
    PyObject* upper = intern("upper");
    PyObject* step = intern("step");
    PyObject* func = intern("func");
    PyObject* keywords = intern("keywords");
    PyObject* left = intern("left");
    PyObject* right = intern("right");
    PyObject* operand = intern("operand");
    PyObject* comparators = intern("comparators");
    PyObject* elts = intern("elts");
    PyObject* elt = intern("elt");
    PyObject* key = intern("key");
    PyObject* keys = intern("keys");
    PyObject* generators = intern("generators");
    PyObject* conversion = intern("conversion");
    PyObject* format_spec = intern("format_spec");
};

inline const Keys& keys() {
    static const Keys* instance = new Keys;  // the interpreter is never finalised
    return *instance;
}

[[noreturn]] inline void fail(std::string message, int line = 0, int column = 0) {
    PyErr_Clear();
    throw ConversionFailure{std::move(message), line, column};
}

inline Ref get(PyObject* node, PyObject* key) {
    Ref value(PyObject_GetAttr(node, key));
    if (!value.get()) fail("the parser returned an incomplete tree");
    return value;
}

inline std::string class_name(PyObject* node) {
    const std::string_view name = Py_TYPE(node)->tp_name;
    const std::size_t dot = name.rfind('.');
    return std::string(dot == std::string_view::npos ? name : name.substr(dot + 1));
}

/// Text of a str object; false when it is not representable in UTF-8.
inline bool utf8(PyObject* object, std::string& out) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object, &size);
    if (!data) {
        PyErr_Clear();
        return false;
    }
    out.assign(data, static_cast<std::size_t>(size));
    return true;
}

/// A str attribute; None gives "".
inline std::string text_of(PyObject* node, PyObject* key) {
    Ref value = get(node, key);
    std::string result;
    if (value.get() != Py_None && !utf8(value.get(), result)) fail("a name is not valid text");
    return result;
}

inline int int_of(PyObject* node, PyObject* key) {
    Ref value = get(node, key);
    if (value.get() == Py_None) return 0;
    const long number = PyLong_AsLong(value.get());
    if (number == -1 && PyErr_Occurred()) PyErr_Clear();
    return static_cast<int>(number);
}

inline void for_each(PyObject* node, PyObject* key, const std::function<void(PyObject*)>& visit) {
    Ref list = get(node, key);
    if (!PyList_Check(list.get())) fail("the parser returned an incomplete tree");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
        visit(PyList_GET_ITEM(list.get(), i));
    }
}

}  // namespace accelopt::nki::python
