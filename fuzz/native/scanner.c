/* The compiled scanner, by libFuzzer: whatever the bytes, it indexes them or says what is wrong, and every note that it keeps
 * can be asked for. The interpreter runs inside; the extension is built with coverage and sanitizers.
 *
 * PYTHONPATH names the copy of the package; `target.py` there says what is asked.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *target;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    PyObject *module;
    (void)argc, (void)argv;
    Py_InitializeEx(0);
    module = PyImport_ImportModule("target");
    target = module ? PyObject_GetAttrString(module, "one_input") : NULL;
    Py_XDECREF(module);
    if (target == NULL) {
        PyErr_Print();
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    PyObject *answer = PyObject_CallFunction(target, "y#", (const char *)bytes, (Py_ssize_t)size);
    if (answer == NULL) {
        PyErr_Print();
        abort();
    }
    Py_DECREF(answer);
    return 0;
}
