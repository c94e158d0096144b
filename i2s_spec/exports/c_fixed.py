"""This module holds the parts of the C header that are not made from declarations: a cursor that never leaves its
bytes, and the parts of a file."""

from __future__ import annotations

from typing import Final

#: The cursor, and what it reads apart from records.
CURSOR: Final = """\
/* The position of a walk, which never reads at or beyond `end`. */
typedef struct gguf_cursor {
    const uint8_t *at, *end;
    int big_endian;
} gguf_cursor;

static inline uint64_t gguf_left(const gguf_cursor *from)
{
    return (uint64_t)(from->end - from->at);
}

static inline i2s_status gguf_number(gguf_cursor *from, unsigned bytes, uint64_t *to)
{
    unsigned i;
    if (gguf_left(from) < bytes)
        return I2S_SHORT;
    *to = 0;
    for (i = 0; i < bytes; i++)
        *to |= (uint64_t)from->at[i] << 8 * (from->big_endian ? bytes - 1 - i : i);
    from->at += bytes;
    return I2S_OK;
}

static inline i2s_status gguf_u32(gguf_cursor *from, uint32_t *to)
{
    uint64_t wide = 0;
    i2s_status status = gguf_number(from, 4, &wide);
    *to = (uint32_t)wide;
    return status;
}

static inline i2s_status gguf_u64(gguf_cursor *from, uint64_t *to)
{
    return gguf_number(from, 8, to);
}

/* A length and as many bytes; clause 2.4. */
static inline i2s_status gguf_string(gguf_cursor *from, gguf_text *to, uint64_t most)
{
    i2s_status status = gguf_u64(from, &to->length);
    if (status != I2S_OK)
        return status;
    if (to->length > gguf_left(from))
        return I2S_SHORT;
    if (to->length > most)
        return I2S_BAD_VALUE;
    to->bytes = (const char *)from->at;
    from->at += to->length;
    return I2S_OK;
}

static inline int gguf_is(gguf_text text, const char *name)
{
    return text.length == strlen(name) && memcmp(text.bytes, name, text.length) == 0;
}

/* Skip a value; nested arrays are followed down to the maximum depth. Clause 2.5. */
static inline i2s_status gguf_skip(gguf_cursor *from, uint32_t type, unsigned depth)
{
    uint64_t count = 1;
    gguf_text text;
    i2s_status status;
    if (type >= GGUF_VALUE_TYPES)
        return I2S_BAD_VALUE;
    if (type == GGUF_STRING)
        return gguf_string(from, &text, UINT64_MAX);
    if (type == GGUF_ARRAY) {
        if (depth == GGUF_MAX_ARRAY_DEPTH)
            return I2S_BAD_VALUE;
        if ((status = gguf_u32(from, &type)) != I2S_OK || (status = gguf_u64(from, &count)) != I2S_OK)
            return status;
        if (type >= GGUF_VALUE_TYPES)
            return I2S_BAD_VALUE;
        if (type == GGUF_ARRAY && depth + 1 == GGUF_MAX_ARRAY_DEPTH)
            return I2S_BAD_VALUE;
        if (count > gguf_left(from) / gguf_smallest_value[type])
            return I2S_SHORT;
        if (gguf_value_bytes[type] == 0) {
            for (; count > 0; count--)
                if ((status = gguf_skip(from, type, depth + 1)) != I2S_OK)
                    return status;
            return I2S_OK;
        }
    }
    if (count > gguf_left(from) / gguf_value_bytes[type])
        return I2S_SHORT;
    from->at += count * gguf_value_bytes[type];
    return I2S_OK;
}
"""

