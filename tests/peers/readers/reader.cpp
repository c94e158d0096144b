// Prints what the parser in C++ finds in files. Compile it with gguf_i2s.cpp, the runtime's kaitaistream.cpp and
// -DKS_STR_ENCODING_NONE.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>

#include "gguf_i2s.h"

static std::string hex(const std::string &bytes)
{
    static const char digits[] = "0123456789abcdef";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i++) {
        out += digits[(unsigned char)bytes[i] >> 4];
        out += digits[(unsigned char)bytes[i] & 15];
    }
    return out;
}

static std::string bits(double number)
{
    char out[20];
    uint64_t held;
    std::memcpy(&held, &number, sizeof held);
    std::snprintf(out, sizeof out, "%016llx", (unsigned long long)held);
    return std::isnan(number) ? "nan" : out;
}

static int64_t mix(int64_t before, int64_t number)
{
    return (before * 31 + number + 1) % 1000003;
}

static std::string text(gguf_i2s_t::value_t *value)
{
    std::ostringstream out;
    switch (value->kind()) {
    case 0: out << (int)value->as_u8(); break;
    case 1: out << (int)value->as_i8(); break;
    case 2: out << value->as_u16(); break;
    case 3: out << value->as_i16(); break;
    case 4: out << value->as_u32(); break;
    case 5: out << value->as_i32(); break;
    case 6: out << bits(value->as_f32()->value()); break;
    case 7: out << (int)value->as_bool(); break;
    case 8: out << "'" << hex(value->as_str()->text()); break;
    case 9:
        out << "[" << value->as_arr()->kind();
        for (std::size_t i = 0; i < value->as_arr()->items()->size(); i++)
            out << " " << text((*value->as_arr()->items())[i]);
        out << "]";
        break;
    case 10: out << value->as_u64()->as_u64(); break;
    case 11: out << value->as_i64()->as_i64(); break;
    default: out << bits(value->as_f64()->as_f64());
    }
    return out.str();
}

template <class Elements> static void layout(std::ostream &out, const char *name, Elements *elements)
{
    int64_t sum = 0;
    if (!elements)
        return;
    for (std::size_t i = 0; i < elements->size(); i++) {
        sum = mix(mix(sum, (*elements)[i]->code()), (*elements)[i]->offset_1());
        sum = mix(mix(sum, (*elements)[i]->zero_first()), (*elements)[i]->twos_complement());
        sum = mix(sum, (*elements)[i]->offset_2());
    }
    out << name << " " << sum << "\n";
}

// Where the scales of a type are: in the blocks, in front of the rows, or behind all of them.
struct in_blocks {
    template <class T> static void tensor(std::string &, T *) {}
    template <class R> static void row(std::string &, R *) {}
    template <class B> static void block(std::string &out, B *block) { out += bits(block->scale()->value()) + ","; }
};
struct in_rows {
    template <class T> static void tensor(std::string &, T *) {}
    template <class R> static void row(std::string &out, R *row) { out += bits(row->scale()->value()) + ","; }
    template <class B> static void block(std::string &, B *) {}
};
struct apart {
    template <class T> static void tensor(std::string &out, T *tensor)
    {
        for (std::size_t i = 0; i < tensor->scales()->size(); i++)
            out += bits((*tensor->scales())[i]->value()) + ",";
    }
    template <class R> static void row(std::string &, R *) {}
    template <class B> static void block(std::string &, B *) {}
};

template <class Scales, class Row> static void blocks(int64_t &sum, std::string &scales, Row *row)
{
    Scales::row(scales, row);
    for (std::size_t i = 0; i < row->blocks()->size(); i++) {
        Scales::block(scales, (*row->blocks())[i]);
        for (std::size_t j = 0; j < (*row->blocks())[i]->weights()->size(); j++) {
            sum = mix(sum, (*(*row->blocks())[i]->weights())[j]->code());
            sum = mix(sum, (*(*row->blocks())[i]->weights())[j]->weight());
        }
    }
}

template <class Scales, class Tensor> static void block_type(std::ostream &out, const char *name, Tensor *tensor)
{
    int64_t sum = 0;
    std::string scales;
    if (!tensor)
        return;
    for (std::size_t i = 0; i < tensor->each_row()->size(); i++)
        blocks<Scales>(sum, scales, (*tensor->each_row())[i]);
    Scales::tensor(scales, tensor);
    out << name << " " << sum << " " << scales.substr(0, scales.size() - 1) << "\n";
}

static std::string lines(gguf_i2s_t::container_t *file)
{
    std::ostringstream out;
    out << "file " << file->header()->version() << " " << file->alignment() << " " << file->data_start() << "\n";
    for (std::size_t i = 0; i < file->key_values()->size(); i++) {
        gguf_i2s_t::key_value_t *pair = (*file->key_values())[i];
        out << "key " << hex(pair->key()->text()) << " " << pair->kind() << " " << text(pair->value()) << "\n";
    }
    for (std::size_t i = 0; i < file->tensor_infos()->size(); i++) {
        gguf_i2s_t::tensor_info_t *info = (*file->tensor_infos())[i];
        out << "tensor " << hex(info->name()->text()) << " " << info->kind() << " " << info->offset() << " ";
        for (std::size_t j = 0; j < info->ne()->size(); j++)
            out << (j ? "," : "") << (*info->ne())[j];
        out << "\n";
        if (gguf_i2s_t::i2s_tensor_t *tensor = info->i2s()) {
            out << "i2s " << hex(tensor->payload()) << " " << bits(tensor->scale()->value()) << " ";
            out << hex(tensor->unused()) << "\n";
            layout(out, "interleave128", tensor->interleave_128());
            layout(out, "interleave64", tensor->interleave_64());
            layout(out, "rows1x4", tensor->rows_1x4());
            layout(out, "sequentialmsb", tensor->sequential_msb());
            layout(out, "sequentiallsb", tensor->sequential_lsb());
            layout(out, "rowblocks4", tensor->row_blocks_4());
        }
        block_type<in_blocks>(out, "q20", info->q2_0());
        block_type<in_blocks>(out, "q20g128", info->q2_0_g128());
        block_type<in_blocks>(out, "pq20", info->pq2_0());
        block_type<in_blocks>(out, "ptq10", info->ptq1_0());
        block_type<in_blocks>(out, "tq10", info->tq1_0());
        block_type<in_blocks>(out, "tq20", info->tq2_0());
        block_type<in_rows>(out, "iq1bn", info->iq1_bn());
        block_type<in_rows>(out, "iq2bn", info->iq2_bn());
        block_type<apart>(out, "i2sr", info->i2_sr());
    }
    return out.str();
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++) {
        try {
            std::ifstream from(paths[i], std::ios::binary);
            kaitai::kstream stream(&from);
            gguf_i2s_t root(&stream);
            std::printf("%send\n", lines(root.file()).c_str());
        } catch (const std::exception &) {
            std::printf("error of C++\n");
        }
    }
    return 0;
}
