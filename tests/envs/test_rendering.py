"""Pictures and text of levels."""

from itertools import combinations

import numpy as np
import pytest

from metapcg.envs import draw_level, from_text, gallery, to_text
from metapcg.envs.rendering import CHARACTERS, TILE_SIZE, tile_images
from metapcg.games import GAMES, get_game
from metapcg.games.tiles import NUM_CODES, OUTSIDE


def test_all_tiles_and_the_border_look_different():
    images = tile_images().astype(float)
    assert images.shape == (NUM_CODES, 16, 16, 3)
    for one, other in combinations(range(NUM_CODES), 2):
        differing = (np.abs(images[one] - images[other]).sum(axis=-1) > 60).mean()
        assert differing > 0.2, f"tiles {one} and {other} share too many pixels"


@pytest.mark.parametrize("game", GAMES)
def test_every_cell_shows_its_tile(game):
    codes = np.asarray(get_game(game).codes)
    level = np.arange(3 * len(codes)).reshape(3, -1) % len(codes)
    image = draw_level(level, game)
    height, width = (side + 2 for side in level.shape)
    assert image.dtype == np.uint8 and image.shape == (height * 16, width * 16, 3)
    cells = image.reshape(height, TILE_SIZE, width, TILE_SIZE, 3).swapaxes(1, 2)
    assert np.array_equal(cells[1:-1, 1:-1], tile_images()[codes[level]])
    border = np.ones((height, width), bool)
    border[1:-1, 1:-1] = False
    assert (cells[border] == tile_images()[OUTSIDE]).all()
    assert np.array_equal(draw_level(level, game, border=False), image[16:-16, 16:-16])
    assert np.array_equal(draw_level(level, game, scale=3)[::3, ::3], image)


def test_position_frames_its_cell_only():
    level = np.zeros((3, 4), int)
    changed = (draw_level(level, "binary") != draw_level(level, "binary", position=[2, 1])).any(axis=-1)
    frame = np.zeros_like(changed)
    frame[32:48, 48:64] = True  # cell (2, 1) behind a border of one tile
    frame[34:46, 50:62] = False
    assert np.array_equal(changed, frame)


def test_gallery_places_levels_row_by_row():
    levels = [np.zeros((2, 3), int), np.ones((4, 1), int), np.ones((1, 1), int)]
    sheet = gallery(levels, "binary", columns=2, gap=5, border=False)
    assert sheet.shape == (2 * (64 + 5) + 5, 2 * (48 + 5) + 5, 3)
    for level, (row, column) in zip(levels, [(0, 0), (0, 1), (1, 0)], strict=True):
        image = draw_level(level, "binary", border=False)
        top, left = 5 + row * 69, 5 + column * 53
        assert np.array_equal(sheet[top : top + image.shape[0], left : left + image.shape[1]], image)
    assert (sheet[-69:, -53:] == 255).all()
    assert gallery(levels[:1] * 9, "binary", gap=0, border=False).shape == (3 * 32, 3 * 48, 3)


@pytest.mark.parametrize("game", GAMES)
def test_text_and_back(game):
    level = np.random.default_rng(0).integers(0, len(get_game(game).tiles), (5, 8))
    text = to_text(level, game)
    assert [len(line) for line in text.split("\n")] == [8] * 5
    assert np.array_equal(from_text(text, game), level)
    assert len(set(CHARACTERS)) == 10


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: draw_level([[2]], "binary"), "level"),
        (lambda: draw_level([[-1]], "binary"), "level"),
        (lambda: draw_level([0, 1], "binary"), "level"),
        (lambda: draw_level([[0.5]], "binary"), "level"),
        (lambda: draw_level([[0]], "binary", position=[1, 0]), "position"),
        (lambda: draw_level([[0]], "binary", scale=0), "scale"),
        (lambda: draw_level([[0]], "chess"), "game"),
        (lambda: gallery([], "binary"), "levels"),
        (lambda: gallery([[[0]]], "binary", columns=0), "columns"),
        (lambda: gallery([[[0]]], "binary", gap=-1), "gap"),
        (lambda: from_text("..\n.", "binary"), "text"),
        (lambda: from_text(".@", "binary"), "text"),
        (lambda: from_text("", "binary"), "text"),
    ],
)
def test_mistakes_are_refused_by_name(call, name):
    with pytest.raises(ValueError, match=name):
        call()