#: A file as a whole, and its tensors.
FILE: Final = """\
/* A file in memory: how far its parts reach, and where the next tensor info is. */
typedef struct gguf_file {
    const uint8_t *bytes;
    uint64_t size;
    gguf_header header;
    gguf_cursor key_values, tensor_infos; /* where they begin */
    gguf_cursor next;
    uint64_t left; /* tensor infos that gguf_next has not given */
    uint64_t alignment, data_start;
} gguf_file;

/* Read everything before the data section. `bytes` must stay as long as the file is used. */
static inline i2s_status gguf_open(const void *bytes, size_t size, gguf_file *file)
{
    gguf_cursor from;
    gguf_key_value pair;
    gguf_tensor_info info;
    uint64_t i, alignment = 0, room;
    uint32_t version;
    i2s_status status;

    from.at = (const uint8_t *)bytes;
    from.end = from.at + size;
    from.big_endian = 0;
    file->bytes = from.at;
    file->size = size;
    if ((status = gguf_header_read(&from, &file->header)) != I2S_OK)
        return status;
    if (file->header.version != 0 && (file->header.version & 0xffff) == 0) { /* clause 2.3 */
        from.at = file->bytes;
        from.big_endian = 1;
        if ((status = gguf_header_read(&from, &file->header)) != I2S_OK)
            return status;
    }
    version = file->header.version;
    if (version != 2 && version != 3)
        return I2S_NOT_GGUF;
    room = gguf_left(&from);
    if (file->header.key_count > room / GGUF_SMALLEST_KEY_VALUE ||
        file->header.tensor_count > room / GGUF_SMALLEST_TENSOR_INFO)
        return I2S_SHORT;

    file->key_values = from;
    for (i = 0; i < file->header.key_count; i++) {
        if ((status = gguf_key_value_read(&from, &pair)) != I2S_OK)
            return status;
        if (alignment == 0 && gguf_is(pair.key, GGUF_ALIGNMENT_KEY)) { /* the first counts; clause 2.7 */
            gguf_cursor value = from;
            value.at = pair.value;
            if (pair.type != GGUF_UINT32 || gguf_number(&value, 4, &alignment) != I2S_OK)
                return I2S_BAD_VALUE;
            if (alignment == 0 || alignment > GGUF_MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
                return I2S_BAD_VALUE;
        }
    }
    file->alignment = alignment ? alignment : GGUF_DEFAULT_ALIGNMENT;

    file->tensor_infos = file->next = from;
    file->left = file->header.tensor_count;
    for (i = 0; i < file->header.tensor_count; i++)
        if ((status = gguf_tensor_info_read(&from, &info)) != I2S_OK)
            return status;
    file->data_start = (uint64_t)(from.at - file->bytes);
    file->data_start += (file->alignment - file->data_start % file->alignment) % file->alignment;
    return I2S_OK;
}

/* The tensor infos in order; I2S_END after the last. */
static inline i2s_status gguf_next(gguf_file *file, gguf_tensor_info *info)
{
    if (file->left == 0)
        return I2S_END;
    file->left--;
    return gguf_tensor_info_read(&file->next, info);
}

/* The tensor of a name; it does not matter how far gguf_next has come. */
static inline i2s_status gguf_find(const gguf_file *file, const char *name, gguf_tensor_info *info)
{
    gguf_cursor from = file->tensor_infos;
    uint64_t i;
    i2s_status status;
    for (i = 0; i < file->header.tensor_count; i++) {
        if ((status = gguf_tensor_info_read(&from, info)) != I2S_OK)
            return status;
        if (gguf_is(info->name, name))
            return I2S_OK;
    }
    return I2S_END;
}

/* The bytes of an I2_S tensor, and its matrix: `cols` is ne0, `rows` everything else. */
static inline i2s_status i2s_find(const gguf_file *file, const gguf_tensor_info *info, const uint8_t **data,
                                  size_t *size, uint64_t *rows, uint64_t *cols)
{
    uint64_t bytes, n = 1;
    uint32_t i;
    if (info->type != I2S_TYPE || info->n_dims == 0)
        return I2S_BAD_VALUE;
    for (i = 0; i < info->n_dims; i++) {
        if (info->ne[i] == 0 || n > UINT64_MAX / info->ne[i])
            return I2S_BAD_SHAPE;
        n *= info->ne[i];
    }
    bytes = i2s_tensor_bytes(n);
    if (file->data_start > file->size || info->offset > file->size - file->data_start ||
        bytes > file->size - file->data_start - info->offset)
        return I2S_SHORT;
    *data = file->bytes + file->data_start + info->offset;
    *size = (size_t)bytes;
    *cols = info->ne[0];
    *rows = n / info->ne[0];
    return I2S_OK;
}
"""
