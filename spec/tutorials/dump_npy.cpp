// A callback that writes each value of a graph of ggml as FOLDER/NAME.npy: float32, a row for each token.
// params.cb_eval = dump_npy; params.cb_eval_user_data = (void *) "FOLDER";  (of llama_context_params, or common_params)
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

bool dump_npy(struct ggml_tensor * t, bool ask, void * folder) {
    if (ask) return true;  // of every node
    const bool f16 = t->type == GGML_TYPE_F16;
    const bool view = t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE ||
                      t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
    if (view || (!f16 && t->type != GGML_TYPE_F32)) return true;
    static std::map<std::string, int> times;  // the second value of a name is NAME#1
    std::string name = t->name;
    for (char & c : name) if (c == '/') c = '_';
    if (const int again = times[name]++) name += "#" + std::to_string(again);
    std::vector<char> bytes(ggml_nbytes(t));
    ggml_backend_tensor_get(t, bytes.data(), 0, bytes.size());  // from a GPU, too
    std::vector<float> values;
    for (int64_t l = 0; l < t->ne[3]; l++) for (int64_t k = 0; k < t->ne[2]; k++)
        for (int64_t j = 0; j < t->ne[1]; j++) for (int64_t i = 0; i < t->ne[0]; i++) {
            const char * at = bytes.data() + i * t->nb[0] + j * t->nb[1] + k * t->nb[2] + l * t->nb[3];
            values.push_back(f16 ? ggml_fp16_to_fp32(*(const ggml_fp16_t *) at) : *(const float *) at);
        }
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    for (int d = 3; d >= 0; d--) header += std::to_string((long long) t->ne[d]) + ", ";
    header += ")}";
    header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    const unsigned char start[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char) header.size(), 0};
    FILE * file = std::fopen((std::string((const char *) folder) + "/" + name + ".npy").c_str(), "wb");
    if (file == nullptr) return false;
    std::fwrite(start, 1, sizeof start, file);
    std::fwrite(header.data(), 1, header.size(), file);
    std::fwrite(values.data(), sizeof(float), values.size(), file);
    return std::fclose(file) == 0;
}
