# %% [markdown]
# Wrong and right solutions of the exercises of notebook 1_maml.
# The tests of the tests read them, and `python -m metapcg mutants` hands each in as a submission.
# `says`: words of the visible tests' message; without it only the hidden tests can tell it from a right solution.
# `right=true`: must get full marks. A cell without a name is a helper of the next one.

# %% [markdown]
# ## inner-update

# %% id="update_climbs" exercise="inner-update" says="the sign is wrong"
def inner_update(params, gradients, inner_lr):
    return {n: params[n] + inner_lr * gradients[n] for n in params}


# %% id="update_in_place" exercise="inner-update" says="changed in place"
def inner_update(params, gradients, inner_lr):
    for n in params:
        params[n].data -= inner_lr * gradients[n].data
    return params


# %% id="update_cuts_the_graph" exercise="inner-update" says="no path leads back to params"
def inner_update(params, gradients, inner_lr):
    return {n: params[n].detach() - inner_lr * gradients[n] for n in params}


# %% id="update_detaches_the_gradients" exercise="inner-update" says="no path leads back to gradients"
def inner_update(params, gradients, inner_lr):
    return {n: params[n] - inner_lr * gradients[n].detach() for n in params}


# %% id="update_by_position" exercise="inner-update"
def inner_update(params, gradients, inner_lr):
    return {n: p - inner_lr * g for (n, p), g in zip(params.items(), gradients.values(), strict=True)}


# %% id="update_with_sub" exercise="inner-update" right=true
def inner_update(params, gradients, inner_lr):
    return {n: torch.sub(p, gradients[n], alpha=inner_lr) for n, p in params.items()}


# %% id="update_without_step_size" exercise="inner-update" says="the step size is missing"
def inner_update(params, gradients, inner_lr):
    return {n: params[n] - gradients[n] for n in params}


# %% id="update_of_the_first_tensor_only" exercise="inner-update" says="b was left as it was"
def inner_update(params, gradients, inner_lr):

    out, first = dict(params), next(iter(params))
    out[first] = params[first] - inner_lr * gradients[first]
    return out


# %% id="update_is_the_step" exercise="inner-update" says="this is the step itself"
def inner_update(params, gradients, inner_lr):
    return {n: -inner_lr * gradients[n] for n in params}


# %% id="update_without_grad" exercise="inner-update" says="the graph is cut"
def inner_update(params, gradients, inner_lr):

    with torch.no_grad():
        return {n: params[n] - inner_lr * gradients[n] for n in params}


# %%
def map_both(function, first, second):
    return {key: function(first[key], second[key]) for key in first}


# %% id="update_by_helper_cell_and_tree_map" exercise="inner-update" right=true
def inner_update(params, gradients, inner_lr):
    return map_both(lambda value, slope: value - inner_lr * slope, params, gradients)


# %% [markdown]
# ## inner-gradients


# %% id="gradients_always_second_order" exercise="inner-gradients" says="without a graph"
def inner_gradients(loss, params, first_order):
    gradients = torch.autograd.grad(loss.sum(), list(params.values()), create_graph=True)
    return dict(zip(params, gradients, strict=True))


# %% id="gradients_always_first_order" exercise="inner-gradients" says="silently becomes FOMAML"
def inner_gradients(loss, params, first_order):
    gradients = torch.autograd.grad(loss.sum(), list(params.values()), retain_graph=True)
    return dict(zip(params, gradients, strict=True))


# %% id="gradients_of_the_mean" exercise="inner-gradients" says="divided by the number of tasks"
def inner_gradients(loss, params, first_order):
    gradients = torch.autograd.grad(loss.mean(), list(params.values()), create_graph=not first_order)
    return dict(zip(params, gradients, strict=True))


# %% id="gradients_one_by_one" exercise="inner-gradients" right=true
def inner_gradients(loss, params, first_order):
    total = loss.sum()
    out = {}
    for name, tensor in params.items():
        (out[name],) = torch.autograd.grad(total, tensor, create_graph=not first_order, retain_graph=True)
    return out


# %% id="gradients_point_downhill" exercise="inner-gradients" says="the sign is wrong"
def inner_gradients(loss, params, first_order):

    gradients = torch.autograd.grad(-loss.sum(), list(params.values()), create_graph=not first_order)
    return dict(zip(params, gradients, strict=True))


