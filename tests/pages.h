/* Memory whose pages can be closed, so that a kernel that touches what it must not ends the process. */
#ifndef TESTS_PAGES_H
#define TESTS_PAGES_H

#include <stddef.h>
#include <stdint.h>
#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

static size_t page_size(void) {
#if defined(_WIN32)
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
#else
    return (size_t)sysconf(_SC_PAGESIZE);
#endif
}

/* Fresh memory of whole pages, or NULL. */
static uint8_t *open_pages(size_t size) {
#if defined(_WIN32)
    return VirtualAlloc(NULL, size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
#else
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
#endif
}

/* Whether nobody may touch these pages from now on. */
static int close_pages(uint8_t *at, size_t size) {
#if defined(_WIN32)
    DWORD before;
    return VirtualProtect(at, size, PAGE_NOACCESS, &before) != 0;
#else
    return mprotect(at, size, PROT_NONE) == 0;
#endif
}

static void release_pages(uint8_t *at, size_t size) {
#if defined(_WIN32)
    (void)size;
    VirtualFree(at, 0, MEM_RELEASE);
#else
    munmap(at, size);
#endif
}

#endif
