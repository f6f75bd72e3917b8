"""Steps of the examples of dm-haiku, jraph, distrax and optax (github.com/google-deepmind)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.campaigns.jax_examples_zoo.data import draw, draw_integers
from tests.campaigns.jax_examples_zoo.loading import first_call
from tests.campaigns.jax_examples_zoo.models import JaxExample, Made


def loading(batch: Any) -> Callable[..., Iterator[Any]]:
    """Replacement of an example's `load_dataset`: the same batch again and again."""

    def load(*_: Any, **__: Any) -> Iterator[Any]:
        while True:
            yield batch

    return load


def alone(step: Callable[..., Any], *arguments: Any) -> Made:
    """A step that returns its state and nothing else."""
    return lambda *arguments: (step(*arguments),), arguments


def taking(step: Callable[..., Any], state: tuple[Any, ...], *others: Any) -> Made:
    """Wrap `step` so that its first arguments, and its first results, form a tuple (the state)."""
    parts = len(state)

    def run(state: Any, *others: Any) -> Any:
        results = step(*state, *others)
        return (tuple(results[:parts]), *results[parts:])

    return run, (tuple(state), *others)


def _haiku_mnist(script: Any) -> Made:
    script.load_dataset = loading(script.Batch(image=draw(8, 12, 12, 1), label=draw_integers(8, below=10)))
    return _quiet(script, "update")


def _quiet(script: Any, name: str) -> Made:
    """Return the step `name` that the script's `main` compiles."""
    step, arguments = first_call(lambda: script.main([]), name)
    return alone(step, *arguments)


def _haiku_vae(script: Any) -> Made:
    script.load_dataset = loading(script.Batch(image=(draw(8, 8, 8, 1) > 0).astype(np.float32)))
    return _quiet(script, "update")


def _haiku_pruning(script: Any) -> Made:
    """The mask of the largest weights is found anew in each step."""
    from haiku import transform, without_apply_rng

    network, tx = without_apply_rng(transform(script.net_fn)), optax.adam(1e-3)
    batch = {"image": draw(8, 8, 8, 1), "label": draw_integers(8, below=10)}
    params = network.init(jax.random.PRNGKey(0), batch)
    sparsity = ((lambda m, n, v: m.endswith("linear_1") and not script.sparsity_ignore(m, n, v), 0.9),)

    def step(state: Any, batch: Any) -> Any:
        params, memory = state
        masks = script.update_mask(params, 0.5, sparsity)
        loss = lambda params: -jnp.mean(jax.nn.log_softmax(network.apply(params, batch))[:, 0])
        gradients = jax.grad(loss)(script.apply_mask(params, masks, sparsity))
        updates, memory = tx.update(gradients, memory)
        updates = script.apply_mask(updates, masks, sparsity)
        return (optax.apply_updates(params, updates), memory), script.get_sparsity(params)

    return step, ((params, tx.init(params)), batch)


def _haiku_transformer(script: Any) -> Made:
    script.NUM_LAYERS, script.NUM_HEADS, script.MODEL_SIZE, script.KEY_SIZE = 2, 4, 16, 4
    tokens = draw_integers(4, 13, below=script.dataset.VOCAB_SIZE)
    batch = script.dataset.Batch(inputs=tokens[:, :-1], targets=tokens[:, 1:])
    return script.update, (script.init(jax.random.PRNGKey(0), batch), batch)


def _haiku_rnn(script: Any) -> Made:
    import haiku

    script.flags.FLAGS.hidden_size = 16
    batch = {"input": draw_integers(6, 4, below=128), "target": draw_integers(6, 4, below=128, seed=2)}
    params = haiku.transform(script.sequence_loss).init(jax.random.PRNGKey(0), batch)
    state = script.TrainingState(params, script.make_optimizer().init(params))
    return alone(script.update, state, batch)


def _jraph(script: Any, problem: str, limits: tuple[int, int]) -> Made:
    import random

    random.seed(0), np.random.seed(0)
    drawn = getattr(script, problem)(*limits)
    step, arguments = first_call(lambda: script.train(1), "update")
    params, memory, _ = arguments
    return taking(step, (params, memory), drawn)


def _jraph_club(script: Any) -> Made:
    step, state = first_call(lambda: script.optimize_club(1), "update")
    return lambda state: (step(*state),), (state,)


def _distrax_vae(script: Any) -> Made:
    script.load_dataset = loading({"image": (draw(4, 28, 28, 1) > 0).astype(np.float32)})
    step, (params, key, memory, batch) = first_call(lambda: script.main([]), "update")
    return lambda state, key, batch: (step(state[0], key, state[1], batch),), ((params, memory), key, batch)


def _distrax_hmm(script: Any) -> Made:
    import distrax

    states, changes = script.build_latent_state(4, 4, 0.05)
    tx, rates = optax.adam(1e-1), jnp.log(jnp.abs(draw(4)) + 1)

    def step(state: Any, counts: Any) -> Any:
        def loss(rates: Any) -> Any:
            prior = distrax.LogStddevNormal(5, 5)
            forward = script.make_hmm(rates, changes, states).forward(counts)[0]
            return -(jnp.sum(prior.log_prob(jnp.exp(rates))) + forward)

        value, gradients = jax.value_and_grad(loss)(state[0])
        updates, memory = tx.update(gradients, state[1])
        return (optax.apply_updates(state[0], updates), memory), value

    return step, ((rates, tx.init(rates)), draw_integers(16, below=9).astype(float))


