/* The compiled scanner under libFuzzer: for any bytes, it indexes them or reports a fault, and every note that it keeps
 * can be read. The interpreter runs inside; the extension is built with coverage and sanitizers.
 *
 * PYTHONPATH names the copy of the package; `target.py` there makes the requests.
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