# %% id="gradients_read_first_order_the_other_way" exercise="inner-gradients" says="silently becomes FOMAML"
def inner_gradients(loss, params, first_order):

    gradients = torch.autograd.grad(loss.sum(), list(params.values()), create_graph=first_order, retain_graph=True)
    return dict(zip(params, gradients, strict=True))


# %% id="gradients_by_backward" exercise="inner-gradients" says="it filled w.grad"
def inner_gradients(loss, params, first_order):

    for value in params.values():
        value.retain_grad()
        value.grad = None
    loss.sum().backward(create_graph=not first_order)
    return {name: value.grad for name, value in params.items()}


# %% id="gradients_of_the_first_task_only" exercise="inner-gradients" says="wrong values"
def inner_gradients(loss, params, first_order):

    gradients = torch.autograd.grad(loss.reshape(-1)[0], list(params.values()), create_graph=not first_order)
    return dict(zip(params, gradients, strict=True))


# %% id="gradients_under_wrong_names" exercise="inner-gradients" says="this is b's gradient"
def inner_gradients(loss, params, first_order):

    gradients = torch.autograd.grad(loss.sum(), list(params.values()), create_graph=not first_order)
    return dict(zip(params, reversed(gradients), strict=True))


# %% id="gradients_detached_for_first_order" exercise="inner-gradients" right=true
def inner_gradients(loss, params, first_order):

    weights = torch.ones_like(loss)
    slopes = torch.autograd.grad(loss, tuple(params[k] for k in params), grad_outputs=weights, create_graph=True)
    if first_order:
        slopes = [slope.detach() for slope in slopes]
    return {key: slope for key, slope in zip(params.keys(), slopes, strict=True)}


# %% [markdown]
# ## adapt


# %% id="adapt_reuses_the_first_episodes" exercise="adapt" says="the first batch was used for both steps"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):
    batch = collect(params)
    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, batch), params, first_order), inner_lr)
    return params


# %% id="adapt_cuts_theta_off_in_first_order" exercise="adapt" says="no path leads"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):
    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, first_order), inner_lr)
        if first_order:
            params = {n: p.detach().requires_grad_() for n, p in params.items()}
    return params


# %% id="adapt_ignores_first_order" exercise="adapt" says="this is the second-order answer"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):
    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, False), inner_lr)
    return params


# %% id="adapt_recursive" exercise="adapt" right=true
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):
    if num_steps == 0:
        return params
    print("another step")
    loss = loss_fn(params, collect(params))
    stepped = inner_update(params, inner_gradients(loss, params, first_order), inner_lr)
    return adapt(stepped, collect, loss_fn, inner_lr, num_steps - 1, first_order)


# %% id="adapt_makes_one_step_only" exercise="adapt" says="only one step was made"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    if num_steps:
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, first_order), inner_lr)
    return params


# %% id="adapt_starts_each_step_from_theta" exercise="adapt" says="wrong values"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    adapted = params
    for _ in range(num_steps):
        gradients = inner_gradients(loss_fn(adapted, collect(adapted)), adapted, first_order)
        adapted = inner_update(params, gradients, inner_lr)
    return adapted


# %% id="adapt_loses_the_earlier_steps" exercise="adapt" says="both steps start from the original parameters"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    adapted = params
    for _ in range(num_steps):
        gradients = inner_gradients(loss_fn(params, collect(params)), params, first_order)
        adapted = inner_update(params, gradients, inner_lr)
    return adapted


# %% id="adapt_takes_all_gradients_at_theta" exercise="adapt" says="both gradients were taken at the start"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    adapted = params
    for _ in range(num_steps):
        gradients = inner_gradients(loss_fn(params, collect(params)), params, first_order)
        adapted = inner_update(adapted, gradients, inner_lr)
    return adapted


# %% id="adapt_plays_all_batches_before_the_first_step" exercise="adapt" says="played by the unadapted policy"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    batches = [collect(params) for _ in range(num_steps)]
    for batch in batches:
        params = inner_update(params, inner_gradients(loss_fn(params, batch), params, first_order), inner_lr)
    return params


# %% id="adapt_climbs" exercise="adapt" says="this climbs the loss"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, first_order), -inner_lr)
    return params


# %% id="adapt_detaches_between_the_steps" exercise="adapt" says="no path leads"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, first_order), inner_lr)
        params = {name: value.detach().requires_grad_() for name, value in params.items()}
    return params


# %% id="adapt_always_first_order" exercise="adapt" says="this is the first-order answer"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    for _ in range(num_steps):
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, True), inner_lr)
    return params