def _optax_meta(notebook: Any) -> Made:
    notebook.opt = optax.inject_hyperparams(optax.rmsprop)(learning_rate=jnp.array(0.1))
    notebook.meta_opt = optax.adam(0.03)
    theta, eta = jnp.asarray(draw(8)[:1]), jnp.array(-2.0)
    notebook.loss = lambda theta, x, y: optax.l2_loss(y, notebook.f(theta, x)).mean()
    samples = [(draw(8, seed=n), draw(8, seed=n + 9)) for n in range(4)]
    state = eta, theta, notebook.meta_opt.init(eta), notebook.opt.init(theta)
    return taking(notebook.outer_step, state, samples)


def _optax_sam(notebook: Any) -> Made:
    adversary = optax.chain(notebook.contrib.normalize(), optax.adam(0.03))
    notebook.np = jnp
    tx = notebook.contrib.sam(optax.adam(1e-3), adversary, sync_period=2, opaque_mode=True)
    params, loss = jnp.asarray(draw(2, 12)), notebook.loss
    notebook.loss = lambda params: loss(params).mean()
    store = notebook.Store(params=params, state=tx.init(params), step=jnp.array(0))
    return notebook.make_step(tx), (store,)


def _optax_perturbed(notebook: Any) -> Made:
    notebook.pert_ranking = notebook.perturbations.make_perturbed_fun(notebook.ranking, num_samples=12, sigma=0.2)

    def step(values: Any, key: Any) -> Any:
        value, gradient = jax.value_and_grad(notebook.loss_example)(values, key)
        return values - 0.1 * gradient, value

    return step, (jnp.asarray(draw(12)), jax.random.PRNGKey(0))


def _optax_lbfgs(notebook: Any) -> Made:
    """A whole minimization, by a loop that ends where the gradient is small."""

    def rosenbrock(w: Any) -> Any:
        return jnp.sum(100.0 * (w[1:] - w[:-1] ** 2) ** 2 + (1.0 - w[:-1]) ** 2)

    run = lambda params: (notebook.run_opt(params, rosenbrock, optax.lbfgs(), max_iter=3, tol=1e-3)[0],)
    return run, (jnp.asarray(draw(12)),)


def _optax_line_search(notebook: Any, search: str, **options: Any) -> Made:
    tx = optax.chain(optax.sgd(1.0), getattr(optax, search)(8, **options))
    x, y = draw(12, 8), draw(12, 4, seed=1)

    def step(state: Any, x: Any, y: Any) -> Any:
        loss = lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2)
        value, gradient = optax.value_and_grad_from_state(loss)(state[0], state=state[1])
        updates, memory = tx.update(gradient, state[1], state[0], value=value, grad=gradient, value_fn=loss)
        return (optax.apply_updates(state[0], updates), memory), value

    weight = jnp.asarray(draw(8, 4, seed=2))
    return step, ((weight, tx.init(weight)), x, y)


def _optax_assignment(notebook: Any) -> Made:

    def step(x: Any, y: Any) -> Any:
        distance, gradient = jax.value_and_grad(lambda x: notebook.get_optimal_transport(x, y)[1])(x)
        return x - 0.1 * gradient, distance

    return step, (jnp.asarray(draw(12, 2)), draw(12, 2, seed=1))


HAIKU, JRAPH, DISTRAX, OPTAX = "haiku/examples", "jraph/jraph/examples", "distrax/examples", "optax/examples"
EXAMPLES = {
    "haiku mnist": JaxExample(f"{HAIKU}/mnist.py", _haiku_mnist),
    "haiku vae": JaxExample(f"{HAIKU}/vae.py", _haiku_vae),
    "haiku pruning": JaxExample(f"{HAIKU}/mnist_pruning.py", _haiku_pruning),
    "haiku transformer": JaxExample(f"{HAIKU}/transformer/train.py", _haiku_transformer),
    "haiku rnn": JaxExample(f"{HAIKU}/rnn/train.py", _haiku_rnn),
    "jraph sat": JaxExample(f"{JRAPH}/sat.py", partial(_jraph, problem="get_2sat_problem", limits=(2, 4))),
    "jraph higgs": JaxExample(
        f"{JRAPH}/higgs_detection.py", partial(_jraph, problem="get_higgs_problem", limits=(2, 4))
    ),
    "jraph karate club": JaxExample(f"{JRAPH}/zacharys_karate_club.py", _jraph_club),
    "distrax vae": JaxExample(f"{DISTRAX}/vae.py", _distrax_vae),
    "distrax hidden markov model": JaxExample(f"{DISTRAX}/hmm.py", _distrax_hmm),
    "optax meta-learning": JaxExample(f"{OPTAX}/meta_learning.ipynb", _optax_meta),
    "optax perturbed ranks": JaxExample(f"{OPTAX}/perturbations.ipynb", _optax_perturbed),
    "optax l-bfgs": JaxExample(f"{OPTAX}/lbfgs.ipynb", _optax_lbfgs),
    "optax backtracking": JaxExample(
        f"{OPTAX}/lbfgs.ipynb", partial(_optax_line_search, search="scale_by_backtracking_linesearch", store_grad=True)
    ),
    "optax zoom line search": JaxExample(
        f"{OPTAX}/lbfgs.ipynb", partial(_optax_line_search, search="scale_by_zoom_linesearch")
    ),
    "optax assignment": JaxExample(f"{OPTAX}/linear_assignment_problem.ipynb", _optax_assignment),
    "optax sharpness-aware": JaxExample(f"{OPTAX}/contrib/sam.ipynb", _optax_sam),
}
