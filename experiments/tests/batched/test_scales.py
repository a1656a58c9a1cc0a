"""Running scales: statistics of everything seen, a row for each member."""

import torch

from popbandits_experiments.batched.scales import RunningScale

CPU = torch.device("cpu")


def test_a_scale_is_that_of_all_rows_and_one_at_a_distance_of_1_from_0() -> None:
    generator = torch.Generator().manual_seed(0)
    factor, shift = torch.tensor([1.0, 50.0, 1e-3]), torch.tensor([0.0, -300.0, 4.0])
    batches = [torch.randn(2, rows, 3, generator=generator) * factor + shift for rows in (5, 40, 1)]
    scale = RunningScale(2, 3, CPU)
    for batch in batches:
        scale.update(batch)
    rows = torch.cat([torch.zeros(2, 1, 3), *batches], 1).double()
    mean = rows.mean(1, keepdim=True)
    variance = ((rows - mean).square().sum(1, keepdim=True) + 1) / rows.shape[1]
    torch.testing.assert_close(scale.mean, mean.squeeze(1), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(scale.squares / scale.count, variance.squeeze(1), rtol=1e-5, atol=0)
    asked = rows.float() * 1.5
    expected = (asked - mean) / variance.sqrt()
    torch.testing.assert_close(scale.normalise(asked), expected.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scale.shrink(asked), (asked / variance.sqrt()).float(), rtol=1e-5, atol=0)


def test_a_new_scale_changes_nothing_up_to_10() -> None:
    rows = torch.tensor([[[-11.0, 0.25, 10.5]]])
    assert RunningScale(1, 3, CPU).normalise(rows).tolist() == [[[-10, 0.25, 10]]]
    assert RunningScale(1, 3, CPU).shrink(rows).tolist() == rows.tolist()


def test_normalising_leaves_the_rows_that_it_is_given() -> None:
    scale, rows = RunningScale(1, 1, CPU), torch.full((1, 1, 1), 20.0)
    scale.normalise(rows)
    assert rows.item() == 20


def test_rows_of_one_member_do_not_move_the_scale_of_another() -> None:
    one, two = RunningScale(2, 1, CPU), RunningScale(2, 1, CPU)
    rows = torch.tensor([[[1.0], [2.0]], [[5.0], [6.0]]])
    one.update(rows)
    two.update(rows * torch.tensor([1.0, torch.nan])[:, None, None])
    assert all(torch.equal(one.state[name][0], two.state[name][0]) for name in one.state)
    assert torch.equal(one.normalise(rows)[0], two.normalise(rows)[0])
    assert two.normalise(rows)[1].isnan().all()


def test_a_state_that_was_loaded_acts_after_a_refresh() -> None:
    seen, other = RunningScale(1, 1, CPU), RunningScale(1, 1, CPU)
    seen.update(torch.tensor([[[3.0], [9.0]]]))
    for name, tensor in other.state.items():
        tensor.copy_(seen.state[name])
    other.refresh()
    rows = torch.tensor([[[4.0]]])
    assert torch.equal(seen.normalise(rows), other.normalise(rows))
    assert not torch.equal(seen.normalise(rows), rows)
