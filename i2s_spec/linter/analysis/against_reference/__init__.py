"""The tensors of a file compared with a reference, once for all rules that report differences.

compared            all I2_S tensors
floats              all others; float_comparison compares one of them
alike               the tensors that have the same shape as a given one
incomparable        the tensors that cannot be compared, with the reason
"""
