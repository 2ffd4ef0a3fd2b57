# %% [markdown]
# Wrong and right solutions of the exercises of notebook 4_analysis.
# The tests of the tests read them, and `python -m metapcg mutants` hands each in as a submission.
# `says`: words of the visible tests' message; without it only the hidden tests can tell it from a right solution.
# `right=true`: must get full marks. A cell without a name is a helper of the next one.

# %% [markdown]
# ## normalised-score

# %% id="score_averages_ratios" exercise="normalised-score" says="average first, then divide"
def normalised_score(returns, random, oracle):
    return ((returns - random[..., None]) / (oracle - random)[..., None]).mean((0, 1))


# %% id="score_without_random" exercise="normalised-score" says="random is missing"
def normalised_score(returns, random, oracle):
    return returns.mean((0, 1)) / oracle.mean()


# %% id="score_divided_by_the_oracles_return" exercise="normalised-score" says="must be its lead over random"
def normalised_score(returns, random, oracle):
    return (returns.mean((0, 1)) - random.mean()) / oracle.mean()


# %% id="score_with_references_swapped" exercise="normalised-score" says="random and oracle are swapped"
def normalised_score(returns, random, oracle):
    return (returns.mean((0, 1)) - oracle.mean()) / (random.mean() - oracle.mean())


# %% id="score_not_divided" exercise="normalised-score" says="divide it by the oracle's"
def normalised_score(returns, random, oracle):
    return returns.mean((0, 1)) - random.mean()


# %% id="score_averages_the_steps" exercise="normalised-score" says="the shape should be (2,)"
def normalised_score(returns, random, oracle):
    return (returns.mean() - random.mean()) / (oracle.mean() - random.mean())


# %% id="score_of_the_first_seed" exercise="normalised-score"
def normalised_score(returns, random, oracle):
    returns, random, oracle = returns[0], random[0], oracle[0]
    return (returns.mean(0) - random.mean()) / (oracle.mean() - random.mean())


# %% id="score_clipped" exercise="normalised-score"
def normalised_score(returns, random, oracle):
    score = (returns.mean((0, 1)) - random.mean()) / (oracle.mean() - random.mean())
    return score.clamp(0, 1)


# %% id="score_changes_its_input" exercise="normalised-score"
def normalised_score(returns, random, oracle):
    floor = random.mean()
    returns -= floor
    return returns.mean((0, 1)) / (oracle.mean() - floor)


# %% id="score_returns_nothing" exercise="normalised-score" says="Is the `return` missing?"
def normalised_score(returns, random, oracle):
    returns.mean((0, 1))


# %% id="score_seed_by_seed_for_equal_seeds" exercise="normalised-score" right=true
def normalised_score(returns, random, oracle):
    mean = lambda x: sum(part.sum(0) for part in x) / (x.shape[0] * x.shape[1])
    low = mean(random)
    return (mean(returns) - low) / (mean(oracle) - low)


# %% [markdown]
# ## bootstrap-means


# %% id="means_ignore_the_seeds_drawn" exercise="bootstrap-means" says="seed_draws is ignored"
def bootstrap_means(values, seed_draws, task_draws):
    seeds = torch.arange(len(values))
    return values[seeds[None, :, None], task_draws].mean((1, 2))


# %% id="means_of_whole_seeds" exercise="bootstrap-means" says="only seeds are drawn"
def bootstrap_means(values, seed_draws, task_draws):
    return values[seed_draws].mean((1, 2))


# %% id="means_take_the_draws_of_the_seeds_number" exercise="bootstrap-means" says="not to the seed of number s"
def bootstrap_means(values, seed_draws, task_draws):
    rows = torch.arange(len(seed_draws))[:, None]
    return values[seed_draws[:, :, None], task_draws[rows, seed_draws]].mean((1, 2))


# %% id="means_are_sums" exercise="bootstrap-means" says="divide by S·M"
def bootstrap_means(values, seed_draws, task_draws):
    return values[seed_draws[:, :, None], task_draws].sum((1, 2))


# %% id="means_over_resamples" exercise="bootstrap-means" says="the shape should be (2,)"
def bootstrap_means(values, seed_draws, task_draws):
    return values[seed_draws[:, :, None], task_draws].mean(0)


# %% id="means_lose_an_axis_of_length_one" exercise="bootstrap-means"
def bootstrap_means(values, seed_draws, task_draws):
    means = values[seed_draws[:, :, None], task_draws].mean((1, 2))
    return means.squeeze()


# %% id="means_divide_by_four" exercise="bootstrap-means"
def bootstrap_means(values, seed_draws, task_draws):
    return values[seed_draws[:, :, None], task_draws].sum((1, 2)) / 4


# %% id="means_in_loops" exercise="bootstrap-means" right=true
def bootstrap_means(values, seed_draws, task_draws):
    out = []
    for seeds, tasks in zip(seed_draws, task_draws, strict=True):
        out.append(torch.cat([values[s, t] for s, t in zip(seeds, tasks, strict=True)]).mean())
    return torch.stack(out)


# %% id="means_with_gather" exercise="bootstrap-means" right=true
def bootstrap_means(values, seed_draws, task_draws):
    return values[seed_draws].gather(-1, task_draws).mean(dim=(-1, -2))