# %% id="adapt_second_order_in_the_last_step_only" exercise="adapt" says="only one of the two steps carries a graph"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    for step in range(num_steps):
        order = first_order or step < num_steps - 1
        params = inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, order), inner_lr)
    return params


# %% id="adapt_changes_the_dictionary" exercise="adapt" says="this is the first-order answer"
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    for _ in range(num_steps):
        params.update(
            inner_update(params, inner_gradients(loss_fn(params, collect(params)), params, first_order), inner_lr)
        )
    return params


# %% id="adapt_with_a_list_of_steps" exercise="adapt" right=true
def adapt(params, collect, loss_fn, inner_lr, num_steps, first_order):

    trail = [params]
    while len(trail) <= num_steps:
        here = trail[-1]
        loss = loss_fn(here, collect(here))
        print("inner loss", loss)
        trail.append(inner_update(here, inner_gradients(loss, here, first_order), inner_lr))
    return trail[-1]


# %% [markdown]
# ## meta-loss-loop


# %% id="loop_with_inner_loss_outside" exercise="meta-loss-loop"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    losses = []

    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(inner_loss(adapted, collect(adapted)))
    return torch.stack(losses).mean()


# %% id="loop_hands_parameters_on" exercise="meta-loss-loop" says="the second task started from"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    losses = []

    for collect in collects:
        params = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(params, collect(params)))
    return torch.stack(losses).mean()


# %% id="loop_outer_episodes_of_theta" exercise="meta-loss-loop" says="played by the unadapted policy"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    losses = []

    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(adapted, collect(params)))
    return torch.stack(losses).mean()


# %% id="loop_running_sum" exercise="meta-loss-loop" right=true
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    total = 0.0

    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        total = total + outer_loss(adapted, collect(adapted)) / len(collects)
    return total


# %% id="loop_adapts_to_the_wrong_task" exercise="meta-loss-loop" says="collect was called too often"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):

    losses = []
    for collect in collects:
        adapted = adapt(params, collects[0], inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(adapted, collect(adapted)))
    return torch.stack(losses).mean()


# %% id="loop_plays_another_tasks_outer_episodes" exercise="meta-loss-loop" says="wrong values"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):

    losses = []
    for number, collect in enumerate(collects):
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(adapted, collects[number - 1](adapted)))
    return torch.stack(losses).mean()


# %% id="loop_is_a_sum" exercise="meta-loss-loop" says="summed over tasks"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):

    total = 0.0
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        total = total + outer_loss(adapted, collect(adapted))
    return total


# %% id="loop_outer_loss_of_theta" exercise="meta-loss-loop" says="the outer loss was taken at theta"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):

    losses = []
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(params, collect(adapted)))
    return torch.stack(losses).mean()


# %% id="loop_uses_inner_episodes_again" exercise="meta-loss-loop" says="must be called K + 1"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):

    losses = []
    for collect in collects:
        batches = []

        def remember(p, collect=collect, batches=batches):
            batches.append(collect(p))
            return batches[-1]

        adapted = adapt(params, remember, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(adapted, batches[-1]))
    return torch.stack(losses).mean()


# %% id="loop_of_numbers" exercise="meta-loss-loop" says="the result has no graph"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):

    losses = []
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
        losses.append(outer_loss(adapted, collect(adapted)).item())
    return torch.tensor(losses).mean()


# %% id="loop_always_first_order" exercise="meta-loss-loop" says="this is the first-order meta-gradient"
def meta_loss_loop(params, collects, inner_loss, outer_loss, inner_lr, num_steps, first_order):

    losses = []
    for collect in collects:
        adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, True)
        losses.append(outer_loss(adapted, collect(adapted)))
    return torch.stack(losses).mean()


# %% [markdown]
# ## meta-loss


# %% id="batched_sum" exercise="meta-loss" says="equation (4) is a mean"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(adapted, collect(adapted)).sum()


# %% id="batched_always_second_order" exercise="meta-loss" says="this is the second-order one"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, False)
    return outer_loss(adapted, collect(adapted)).mean()


# %% id="batched_detached_copies" exercise="meta-loss" says="no path leads back to theta"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.detach().requires_grad_().unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(adapted, collect(adapted)).mean()


# %% id="batched_shared_theta" exercise="meta-loss" says="share one theta"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    adapted = adapt(params, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(adapted, collect(adapted)).mean()


# %% id="batched_with_repeated_copies" exercise="meta-loss" right=true
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: torch.stack([v] * num_tasks) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(adapted, collect(adapted)).mean()


