"""Checks of values in a file: strings, and whether they are UTF-8; bytes that must be 0 or 1, or 0."""

def strings(data, Py_ssize_t count, bint big):
    """Decode `count` GGUF strings that fill `data` exactly; bytes that are not UTF-8 become surrogate escapes."""
    cdef Bytes held = Bytes(data)
    cdef Py_ssize_t pos = 0, i, size = held.size
    cdef uint64_t length
    cdef const uint8_t *p = held.start
    cdef list out = [None] * count
    for i in range(count):
        if size - pos < 8:
            raise _changed(pos)
        length = u64(p + pos, big)
        pos += 8
        if length > <uint64_t>(size - pos):
            raise _changed(pos)
        out[i] = PyUnicode_DecodeUTF8(<char *>p + pos, <Py_ssize_t>length, "surrogateescape")
        pos += <Py_ssize_t>length
    return out


def _changed(pos):
    reason = TrustedText("an array no longer has the strings that it had when the file was opened")
    return FormatError(faults.CHANGED, Span(pos, pos), reason=reason)


cdef struct Utf8:
    int more           # continuation bytes that must follow
    uint8_t low, high  # bounds of the next one


cdef bint feed(Utf8 *state, const uint8_t *p, int64_t n) noexcept nogil:
    """Advance over `n` bytes; False where they are not UTF-8 (RFC 3629: no overlong forms, no surrogates)."""
    cdef int64_t i = 0
    cdef uint64_t eight
    cdef uint8_t b
    while i < n:
        if state.more == 0:
            while i + 8 <= n:
                memcpy(&eight, p + i, 8)
                if eight & <uint64_t>0x8080808080808080:
                    break
                i += 8
            if i == n:
                return True
            b = p[i]
            i += 1
            state.low = 0x80
            state.high = 0xBF
            if b < 0x80:
                continue
            elif 0xC2 <= b <= 0xDF:
                state.more = 1
            elif 0xE0 <= b <= 0xEF:
                state.more = 2
                if b == 0xE0:
                    state.low = 0xA0
                elif b == 0xED:
                    state.high = 0x9F
            elif 0xF0 <= b <= 0xF4:
                state.more = 3
                if b == 0xF0:
                    state.low = 0x90
                elif b == 0xF4:
                    state.high = 0x8F
            else:
                return False
        else:
            b = p[i]
            i += 1
            if b < state.low or b > state.high:
                return False
            state.low = 0x80
            state.high = 0xBF
            state.more -= 1
    return True


cdef bint valid(Window window, int64_t start, int64_t length) except -1:
    cdef Utf8 state
    cdef int64_t part
    cdef const uint8_t *p
    state.more = 0
    while length:
        part = window.ready(start)
        if part == 0:
            raise _changed(start)
        if part > length:
            part = length
        p = window.at(start, part)
        if not feed(&state, p, part):
            return False
        start += part
        length -= part
    return state.more == 0


def invalid_utf8(source, spans):
    """Check strings given as (start, length); returns the positions in `spans` of those that are not UTF-8."""
    cdef Window window = Window(source)
    return [i for i, (start, length) in enumerate(spans) if not valid(window, start, length)]


cdef int64_t sound_strings(const uint8_t *start, int64_t room, bint big, Py_ssize_t *left) noexcept nogil:
    """Skip at most `left` strings that lie whole in `room` bytes and are UTF-8; returns how many bytes they take."""
    cdef const uint8_t *p = start
    cdef const uint8_t *last = start + room - 8
    cdef Py_ssize_t todo = left[0]
    cdef uint64_t length
    cdef Utf8 state
    while todo and p <= last:
        length = u64(p, big)
        if length > <uint64_t>(last - p):
            break
        state.more = 0
        if not feed(&state, p + 8, <int64_t>length) or state.more:
            break
        p += 8 + length
        todo -= 1
    left[0] = todo
    return p - start


def invalid_utf8_in_array(source, int64_t start, int64_t stop, Py_ssize_t count, bint big):
    """Check an array of strings between `start` and `stop`: how many are not UTF-8, and the index and span of the first."""
    cdef Window window = Window(source)
    cdef Py_ssize_t bad = 0, left = count
    cdef uint64_t length
    cdef int64_t ready
    cdef const uint8_t *p
    first = None
    while left:
        ready = window.ready(start)
        if ready > stop - start:
            ready = stop - start
        if ready > 8:
            start += sound_strings(window.at(start, 1), ready, big, &left)
            if not left:
                break
        # A string that is wrong, or that the end of the window cuts.
        p = window.at(start, 8)
        if p == NULL:
            raise _changed(start)
        length = u64(p, big)
        start += 8
        if length > <uint64_t>(stop - start if stop > start else 0):
            raise _changed(start)
        if not valid(window, start, <int64_t>length):
            bad += 1
            if first is None:
                first = (count - left, start, start + <int64_t>length)
        start += <int64_t>length
        left -= 1
    return bad, first


def first_odd_bool(source, int64_t start, int64_t count):
    """The first of `count` bytes at `start` that is neither 0 nor 1, or -1."""
    cdef Window window = Window(source)
    cdef int64_t part, i, done = 0
    cdef const uint8_t *p
    window.stop = min(start + count, window.size)
    while done < count:
        part = window.ready(start + done)
        if part == 0:
            raise _changed(start + done)
        if part > count - done:
            part = count - done
        p = window.at(start + done, part)
        for i in range(part):
            if p[i] > 1:
                return start + done + i
        done += part
    return -1


def first_nonzero(source, int64_t start, int64_t stop):
    """The first byte between `start` and `stop` that is not zero, or -1."""
    cdef Window window = Window(source)
    cdef int64_t part, i
    cdef const uint8_t *p
    window.stop = min(stop, window.size)
    while start < stop:
        part = window.ready(start)
        if part == 0:
            raise _changed(start)
        if part > stop - start:
            part = stop - start
        p = window.at(start, part)
        for i in range(part):
            if p[i]:
                return start + i
        start += part
    return -1