# %% [markdown]
# ## percentile-interval


# %% id="interval_of_the_level_itself" exercise="percentile-interval" says="half of the rest goes on each side"
def percentile_interval(means, level):
    return torch.quantile(means, torch.tensor([1 - level, level], dtype=means.dtype))


# %% id="interval_from_smallest_to_largest" exercise="percentile-interval" says="the smallest and the largest"
def percentile_interval(means, level):
    return torch.stack([means.min(), means.max()])


# %% id="interval_upside_down" exercise="percentile-interval" says="the ends are swapped"
def percentile_interval(means, level):
    return torch.quantile(means, torch.tensor([(1 + level) / 2, (1 - level) / 2], dtype=means.dtype))


# %% id="interval_of_a_fixed_level" exercise="percentile-interval"
def percentile_interval(means, level):
    return torch.quantile(means, torch.tensor([0.05, 0.95], dtype=means.dtype))


# %% id="interval_of_a_normal_distribution" exercise="percentile-interval" says="wrong values"
def percentile_interval(means, level):
    return means.mean() + torch.tensor([-1.96, 1.96], dtype=means.dtype) * means.std()


# %% id="interval_around_the_middle" exercise="percentile-interval"
def percentile_interval(means, level):
    high = torch.quantile(means, (1 + level) / 2)
    return torch.stack([2 * means.median() - high, high])


# %% id="interval_end_by_end" exercise="percentile-interval" right=true
def percentile_interval(means, level):
    tail = (1 - level) / 2
    return torch.stack([torch.quantile(means, tail), torch.quantile(means, 1 - tail)])


# %% [markdown]
# ## episodes-needed


# %% id="needed_none_for_never" exercise="episodes-needed" says="argmax of a row of zeros is 0"
def episodes_needed(scores, episodes, wanted):
    first = (scores >= wanted).int().argmax(-1)
    return episodes.to(scores.dtype)[first]


# %% id="needed_all_for_never" exercise="episodes-needed" says="not as many as were tried"
def episodes_needed(scores, episodes, wanted):
    reached = scores >= wanted
    first = torch.where(reached.any(-1), reached.int().argmax(-1), scores.shape[-1] - 1)
    return episodes.to(scores.dtype)[first]


# %% id="needed_in_steps" exercise="episodes-needed" says="look up the episodes"
def episodes_needed(scores, episodes, wanted):
    reached = scores >= wanted
    first = reached.int().argmax(-1).to(scores.dtype)
    return torch.where(reached.any(-1), first, torch.full_like(first, torch.inf))


# %% id="needed_more_than" exercise="episodes-needed" says="equal is enough"
def episodes_needed(scores, episodes, wanted):
    reached = scores > wanted
    first = episodes.to(scores.dtype)[reached.int().argmax(-1)]
    return torch.where(reached.any(-1), first, torch.full_like(first, torch.inf))


# %% id="needed_last" exercise="episodes-needed" says="the last time"
def episodes_needed(scores, episodes, wanted):
    reached = scores >= wanted
    last = scores.shape[-1] - 1 - reached.flip(-1).int().argmax(-1)
    last = episodes.to(scores.dtype)[last]
    return torch.where(reached.any(-1), last, torch.full_like(last, torch.inf))


# %% id="needed_at_the_best" exercise="episodes-needed" says="the best point of the curve"
def episodes_needed(scores, episodes, wanted):
    best = episodes.to(scores.dtype)[scores.argmax(-1)]
    return torch.where((scores >= wanted).any(-1), best, torch.full_like(best, torch.inf))


# %% id="needed_by_counting_how_often" exercise="episodes-needed"
def episodes_needed(scores, episodes, wanted):
    reached = scores >= wanted
    below = (scores < wanted).sum(-1).clamp(max=scores.shape[-1] - 1)
    first = episodes.to(scores.dtype)[below]
    return torch.where(reached.any(-1), first, torch.full_like(first, torch.inf))


# %% id="needed_for_a_fixed_score" exercise="episodes-needed"
def episodes_needed(scores, episodes, wanted):
    reached = scores >= 0.8
    first = episodes.to(scores.dtype)[reached.int().argmax(-1)]
    return torch.where(reached.any(-1), first, torch.full_like(first, torch.inf))


# %% id="needed_of_five_per_step" exercise="episodes-needed"
def episodes_needed(scores, episodes, wanted):
    reached = scores >= wanted
    first = 5 * reached.int().argmax(-1).to(scores.dtype)
    return torch.where(reached.any(-1), first, torch.full_like(first, torch.inf))


# %% id="needed_in_a_loop" exercise="episodes-needed" right=true
def episodes_needed(scores, episodes, wanted):
    out = torch.full((len(scores),), float("inf"), dtype=scores.dtype)
    for row, curve in enumerate(scores):
        for score, count in zip(curve, episodes, strict=True):
            if score >= wanted:
                out[row] = count
                break
    return out


# %% id="needed_as_a_minimum" exercise="episodes-needed" right=true
def episodes_needed(scores, episodes, wanted):
    never = torch.full_like(scores, float("inf"))
    return torch.where(scores >= wanted, episodes.to(scores.dtype), never).min(-1).values
