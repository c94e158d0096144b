"""A test of a file by a text: the loss of its model under hypotheses about what may be wrong with it (clause 7.8).

changed_weights    the weights of a model with some of them read in another way, the rest shared
possible_mistakes  the hypotheses, each as a change of a model
race               the losses of hypotheses on more and more of a text; certain losers are dropped
measure            `likelihood`: the race for a file, and its decision
answer             the outcome as plain data and as text
"""
