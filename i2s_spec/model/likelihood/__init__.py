"""What a text tells of a file: the loss of its model under hypotheses about what may be wrong with it (clause 7.8).

changed_weights    the weights of a model with some of them read in another way, the rest shared
possible_mistakes  what may be wrong, each as a change of a model
race               the losses of hypotheses on more and more of a text; those that lose for certain are dropped
measure            `likelihood`: the race over a file, and what it decides
answer             the outcome as plain data and as text
"""
