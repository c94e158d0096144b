/* Reading at an offset, by threads that hold no lock. */
#ifndef I2S_READ_AT_H
#define I2S_READ_AT_H

#include <stdint.h>
#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <io.h>
#include <windows.h>
#else
#include <errno.h>
#include <sys/types.h>
#include <unistd.h>
#endif

/* Read bytes at an offset of a file, independently of other threads; returns their number, or -1. */
static int64_t i2s_read_at(int fd, uint8_t *buffer, int64_t size, int64_t at) {
#if defined(_WIN32)
    OVERLAPPED place = {0};
    DWORD got = 0;
    const DWORD most = size < 1 << 30 ? (DWORD)size : 1u << 30;
    place.Offset = (DWORD)at;
    place.OffsetHigh = (DWORD)(at >> 32);
    if (!ReadFile((HANDLE)_get_osfhandle(fd), buffer, most, &got, &place)) return GetLastError() == ERROR_HANDLE_EOF ? 0 : -1;
    return (int64_t)got;
#else
    for (;;) {
        const ssize_t got = pread(fd, buffer, (size_t)size, (off_t)at);
        if (got >= 0 || errno != EINTR) return (int64_t)got;
    }
#endif
}

/* Read exactly this many bytes; 0 if they are not there. */
static int i2s_read_fully(int fd, uint8_t *buffer, int64_t size, int64_t at) {
    while (size) {
        const int64_t got = i2s_read_at(fd, buffer, size, at);
        if (got <= 0) return 0;
        buffer += got;
        at += got;
        size -= got;
    }
    return 1;
}

#endif
