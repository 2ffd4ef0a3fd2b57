"""Learning from people: a fight against a boss, its players, and a boss that learns from each fight.

==================== ========================================================================== ==============
module               holds                                                                      needs
==================== ========================================================================== ==============
``arena``            the rules of the fight, for many fights at once and for one at a time      NumPy
``features``         what the boss sees, and which actions are legal                            NumPy
``player_styles``    simulated players with continuous parameters, and their splits             NumPy
``rewards``          the boss's reward, rebuilt from hit points                                 NumPy
``arena_problem``    fights against simulated players in the batched problem protocol           NumPy
``trajectories``     logs of fights as JSON, and what may be wrong with them                    NumPy
``weights_file``     weights as ``.npz``                                                        NumPy
``numpy_mind``       the policy, forward and backward by hand                                   NumPy
``situations``       a few situations in which policies can be compared                         NumPy
``learner``          one anchored Adam step per fight, and its state on disk                    NumPy
``modular_mind``     the policy in torch, for training                                          torch
``anchors``          meta-training of the weights that a boss starts from                       torch
==================== ========================================================================== ==============

A server needs the modules marked NumPy only; none of them imports torch or numba.
"""
