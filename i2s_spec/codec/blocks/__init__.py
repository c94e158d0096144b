"""Types that pack weights in blocks with scales of their own: Q2_0, PQ2_0, PTQ1_0, TQ1_0, TQ2_0, IQ1_BN, IQ2_BN; and I2_SR.

block_shape      what the bytes of a tensor are: rows, blocks, the scales of groups
block_reference  the definition of `pack`, `unpack`, `dequantize`, `histogram`, `scan`, from the formulas of the layouts
group_observation  what a survey sees of odd codes and odd scales: the slow twin
kernel_kinds     what compiled kernels call the layouts
block_native     the same with compiled kernels: what users get
rows_apart       the same for I2_SR, whose scales are behind all codes, with the kernels of I2_S
apart_windows    windows of I2_SR tensors, and their bytes in the order of a file
block_quantize   the rules by which ggml and ik_llama.cpp make such blocks of floats
regroup          exact conversions: one scale for all to one for each group, and back where they are the same
"""
