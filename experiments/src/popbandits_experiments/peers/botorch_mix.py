"""PB2-Mix's model and acquisition in BoTorch and GPyTorch: our kernel, fitted and searched by their defaults.

| symbol | meaning | shape |
|---|---|---|
| x | continuous parameters in [0, 1] | (n, 4) |
| h | category | (n,) |
| t | round | (n,) |
| z | columns x, h, t, called X in BoTorch | (n, 6) |
| y | change in score, standardised | (n,) |

Chosen in BoTorch's favour: the kernel is one module, not a tree of many; positive numbers are fitted through
a softplus and numbers in (0, 1) through a sigmoid, GPyTorch's usual way (a small eps is then its logarithm);
one start, which is the default of `fit_gpytorch_mll`; nothing is conditioned on the members still training.
Importing BoTorch makes GPyTorch exact (Cholesky) up to n = 4,096. Torch keeps its default number of threads.
"""

from time import perf_counter

import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.constraints import GreaterThan, Interval, Positive
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from popbandits.explorers.surrogate import standardise
from popbandits.history import History
from popbandits.models.acquisition import confidence

H, T = 4, 5  # columns of z
# The fastest of seven starts that reached the best likelihood on each of ten histories.
START = {"s1": 0.5, "s2": 0.5, "l": 0.5, "eps1": 0.01, "eps2": 0.01, "lam": 0.5}
NOISE, NOISE_FLOOR = 0.1, 1e-6  # variances


class MixKernel(Kernel):
    """k = (1-lam)(k_x k_t1 + k_h k_t2) + lam k_x k_t1 k_h k_t2.

    k_x = s1 exp(-|x-x'|^2 / l), k_h = s2 [h = h'], k_ti = (1-eps_i)^(|t-t'|/2).
    """

    has_lengthscale = False

    def __init__(self) -> None:
        super().__init__()
        for name, value in START.items():
            constraint = Positive() if name in ("s1", "s2", "l") else Interval(0.0, 1.0)
            raw = constraint.inverse_transform(torch.tensor(value, dtype=torch.float64))
            self.register_parameter(f"raw_{name}", torch.nn.Parameter(raw))
            self.register_constraint(f"raw_{name}", constraint)

    def value(self, name: str) -> Tensor:
        """Return a hyperparameter on its own scale."""
        return self.constraint_for_parameter_name(f"raw_{name}").transform(getattr(self, f"raw_{name}"))

    def forward(self, z1: Tensor, z2: Tensor, diag: bool = False, **_: object) -> Tensor:
        s1, s2, length, eps1, eps2, lam = map(self.value, START)
        if diag:
            return ((1 - lam) * (s1 + s2) + lam * s1 * s2).expand(z1.shape[:-1])
        lag = (z1[..., T, None] - z2[..., None, :, T]).abs() / 2
        same = z1[..., H, None] == z2[..., None, :, H]
        squared = self.covar_dist(z1[..., :H], z2[..., :H], square_dist=True)
        k_xt = s1 * torch.exp(lag * torch.log1p(-eps1) - squared / length)
        k_ht = s2 * torch.exp(lag * torch.log1p(-eps2)) * same
        return (1 - lam) * (k_xt + k_ht) + lam * k_xt * k_ht


def decide(history: History) -> tuple[float, float]:
    """Return the seconds of one fit and one search for the next round's x, and the log marginal likelihood reached.

    The label is the last observation's, in place of the bandit's draw.
    """
    torch.manual_seed(0)
    rows = history.recent()
    z = torch.tensor(np.column_stack([rows.points.x, rows.points.h, rows.stage]))
    y = torch.tensor(standardise(rows.targets()))[:, None]

    start = perf_counter()
    likelihood = GaussianLikelihood(noise_constraint=GreaterThan(NOISE_FLOOR, initial_value=NOISE))
    model = SingleTaskGP(
        z,
        y,
        likelihood=likelihood.double(),
        covar_module=MixKernel(),
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    mll = ExactMarginalLogLikelihood(likelihood, model)
    fit_gpytorch_mll(mll)

    fixed = {H: z[-1, H].item(), T: z[-1, T].item() + 1}
    optimize_acqf(
        UpperConfidenceBound(model, beta=confidence(len(rows)) ** 2),  # mean + sqrt(beta) std, as ours
        bounds=torch.tensor([[0.0, 1.0]] * H + [[value] * 2 for value in fixed.values()], dtype=torch.float64).T,
        q=1,
        num_restarts=5,
        raw_samples=256,
        fixed_features=fixed,
    )
    seconds = perf_counter() - start

    model.train()
    with torch.no_grad():
        return seconds, len(rows) * mll(model(*model.train_inputs), model.train_targets).item()  # mll is a mean