# %% id="batched_outer_loss_of_theta" exercise="meta-loss" says="the outer loss was taken at theta"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(own, collect(adapted)).mean()


# %% id="batched_outer_episodes_of_theta" exercise="meta-loss" says="played by the unadapted policies"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(adapted, collect(own)).mean()


# %% id="batched_always_first_order" exercise="meta-loss" says="this is the first-order meta-gradient"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, True)
    return outer_loss(adapted, collect(adapted)).mean()


# %% id="batched_inner_loss_outside" exercise="meta-loss"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return inner_loss(adapted, collect(adapted)).mean()


# %% id="batched_of_the_first_task_only" exercise="meta-loss" says="only the first task counts"
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    own = {n: v.unsqueeze(0).expand(num_tasks, *v.shape) for n, v in params.items()}
    adapted = adapt(own, collect, inner_loss, inner_lr, num_steps, first_order)
    return outer_loss(adapted, collect(adapted))[0]


# %% id="batched_with_broadcast" exercise="meta-loss" right=true
def meta_loss(params, num_tasks, collect, inner_loss, outer_loss, inner_lr, num_steps, first_order):
    # (float64 inside: the losses are summed with more digits)
    stacked = {}
    for key, value in params.items():
        stacked[key] = value + torch.zeros((num_tasks,) + tuple(value.shape), dtype=value.dtype)
    adapted = adapt(stacked, collect, inner_loss, inner_lr, num_steps, first_order)
    losses = outer_loss(adapted, collect(adapted))
    return (losses.double().sum() / num_tasks).to(losses.dtype)


# %% [markdown]
# ## expected-meta-objective


# %% id="expected_differentiates_the_probabilities" exercise="expected-meta-objective" says="were differentiated too"
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    expected = (p * objective).sum()
    (gradient,) = torch.autograd.grad(expected, theta, create_graph=not first_order)
    return expected_return(theta + inner_lr * gradient, mdp)


# %% id="expected_downhill" exercise="expected-meta-objective" says="the step goes downhill"
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    expected = -(p.detach() * objective).sum()
    (gradient,) = torch.autograd.grad(expected, theta, create_graph=not first_order)
    return expected_return(theta + inner_lr * gradient, mdp)


# %% id="expected_ignores_first_order" exercise="expected-meta-objective" says="the inner gradient is a constant"
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    expected = (p.detach() * objective).sum()
    (gradient,) = torch.autograd.grad(expected, theta, create_graph=True)
    return expected_return(theta + inner_lr * gradient, mdp)


# %% id="expected_as_a_dot_product" exercise="expected-meta-objective" right=true
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    expected = p.detach() @ objective
    (gradient,) = torch.autograd.grad(expected, theta, create_graph=not first_order)
    return expected_return(theta + inner_lr * gradient, mdp)


# %% id="expected_makes_no_step" exercise="expected-meta-objective" says="no step was made"
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    return expected_return(theta, mdp)


# %% id="expected_weights_all_alike" exercise="expected-meta-objective" says="weighted alike"
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    (gradient,) = torch.autograd.grad(objective.sum(), theta, create_graph=not first_order)
    return expected_return(theta + inner_lr * gradient, mdp)


# %% id="expected_always_first_order" exercise="expected-meta-objective"
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    (gradient,) = torch.autograd.grad((p.detach() * objective).sum(), theta)
    return expected_return(theta + inner_lr * gradient, mdp)


# %% id="expected_step_of_twice_the_size" exercise="expected-meta-objective" says="wrong values"
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    (gradient,) = torch.autograd.grad((p.detach() * objective).sum(), theta, create_graph=not first_order)
    return expected_return(theta + 2 * inner_lr * gradient, mdp)


# %% id="expected_as_einsum" exercise="expected-meta-objective" right=true
def expected_meta_objective(theta, mdp, surrogate, inner_lr, first_order):
    trajectories = all_trajectories(mdp)
    p = trajectory_probabilities(theta, mdp, trajectories)
    advantages = reward_to_go(trajectories.rewards)
    objective = surrogate(log_probs(theta, trajectories), advantages, torch.ones_like(advantages))
    weights = p.detach().clone()
    mean = torch.einsum("n,n->", weights, objective)
    slope = torch.autograd.grad(mean, [theta], create_graph=True)[0]
    slope = slope.detach() if first_order else slope
    return expected_return(torch.add(theta, slope, alpha=inner_lr), mdp)
